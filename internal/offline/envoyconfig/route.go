package envoyconfig

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	routepb "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
)

// hosts finds the virtual host of an authority.
type hosts struct {
	exact    map[string]*virtualHost
	suffixes []wildcard // *.example.com, the longest first
	prefixes []wildcard // example.*, the longest first
	any      *virtualHost
}

type wildcard struct {
	text string // without the star
	host *virtualHost
}

// virtualHost is a virtual host with its routes.
type virtualHost struct {
	routes     []route
	requireTLS bool // all requests without TLS are redirected
}

// redirects reports whether Envoy sends the request to https instead.
func (h *virtualHost) redirects(r *Request) bool {
	return h.requireTLS && r.Scheme != "" && r.Scheme != "https"
}

// add adds a domain of a virtual host, or says what is wrong with it.
func (h *hosts) add(domain string, host *virtualHost) error {
	domain = strings.ToLower(domain)
	var known bool
	switch {
	case domain == "":
		return fmt.Errorf("a domain is empty")
	case domain == "*":
		known = h.any != nil
		h.any = host
	case strings.HasPrefix(domain, "*"):
		known = addWildcard(&h.suffixes, domain[1:], host)
	case strings.HasSuffix(domain, "*"):
		known = addWildcard(&h.prefixes, domain[:len(domain)-1], host)
	default:
		if h.exact == nil {
			h.exact = map[string]*virtualHost{}
		}
		known = h.exact[domain] != nil
		h.exact[domain] = host
	}
	if known {
		return fmt.Errorf("two virtual hosts have the domain %q", domain)
	}
	return nil
}

func addWildcard(list *[]wildcard, text string, host *virtualHost) (known bool) {
	i, _ := slices.BinarySearchFunc(*list, len(text), func(w wildcard, length int) int { return length - len(w.text) })
	for j := i; j < len(*list) && len((*list)[j].text) == len(text); j++ {
		if (*list)[j].text == text {
			return true
		}
	}
	*list = slices.Insert(*list, i, wildcard{text, host})
	return false
}

// find returns the virtual host of an authority, nil if none has it.
func (h *hosts) find(authority string, ignorePort bool) *virtualHost {
	if len(h.exact) == 0 && len(h.suffixes) == 0 && len(h.prefixes) == 0 {
		return h.any
	}
	authority = lower(authority)
	if ignorePort {
		authority = withoutPort(authority)
	}
	if host := h.exact[authority]; host != nil {
		return host
	}
	for _, w := range h.suffixes {
		if len(authority) > len(w.text) && strings.HasSuffix(authority, w.text) {
			return w.host
		}
	}
	for _, w := range h.prefixes {
		if len(authority) > len(w.text) && strings.HasPrefix(authority, w.text) {
			return w.host
		}
	}
	return h.any
}

// withoutPort returns an authority without its port.
func withoutPort(authority string) string {
	colon := strings.LastIndexByte(authority, ':')
	if colon < 0 || strings.Trim(authority[colon+1:], "0123456789") != "" {
		return authority
	}
	if name := authority[:colon]; !strings.Contains(name, ":") || strings.HasSuffix(name, "]") {
		return name
	}
	return authority // an IPv6 address without a port
}

// route is a route with the calls that rate limit filters make for it.
type route struct {
	match        routeMatch
	calls        []call
	onStreamDone bool // some limit is for the end of the stream
}

// routeMatch says which requests a route takes.
type routeMatch struct {
	never      bool   // it cannot be compared here
	name       string // that Envoy must have chosen, "" for any
	path       test   // nil for any
	connect    bool
	grpc       bool
	headers    []headerTest
	parameters []parameterTest
	cookies    []cookieTest
}

