package envoyconfig

import (
	"slices"
	"strings"

	routepb "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	filterpb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
)

// hosts finds the routes of the virtual host of an authority: the one of the full name, of the longest end (*.example.com),
// of the longest beginning (example.*), or of all (*), in this order.
type hosts struct {
	domains    []domain
	ignorePort bool // of the authority
}

// domain is one of a virtual host.
type domain struct {
	pattern string
	routes  []route
}

// route is a route with the calls that rate limit filters make for it.
type route struct {
	match   []condition
	cluster string // "" if not known
	calls   []call
}

// find returns the routes for an authority, none if no virtual host has it.
func (h *hosts) find(authority string) (routes []route) {
	authority = strings.ToLower(authority)
	if h.ignorePort {
		authority = withoutPort(authority)
	}
	best := 0
	for i := range h.domains {
		if fit := fits(h.domains[i].pattern, authority); fit > best {
			best, routes = fit, h.domains[i].routes
		}
	}
	return routes
}

// fits returns how well a domain fits an authority, 0 if it does not. A star stands for one byte at least.
func fits(domain, authority string) int {
	const beginning, end, exact = 1 << 20, 1 << 21, 1 << 22
	part := strings.Trim(domain, "*")
	switch {
	case domain == "*":
		return 1
	case domain == authority:
		return exact
	case len(authority) <= len(part) || len(part) == len(domain):
		return 0
	case domain[0] == '*' && strings.HasSuffix(authority, part):
		return end + len(part)
	case domain[0] != '*' && strings.HasPrefix(authority, part):
		return beginning + len(part)
	default:
		return 0
	}
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

// scope is what holds for a virtual host or a route.
type scope struct {
	all     []filter
	filters []filter             // the same, as they are configured here
	limits  []*routepb.RateLimit // of the virtual host
}

// routeConfiguration reads a route configuration.
func (r *reader) routeConfiguration(m *routepb.RouteConfiguration, filters []filter, c client) *Config {
	if m.GetVhds() != nil {
		r.note(r.at[m.GetVhds()], "virtual hosts come from a control plane; those that are not in the file are skipped")
	}
	s := r.within(m.GetTypedPerFilterConfig(), scope{all: filters, filters: filters})
	all := &hosts{ignorePort: m.GetIgnorePortInHostMatching()}
	for _, host := range m.GetVirtualHosts() {
		routes := r.virtualHost(host, s)
		for _, pattern := range host.GetDomains() {
			all.domains = append(all.domains, domain{strings.ToLower(pattern), routes})
			if pattern != "*" {
				r.lookAt(":authority")
			}
		}
	}
	return r.config(all, c)
}

// virtualHost reads the routes of a virtual host. s is the scope of its route configuration.
func (r *reader) virtualHost(m *routepb.VirtualHost, s scope) (routes []route) {
	if m.GetMatcher() != nil {
		r.note(r.at[m.GetMatcher()], "a matcher instead of routes is not supported; the rate limits of this virtual host are skipped")
	}
	s = r.within(m.GetTypedPerFilterConfig(), s)
	s.limits = m.GetRateLimits()
	r.rateLimits(s.limits, s.all)
	switch m.GetRequireTls() {
	case routepb.VirtualHost_ALL:
		r.lookAt(":scheme")
		redirected := func(t *Request) bool {
			scheme, there, _ := t.header(":scheme", nil)
			return there && scheme != "https"
		}
		routes = []route{{match: []condition{redirected}}}
	case routepb.VirtualHost_EXTERNAL_ONLY:
		r.note(r.at[m].get("require_tls"), "Envoy redirects external requests without TLS, which is ignored here")
	}
	for _, of := range m.GetRoutes() {
		routes = r.appendRoute(routes, of, s)
	}
	return routes
}

// appendRoute reads a route, and appends it if it takes requests that are known here. Envoy answers itself for
// one that does not forward, and sends no descriptors.
func (r *reader) appendRoute(routes []route, m *routepb.Route, s scope) []route {
	match, ok := r.routeMatch(m)
	result := route{match: match}
	if forward := m.GetRoute(); forward != nil {
		for _, weighted := range forward.GetWeightedClusters().GetClusters() {
			for _, config := range weighted.GetTypedPerFilterConfig() { // Envoy chooses the cluster
				r.skip(r.at[config])
			}
		}
		result.cluster = forward.GetCluster()
		r.rateLimits(forward.GetRateLimits(), s.all)
		result.calls = r.calls(r.within(m.GetTypedPerFilterConfig(), s), forward)
	}
	if !ok {
		return routes
	}
	return append(routes, result)
}

// calls returns the calls of all filters that have limits for a route: those configured for the filter and the
// route, else those of the filter, else those of the route and, if it shall include them, of its virtual host.
func (r *reader) calls(s scope, forward *routepb.RouteAction) (calls []call) {
	for i := range s.filters {
		f := &s.filters[i]
		if f.disabled {
			continue
		}
		limits := f.limits
		if len(limits) == 0 {
			of := forward.GetRateLimits()
			include := forward.GetIncludeVhRateLimits().GetValue() //nolint:staticcheck // deprecated, and in many files
			if include || f.hosts == filterpb.RateLimitPerRoute_INCLUDE || f.hosts == filterpb.RateLimitPerRoute_OVERRIDE && len(of) == 0 {
				of = slices.Concat(of, s.limits)
			}
			limits = r.rateLimits(slices.DeleteFunc(slices.Clone(of), func(m *routepb.RateLimit) bool { return !f.takes(m) }), s.all)
		}
		if limits = r.usable(limits, forward.GetCluster()); len(limits) == 0 {
			continue
		}
		if f.domain == "" {
			r.problem(nil, "no rate limit filter in the file names the domain, give it with --domain")
		}
		calls = append(calls, call{f.number, f.domain, f.internal, f.external, limits})
	}
	return calls
}
