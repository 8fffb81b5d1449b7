package envoyconfig

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	routepb "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	filterpb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
)

// hosts finds the routes of the virtual host of an authority: the one of the whole name, of the longest end (*.example.com),
// of the longest beginning (example.*), or of all (*), in this order.
type hosts struct {
	exact, ends, beginnings map[string][]route
	ignorePort              bool // of the authority
}

// route is a route with the calls that rate limit filters make for it.
type route struct {
	match   []condition
	cluster string // "" if not known
	calls   []call
}

func newHosts() *hosts {
	return &hosts{map[string][]route{}, map[string][]route{}, map[string][]route{}, false}
}

// add adds a domain of a virtual host, or says what is wrong with it.
func (h *hosts) add(domain string, routes []route) error {
	domain = strings.ToLower(domain)
	list, key := h.exact, domain
	switch {
	case domain == "":
		return errors.New("a domain is empty")
	case domain == "*":
	case strings.HasPrefix(domain, "*"):
		list, key = h.ends, domain[1:]
	case strings.HasSuffix(domain, "*"):
		list, key = h.beginnings, domain[:len(domain)-1]
	}
	_, known := list[key]
	if list[key] = routes; known {
		return fmt.Errorf("two virtual hosts have the domain %q", domain)
	}
	return nil
}

// find returns the routes for an authority, none if no virtual host has it.
func (h *hosts) find(authority string) []route {
	authority = strings.ToLower(authority)
	if h.ignorePort {
		authority = withoutPort(authority)
	}
	if routes, ok := h.exact[authority]; ok {
		return routes
	}
	for i := 1; i < len(authority) && len(h.ends) > 0; i++ {
		if routes, ok := h.ends[authority[i:]]; ok {
			return routes
		}
	}
	for i := len(authority) - 1; i > 0 && len(h.beginnings) > 0; i-- {
		if routes, ok := h.beginnings[authority[:i]]; ok {
			return routes
		}
	}
	return h.exact["*"]
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
	filters []filter     // the same, as they are configured here
	limits  []*rateLimit // of the virtual host
}

// routeConfiguration reads a route configuration.
func (r *reader) routeConfiguration(n node, filters []filter, c client) *Config {
	r.checkFields(n, (*routepb.RouteConfiguration)(nil))
	if vhds := n.get("vhds"); vhds.exists() {
		r.leaveOut(vhds, "virtual hosts come from a control plane; those that are not in the file are left out")
	}
	s := r.within(n, scope{all: filters, filters: filters})
	all := newHosts()
	all.ignorePort = n.get("ignore_port_in_host_matching").isTrue()
	for _, hostNode := range n.get("virtual_hosts").items() {
		routes := r.virtualHost(hostNode, s)
		for _, d := range hostNode.get("domains").items() {
			if err := all.add(d.text(), routes); err != nil {
				r.problem(d, "%v", err)
			}
			if d.text() != "*" {
				r.lookAt(":authority")
			}
		}
	}
	return r.config(all, c)
}

// virtualHost reads the routes of a virtual host. s is the scope of its route configuration.
func (r *reader) virtualHost(n node, s scope) (routes []route) {
	r.checkFields(n, (*routepb.VirtualHost)(nil))
	if m := n.get("matcher"); m.exists() {
		r.leaveOut(m, "a matcher in place of routes is not read; the rate limits of this virtual host are left out")
	}
	s = r.within(n, s)
	s.limits = r.rateLimits(n.get("rate_limits"), s.all)
	switch tls := n.get("require_tls"); tls.text() {
	case "ALL":
		r.lookAt(":scheme")
		redirected := func(t *Request) bool {
			scheme, there, _ := t.header(":scheme", nil)
			return there && scheme != "https"
		}
		routes = []route{{match: []condition{redirected}}}
	case "EXTERNAL_ONLY":
		r.note(tls, "that requests from outside without TLS are redirected is not seen here")
	}
	for _, routeNode := range n.get("routes").items() {
		routes = r.appendRoute(routes, routeNode, s)
	}
	return routes
}

// appendRoute reads a route, and appends it if it takes requests that are known here. Envoy answers itself for
// one that does not forward, and sends no descriptors.
func (r *reader) appendRoute(routes []route, n node, s scope) []route {
	r.checkFields(n, (*routepb.Route)(nil))
	match, ok := r.routeMatch(n.get("match"), n)
	result := route{match: match}
	if forward := n.get("route"); forward.exists() {
		r.checkFields(forward, (*routepb.RouteAction)(nil))
		for _, weighted := range forward.get("weighted_clusters").get("clusters").items() {
			for _, config := range weighted.get("typed_per_filter_config").fields() {
				if kind, _ := typed(config); isAboutRateLimits(kind) {
					r.leaveOut(config, "which of the weighted_clusters takes a request is not known; its rate limits are left out")
				}
			}
		}
		result.cluster = forward.get("cluster").text()
		limits := r.rateLimits(forward.get("rate_limits"), s.all)
		result.calls = r.calls(r.within(n, s), limits, result.cluster, forward.get("include_vh_rate_limits").isTrue())
	}
	if !ok {
		return routes
	}
	return append(routes, result)
}

// calls returns the calls of all filters that have limits for a route: those configured for the filter and the
// route, else those of the filter, else those of the route and, if it shall include them, of its virtual host.
func (r *reader) calls(s scope, own []*rateLimit, cluster string, include bool) (calls []call) {
	for i := range s.filters {
		f := &s.filters[i]
		if f.disabled {
			continue
		}
		limits := f.limits
		if len(limits) == 0 {
			limits = own
			if include || f.hosts == filterpb.RateLimitPerRoute_INCLUDE || f.hosts == filterpb.RateLimitPerRoute_OVERRIDE && len(own) == 0 {
				limits = slices.Concat(own, s.limits)
			}
			limits = slices.DeleteFunc(slices.Clone(limits), func(l *rateLimit) bool { return !f.takes(l) })
		}
		if limits = r.usable(limits, cluster); len(limits) == 0 {
			continue
		}
		if f.domain == "" {
			r.problem(node{}, "no rate limit filter in the file names the domain, give it with --domain")
		}
		calls = append(calls, call{f.number, f.domain, f.internal, f.external, limits})
	}
	return calls
}
