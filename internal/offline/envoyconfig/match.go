package envoyconfig

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	routepb "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcher "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"weir/internal/descriptors/plaintext"
)

// test reports whether a text matches.
type test func(s string) bool

// condition reports whether a request passes.
type condition func(t *Request) bool

// passAll reports whether a request passes all conditions.
func passAll(all []condition, t *Request) bool {
	return !slices.ContainsFunc(all, func(c condition) bool { return !c(t) })
}

func conditions[M any](list []M, of func(M) (condition, error)) (all []condition, err error) {
	for _, m := range list {
		c, err := of(m)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// stringTest returns the test of a StringMatcher. It fails if the matcher is invalid or not supported.
func stringTest(m *matcher.StringMatcher) (test, error) {
	fold := m.GetIgnoreCase()
	switch p := m.GetMatchPattern().(type) {
	case *matcher.StringMatcher_Exact:
		return func(s string) bool { return equal(s, p.Exact, fold) }, nil
	case *matcher.StringMatcher_Prefix:
		return func(s string) bool { return equal(s[:min(len(s), len(p.Prefix))], p.Prefix, fold) }, nil
	case *matcher.StringMatcher_Suffix:
		return func(s string) bool { return equal(s[max(0, len(s)-len(p.Suffix)):], p.Suffix, fold) }, nil
	case *matcher.StringMatcher_Contains:
		return func(s string) bool {
			for i := 0; i+len(p.Contains) <= len(s); i++ {
				if equal(s[i:i+len(p.Contains)], p.Contains, fold) {
					return true
				}
			}
			return false
		}, nil
	case *matcher.StringMatcher_SafeRegex: // must match the full text
		re, err := regexp.Compile(`\A(?:` + p.SafeRegex.GetRegex() + `)\z`)
		if err != nil {
			return nil, fmt.Errorf("the regular expression is invalid: %w", err)
		}
		return re.MatchString, nil
	default:
		return nil, unusable("a string matcher of an extension is not supported")
	}
}

// equal reports whether two texts are equal. If fold is true, it ignores case.
func equal(a, b string, fold bool) bool { return a == b || fold && strings.EqualFold(a, b) }

// headerCondition returns the condition of a HeaderMatcher. Without a test, the matcher checks whether the header is
// present. With a test, at least one value of the header must pass or, if the matcher is inverted, no value may pass.
// A missing header then fails, even if the matcher is inverted, unless the matcher treats it as empty.
func (r *reader) headerCondition(m *routepb.HeaderMatcher) (condition, error) {
	name := r.lookAt(m.GetName())
	invert, empty, present := m.GetInvertMatch(), m.GetTreatMissingHeaderAsEmpty(), true
	var passes test
	var err error
	switch s := m.GetHeaderMatchSpecifier().(type) {
	case nil:
	case *routepb.HeaderMatcher_PresentMatch:
		present = s.PresentMatch
	case *routepb.HeaderMatcher_RangeMatch:
		passes = rangeTest(s.RangeMatch)
	case *routepb.HeaderMatcher_StringMatch:
		passes, err = stringTest(s.StringMatch)
	}
	return func(t *Request) bool {
		_, there, passed := t.header(name, passes)
		if passes == nil {
			return ((there || empty) == present) != invert
		}
		if !there && empty {
			there, passed = true, passes("")
		}
		return there && passed != invert
	}, err
}

// rangeTest returns a test for texts that are numbers in a range. The range excludes its end.
func rangeTest(m *typepb.Int64Range) test {
	return func(s string) bool {
		if strings.Trim(s, "+-0123456789") != "" { // avoids ParseInt's error, which allocates
			return false
		}
		n, err := strconv.ParseInt(s, 10, 64)
		return err == nil && m.GetStart() <= n && n < m.GetEnd()
	}
}

// parameterCondition returns a function that returns the condition of a QueryParameterMatcher. For decode, see
// the function parameter.
func (r *reader) parameterCondition(decode bool) func(*routepb.QueryParameterMatcher) (condition, error) {
	return func(m *routepb.QueryParameterMatcher) (c condition, err error) {
		r.lookAt(":path")
		name, present, passes := m.GetName(), true, test(func(string) bool { return true })
		switch s := m.GetQueryParameterMatchSpecifier().(type) {
		case *routepb.QueryParameterMatcher_PresentMatch:
			present = s.PresentMatch
		case *routepb.QueryParameterMatcher_StringMatch:
			passes, err = stringTest(s.StringMatch)
		}
		return func(t *Request) bool {
			value, ok := parameter(t.query, name, decode)
			return (ok && passes(value)) == present
		}, err
	}
}

// parameter returns the first value of a parameter in a query, and whether the query has
// the parameter. If decode is true, parameter decodes names and values, as Envoy does for
// rate limits. Otherwise it takes both as sent, as Envoy does for routes.
func parameter(query, name string, decode bool) (value string, ok bool) {
	for query != "" {
		var part string
		part, query, _ = strings.Cut(query, "&")
		key, value, _ := strings.Cut(part, "=")
		switch {
		case !decode && key == name:
			return value, true
		case decode && plaintext.Decode(key, "%") == name:
			return plaintext.Decode(value, "%"), true
		}
	}
	return "", false
}

// cookieCondition returns the condition of a CookieMatcher: the first cookie with m's name passes m's test or,
// if m is inverted, fails it. If no cookie has the name, the condition passes only if m is inverted.
func (r *reader) cookieCondition(m *routepb.CookieMatcher) (condition, error) {
	name := r.lookAt("cookie")
	passes, err := stringTest(m.GetStringMatch())
	return func(t *Request) bool {
		for i := range t.Headers {
			if t.Headers[i].Name != name {
				continue
			}
			for part := range strings.SplitSeq(t.Headers[i].Value, ";") {
				cookie, value, _ := strings.Cut(strings.TrimLeft(part, " \t"), "=")
				if cookie == m.GetName() {
					return passes(strings.Trim(value, `"`)) != m.GetInvertMatch()
				}
			}
		}
		return m.GetInvertMatch()
	}, err
}

// routeMatch reads the match of a route. It returns false if the match is invalid or not supported.
func (r *reader) routeMatch(route *node) (all []condition, ok bool) {
	n, m := route.get("match"), new(routepb.RouteMatch)
	if n == nil {
		r.problem(route, "the field match is required")
		return nil, false
	}
	if !r.message(n, m) {
		return nil, false
	}
	all, err := r.matchConditions(m)
	if err != nil {
		r.cannot(n, err, "this route and its rate limits are skipped, its requests go to the next route")
		return nil, false
	}
	if fraction := n.get("runtime_fraction"); fraction != nil {
		r.note(fraction, "runtime_fraction is ignored, the route takes all requests that match")
	}
	return all, true
}

// hasPath is the condition of all routes without a connect_matcher, because a CONNECT request has no path.
func hasPath(t *Request) bool { return t.path != "" || !isConnect(t) }

func isConnect(t *Request) bool {
	method, _, _ := t.header(":method", nil)
	return method == http.MethodConnect
}

func (r *reader) matchConditions(m *routepb.RouteMatch) (all []condition, err error) {
	if m.GetTlsContext() != nil || len(m.GetDynamicMetadata())+len(m.GetFilterState()) > 0 {
		return nil, unusable("tls_context, dynamic_metadata and filter_state are not part of a request")
	}
	path, err := r.pathTest(m)
	if err != nil {
		return nil, err
	}
	if m.GetConnectMatcher() != nil {
		r.lookAt(":method")
		all = append(all, isConnect)
	} else {
		all = append(all, hasPath)
	}
	if path != nil {
		r.lookAt(":path")
		all = append(all, func(t *Request) bool { return path(t.path) })
	}
	if m.GetGrpc() != nil {
		header, media := r.lookAt("content-type"), "application/grpc"
		all = append(all, func(t *Request) bool {
			value, _, _ := t.header(header, nil)
			return value == media || strings.HasPrefix(value, media+"+")
		})
	}
	headers, err1 := conditions(m.GetHeaders(), r.headerCondition)
	parameters, err2 := conditions(m.GetQueryParameters(), r.parameterCondition(false))
	cookies, err3 := conditions(m.GetCookies(), r.cookieCondition)
	return slices.Concat(all, headers, parameters, cookies), cmp.Or(err1, err2, err3)
}

// pathTest returns the test of the path, or nil if all paths pass.
func (r *reader) pathTest(m *routepb.RouteMatch) (test, error) {
	text := &matcher.StringMatcher{IgnoreCase: m.GetCaseSensitive() != nil && !m.GetCaseSensitive().GetValue()}
	switch p := m.GetPathSpecifier().(type) {
	case *routepb.RouteMatch_Prefix:
		if p.Prefix == "/" || p.Prefix == "" {
			return nil, nil
		}
		text.MatchPattern = &matcher.StringMatcher_Prefix{Prefix: p.Prefix}
	case *routepb.RouteMatch_Path:
		text.MatchPattern = &matcher.StringMatcher_Exact{Exact: p.Path}
	case *routepb.RouteMatch_SafeRegex:
		text.MatchPattern = &matcher.StringMatcher_SafeRegex{SafeRegex: p.SafeRegex}
	case *routepb.RouteMatch_PathSeparatedPrefix:
		prefix := p.PathSeparatedPrefix
		return func(s string) bool {
			return len(s) >= len(prefix) && equal(s[:len(prefix)], prefix, text.GetIgnoreCase()) && (len(s) == len(prefix) || s[len(prefix)] == '/')
		}, nil
	case *routepb.RouteMatch_ConnectMatcher_:
		return nil, nil
	case *routepb.RouteMatch_PathMatchPolicy:
		return nil, unusable("path_match_policy is not supported")
	}
	return stringTest(text)
}
