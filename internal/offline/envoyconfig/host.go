package envoyconfig

import (
	"slices"
	"strings"
)

// domain is a domain of a virtual host, with the routes of the host.
type domain struct {
	pattern string
	routes  []route
}

// route is a route with the rate limit filters that make a call for its requests.
type route struct {
	match   []condition
	cluster string // or "" if unknown
	filters []filter
}

// routes returns the routes of the virtual host that matches an authority, or nil. A domain that equals the
// authority wins, then the longest matching suffix (*.example.com), then the longest matching prefix (example.*), then *.
func (c *Config) routes(authority string) (routes []route) {
	authority = strings.ToLower(authority)
	if c.ignorePort {
		authority = WithoutPort(authority)
	}
	best := 0
	for _, d := range c.domains {
		if fit := fits(d.pattern, authority); fit > best {
			best, routes = fit, d.routes
		}
	}
	return routes
}

// fits returns how well a domain matches an authority, or 0 if it does not. A star matches one byte or more.
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

// WithoutPort returns an authority without its port, if it has one.
func WithoutPort(authority string) string {
	colon := strings.LastIndexByte(authority, ':')
	if colon < 0 || strings.Trim(authority[colon+1:], "0123456789") != "" {
		return authority
	}
	if name := authority[:colon]; !strings.Contains(name, ":") || strings.HasSuffix(name, "]") {
		return name
	}
	return authority // an IPv6 address without a port
}

// scope is the configuration that applies to a virtual host or a route.
type scope struct {
	all     []filter
	filters []filter     // the same filters, as configured in this scope
	limits  []*rateLimit // limits of the virtual host
}

func (r *reader) routeConfiguration(n *node, filters []filter, c client) *Config {
	if vhds := n.get("vhds"); vhds != nil {
		r.note(vhds, "virtual hosts come from a control plane; those that are not in the file are skipped")
	}
	s := r.within(n, scope{all: filters, filters: filters})
	config := &Config{client: c, ignorePort: n.get("ignore_port_in_host_matching").isTrue()}
	for _, host := range n.get("virtual_hosts").items() {
		routes := r.virtualHost(host, s)
		for _, pattern := range host.get("domains").items() {
			config.add(r, pattern.text(), routes)
		}
	}
	return r.finish(config)
}

func (c *Config) add(r *reader, pattern string, routes []route) {
	c.domains = append(c.domains, domain{strings.ToLower(pattern), routes})
	if pattern != "*" {
		r.lookAt(":authority")
	}
}

// virtualHost reads the routes of a virtual host. s is the scope of its route configuration.
func (r *reader) virtualHost(n *node, s scope) (routes []route) {
	if at := n.get("matcher"); at != nil {
		r.note(at, "a matcher instead of routes is not supported; the rate limits of this virtual host are skipped")
	}
	s = r.host(n, s)
	switch n.get("require_tls").text() {
	case "ALL":
		r.lookAt(":scheme")
		redirected := func(t *Request) bool {
			scheme, there, _ := t.header(":scheme", nil)
			return there && scheme != "https"
		}
		routes = []route{{match: []condition{redirected}}}
	case "EXTERNAL_ONLY":
		r.note(n.get("require_tls"), "Envoy redirects external requests without TLS, which is ignored here")
	}
	for _, of := range n.get("routes").items() {
		match, ok := r.routeMatch(of)
		if result := r.route(of, match, s); ok {
			routes = append(routes, result)
		}
	}
	return routes
}

// host returns the scope of a virtual host.
func (r *reader) host(n *node, s scope) scope {
	s = r.within(n, s)
	s.limits = r.rateLimits(n.get("rate_limits"), s.all)
	return s
}

// route reads a route and the filters that make a call for it. A route that does not forward has
// no filters, because Envoy answers its requests itself and sends no descriptors. A route without a match is
// known only by name, and counts as forwarding.
func (r *reader) route(n *node, match []condition, s scope) route {
	result := route{match: match}
	forward := n.get("route")
	if forward == nil && n.get("match") != nil {
		return result
	}
	for _, weighted := range forward.get("weighted_clusters", "clusters").items() {
		if config := weighted.get("typed_per_filter_config"); config != nil { // Envoy chooses the cluster for each request
			r.skip(config)
		}
	}
	result.cluster = forward.get("cluster").text()
	own, s := r.rateLimits(forward.get("rate_limits"), s.all), r.within(n, s)
	for _, f := range s.filters {
		if f.disabled {
			continue
		}
		// Limits of the filter, its own or from the route's configuration, replace all others. Without them, the
		// limits of the route apply and, if the route includes them, the limits of the virtual host.
		limits := f.limits
		if len(limits) == 0 {
			limits = own
			if forward.get("include_vh_rate_limits").isTrue() || f.hosts == "INCLUDE" || len(own) == 0 && f.hosts != "IGNORE" {
				limits = slices.Concat(own, s.limits)
			}
			limits = slices.DeleteFunc(slices.Clone(limits), func(l *rateLimit) bool { return !f.takes(l) })
		}
		if f.limits = r.usable(limits, result.cluster); len(f.limits) == 0 {
			continue
		}
		if f.domain == "" {
			r.problem(nil, "no rate limit filter in the file names the domain, give it with --domain")
		}
		result.filters = append(result.filters, f)
	}
	return result
}