func (m *routeMatch) matches(t *Request) bool {
	isConnect := t.Method == http.MethodConnect
	return !m.never &&
		(m.name == "" || m.name == t.Route) &&
		(isConnect || !m.connect) &&
		(m.connect || !isConnect || t.path != "") && // a CONNECT has no path
		(m.path == nil || m.path(t.path)) &&
		(!m.grpc || isGRPC(t)) &&
		matchAll(m.headers, t) &&
		!slices.ContainsFunc(m.parameters, func(p parameterTest) bool { return !p.matches(t) }) &&
		!slices.ContainsFunc(m.cookies, func(c cookieTest) bool { return !c.matches(t) })
}

func isGRPC(t *Request) bool {
	const media = "application/grpc"
	value, _ := header("content-type").first(t)
	return value == media || strings.HasPrefix(value, media+"+")
}

// newRouteMatch returns the match of a message. The error is errUnusable if
// it cannot be compared here.
func newRouteMatch(m *routepb.RouteMatch) (match routeMatch, err error) {
	fold := m.GetCaseSensitive() != nil && !m.GetCaseSensitive().GetValue()
	switch p := m.GetPathSpecifier().(type) {
	case *routepb.RouteMatch_Prefix:
		if p.Prefix != "/" && p.Prefix != "" {
			match.path = prefixTest(p.Prefix, fold)
		}
	case *routepb.RouteMatch_Path:
		match.path = exactTest(p.Path, fold)
	case *routepb.RouteMatch_SafeRegex:
		match.path, err = regexTest(p.SafeRegex.GetRegex())
	case *routepb.RouteMatch_PathSeparatedPrefix:
		prefix := p.PathSeparatedPrefix
		begins := prefixTest(prefix, fold)
		match.path = func(s string) bool { return begins(s) && (len(s) == len(prefix) || s[len(prefix)] == '/') }
	case *routepb.RouteMatch_ConnectMatcher_:
		match.connect = true
	case *routepb.RouteMatch_PathMatchPolicy:
		_, name, _ := strings.Cut(p.PathMatchPolicy.GetTypedConfig().GetTypeUrl(), "/")
		err = unusable("the path_match_policy %s is not known here", name)
	default:
		err = fmt.Errorf("one of prefix, path, safe_regex, path_separated_prefix and connect_matcher is needed")
	}
	if err != nil {
		return match, err
	}
	for what, used := range map[string]bool{
		"tls_context": m.GetTlsContext() != nil, "dynamic_metadata": len(m.GetDynamicMetadata()) > 0, "filter_state": len(m.GetFilterState()) > 0,
	} {
		if used {
			return match, unusable("no request shows %s", what)
		}
	}
	match.grpc = m.GetGrpc() != nil
	if match.headers, err = newHeaderTests(m.GetHeaders()); err != nil {
		return match, err
	}
	if match.parameters, err = newParameterTests(m.GetQueryParameters(), false); err != nil {
		return match, err
	}
	match.cookies, err = newCookieTests(m.GetCookies())
	return match, err
}

// cookieTest is a CookieMatcher.
type cookieTest struct {
	name   string
	test   test
	invert bool
}

func newCookieTests(list []*routepb.CookieMatcher) (tests []cookieTest, err error) {
	for i, m := range list {
		c := cookieTest{name: m.GetName(), invert: m.GetInvertMatch()}
		if c.test, err = stringTest(m.GetStringMatch()); err != nil {
			return nil, fmt.Errorf("cookies[%d]: %w", i, err)
		}
		tests = append(tests, c)
	}
	return tests, nil
}

// matches reports whether the first cookie of that name passes the test or, inverted, does not.
func (c *cookieTest) matches(t *Request) bool {
	for i := range t.Headers {
		if t.Headers[i].Name != "cookie" {
			continue
		}
		for part := range strings.SplitSeq(t.Headers[i].Value, ";") {
			name, value, _ := strings.Cut(strings.TrimLeft(part, " \t"), "=")
			if name == c.name {
				return c.test(strings.Trim(value, `"`)) != c.invert
			}
		}
	}
	return c.invert
}
