package envoyconfig

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	routepb "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcher "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// test reports whether a text matches.
type test func(s string) bool

// stringTest returns the test of a StringMatcher, or what of it is not known.
func stringTest(m *matcher.StringMatcher) (test, error) {
	fold := m.GetIgnoreCase()
	switch p := m.GetMatchPattern().(type) {
	case *matcher.StringMatcher_Exact:
		return exactTest(p.Exact, fold), nil
	case *matcher.StringMatcher_Prefix:
		return prefixTest(p.Prefix, fold), nil
	case *matcher.StringMatcher_Suffix:
		return func(s string) bool {
			from := len(s) - len(p.Suffix)
			return from >= 0 && equal(s[from:], p.Suffix, fold)
		}, nil
	case *matcher.StringMatcher_Contains:
		return containsTest(p.Contains, fold), nil
	case *matcher.StringMatcher_SafeRegex:
		return regexTest(p.SafeRegex.GetRegex())
	case nil:
		return nil, fmt.Errorf("a string matcher says nothing, one of exact, prefix, suffix, contains and safe_regex is needed")
	default:
		return nil, unusable("a string matcher of an extension is not known here")
	}
}

func exactTest(want string, fold bool) test {
	return func(s string) bool { return equal(s, want, fold) }
}

func prefixTest(prefix string, fold bool) test {
	return func(s string) bool { return len(s) >= len(prefix) && equal(s[:len(prefix)], prefix, fold) }
}

func containsTest(part string, fold bool) test {
	return func(s string) bool {
		if !fold {
			return strings.Contains(s, part)
		}
		for i := 0; i+len(part) <= len(s); i++ {
			if equal(s[i:i+len(part)], part, true) {
				return true
			}
		}
		return false
	}
}

// regexTest returns a test of the whole text.
func regexTest(text string) (test, error) {
	re, err := regexp.Compile(`\A(?:` + text + `)\z`)
	if err != nil {
		return nil, fmt.Errorf("the regular expression cannot be read: %w", err)
	}
	return re.MatchString, nil
}

// equal compares texts, without the case of ASCII letters if fold.
func equal(a, b string, fold bool) bool {
	if a == b || !fold || len(a) != len(b) {
		return a == b
	}
	for i := range len(a) {
		if lowerByte(a[i]) != lowerByte(b[i]) {
			return false
		}
	}
	return true
}

// lower returns s with ASCII letters in lower case.
func lower(s string) string {
	for i := range len(s) {
		if c := s[i]; lowerByte(c) != c {
			b := []byte(s)
			for ; i < len(b); i++ {
				b[i] = lowerByte(b[i])
			}
			return string(b)
		}
	}
	return s
}

func lowerByte(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// headerTest is a HeaderMatcher. Without a test the header must be there or, if absent, not.
type headerTest struct {
	name   header
	test   test
	absent bool
	invert bool
	empty  bool // a header that is not there is empty
}

// newHeaderTest returns the test, or what of it is not known.
func newHeaderTest(m *routepb.HeaderMatcher) (headerTest, error) {
	h := headerTest{name: headerNamed(m.GetName()), invert: m.GetInvertMatch(), empty: m.GetTreatMissingHeaderAsEmpty()}
	if h.name == "" {
		return h, fmt.Errorf("the name of a header is needed")
	}
	var err error
	switch s := m.GetHeaderMatchSpecifier().(type) {
	case nil:
	case *routepb.HeaderMatcher_PresentMatch:
		h.absent = !s.PresentMatch
	case *routepb.HeaderMatcher_StringMatch:
		h.test, err = stringTest(s.StringMatch)
	case *routepb.HeaderMatcher_RangeMatch:
		from, to := s.RangeMatch.GetStart(), s.RangeMatch.GetEnd()
		h.test = func(s string) bool {
			if strings.Trim(s, "+-0123456789") != "" { // an error takes memory
				return false
			}
			n, err := strconv.ParseInt(s, 10, 64)
			return err == nil && from <= n && n < to
		}
	case *routepb.HeaderMatcher_ExactMatch:
		h.test = exactTest(s.ExactMatch, false) //nolint:staticcheck // deprecated, and in many files
	case *routepb.HeaderMatcher_PrefixMatch:
		h.test = prefixTest(s.PrefixMatch, false) //nolint:staticcheck // deprecated, and in many files
	case *routepb.HeaderMatcher_SuffixMatch:
		h.test = func(v string) bool { return strings.HasSuffix(v, s.SuffixMatch) } //nolint:staticcheck // deprecated, and in many files
	case *routepb.HeaderMatcher_ContainsMatch:
		h.test = containsTest(s.ContainsMatch, false) //nolint:staticcheck // deprecated, and in many files
	case *routepb.HeaderMatcher_SafeRegexMatch:
		h.test, err = regexTest(s.SafeRegexMatch.GetRegex()) //nolint:staticcheck // deprecated, and in many files
	default:
		err = fmt.Errorf("this matcher of headers is not known here")
	}
	return h, err
}

// matches reports whether the header of a request matches: one of its values passes
// the test or, inverted, none does. A header that is not there matches no test, not even
// an inverted one.
func (h *headerTest) matches(t *Request) bool {
	if h.test == nil {
		_, ok := h.name.first(t)
		return (ok || h.empty) != h.absent != h.invert
	}
	there, passed := h.name.any(t, h.test)
	switch {
	case there:
		return passed != h.invert
	case h.empty:
		return h.test("") != h.invert
	default:
		return false
	}
}

// parameterTest is a QueryParameterMatcher. Without a test the parameter must be there
// or, if absent, not.
type parameterTest struct {
	name   string
	test   test
	absent bool
	decode bool
}

func newParameterTest(m *routepb.QueryParameterMatcher, decode bool) (parameterTest, error) {
	p := parameterTest{name: m.GetName(), decode: decode}
	if p.name == "" {
		return p, fmt.Errorf("the name of a query parameter is needed")
	}
	var err error
	switch s := m.GetQueryParameterMatchSpecifier().(type) {
	case nil:
	case *routepb.QueryParameterMatcher_PresentMatch:
		p.absent = !s.PresentMatch
	case *routepb.QueryParameterMatcher_StringMatch:
		p.test, err = stringTest(s.StringMatch)
	default:
		err = fmt.Errorf("this matcher of query parameters is not known here")
	}
	return p, err
}

func (p *parameterTest) matches(t *Request) bool {
	value, ok := parameter(t.query, p.name, p.decode)
	if p.test == nil {
		return ok != p.absent
	}
	return ok && p.test(value)
}
