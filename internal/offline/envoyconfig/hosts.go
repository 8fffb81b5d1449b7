package envoyconfig

import (
	"errors"

	routepb "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	filterpb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
)

// forwardField is the field of routes that forward. Envoy answers for any other itself, and
// sends no descriptors.
const forwardField = "route"

// scope is what holds for a route: the filters, the limits of its virtual host, and what is
// configured for each filter.
type scope struct {
	filters []filter
	limits  []*parsedLimit // of the virtual host
	configs []node         // typed_per_filter_config around the route, the closest first
}

// routeConfiguration reads a route configuration.
func (r *reader) routeConfiguration(n node, filters []filter) *Config {
	r.checkFields(n, (*routepb.RouteConfiguration)(nil).ProtoReflect())
	if vhds := n.get("vhds"); vhds.exists() {
		r.leaveOut(vhds, "virtual hosts come from a control plane; those that are not in the file are left out")
	}
	configs := n.get("typed_per_filter_config")
	r.checkPerRoute(configs, filters)
	var all hosts
	for _, hostNode := range n.get("virtual_hosts").items() {
		host := r.virtualHost(hostNode, scope{filters: filters, configs: []node{configs}})
		for _, d := range hostNode.get("domains").items() {
			if err := all.add(d.text(), host); err != nil {
				r.problem(d, "%v", err)
			}
			r.needs.Authority = r.needs.Authority || d.text() != "*"
		}
	}
	r.needs.Authority = r.needs.Authority && (all.any == nil || len(all.exact)+len(all.suffixes)+len(all.prefixes) > 0)
	c := r.config()
	c.hosts, c.ignorePort = all, n.get("ignore_port_in_host_matching").isTrue()
	return c
}

// virtualHost reads a virtual host. s is the scope of its route configuration.
func (r *reader) virtualHost(n node, s scope) *virtualHost {
	r.checkFields(n, (*routepb.VirtualHost)(nil).ProtoReflect())
	if m := n.get("matcher"); m.exists() {
		r.leaveOut(m, "a matcher in place of routes is not read; the rate limits of this virtual host are left out")
	}
	s = r.within(n, s)
	s.limits = r.rateLimits(n.get("rate_limits"), s.filters)
	host := &virtualHost{requireTLS: n.get("require_tls").text() == "ALL"}
	if tls := n.get("require_tls"); tls.text() == "EXTERNAL_ONLY" {
		r.note(tls, "that requests from outside without TLS are redirected is not seen here")
	}
	if host.requireTLS {
		r.needs.Scheme = true
	}
	for _, routeNode := range n.get("routes").items() {
		host.routes = append(host.routes, r.route(routeNode, s))
	}
	return host
}

// within returns the scope of what is in a virtual host or route.
func (r *reader) within(n node, s scope) scope {
	configs := n.get("typed_per_filter_config")
	r.checkPerRoute(configs, s.filters)
	s.configs = append([]node{configs}, s.configs...)
	return s
}

// route reads a route.
func (r *reader) route(n node, s scope) route {
	r.checkFields(n, (*routepb.Route)(nil).ProtoReflect())
	result := route{match: r.routeMatch(n.get("match"), n)}
	forward := n.get(forwardField)
	if !forward.exists() {
		return result
	}
	r.checkFields(forward, (*routepb.RouteAction)(nil).ProtoReflect())
	result.setCalls(r.calls(n, r.within(n, s)))
	return result
}

// setCalls sets the calls of a route.
func (r *route) setCalls(calls []call) {
	r.calls = calls
	for _, c := range calls {
		for _, l := range c.limits {
			r.onStreamDone = r.onStreamDone || l.onStreamDone
		}
	}
}

// routeMatch reads the match of a route.
func (r *reader) routeMatch(n, of node) routeMatch {
	m := new(routepb.RouteMatch)
	if !n.exists() {
		r.problem(of, "the field match is needed")
		return routeMatch{never: true}
	}
	if !r.message(n, m) {
		return routeMatch{never: true}
	}
	match, err := newRouteMatch(m)
	var cannot errUnusable
	switch {
	case errors.As(err, &cannot):
		r.leaveOut(n, "%v; the route and its rate limits are left out, its requests go to the next", err)
		return routeMatch{never: true}
	case err != nil:
		r.problem(n, "%v", err)
		return routeMatch{never: true}
	}
	if m.GetRuntimeFraction() != nil {
		r.note(n.get("runtime_fraction"), "runtime_fraction is not read, the route takes all requests that match")
	}
	r.lookMatch(&match)
	return match
}

// calls returns what the rate limit filters do for a route that forwards.
func (r *reader) calls(n node, s scope) []call {
	forward := n.get(forwardField)
	for _, weighted := range forward.get("weighted_clusters").get("clusters").items() {
		r.weighted(weighted.get("typed_per_filter_config"))
	}
	return r.callsOf(routeParts{
		scope: s, at: n, limits: r.rateLimits(forward.get("rate_limits"), s.filters),
		cluster: forward.get("cluster").text(), include: forward.get("include_vh_rate_limits").isTrue(),
	})
}

// routeParts is what is known of a route that forwards.
type routeParts struct {
	scope   scope
	at      node
	limits  []*parsedLimit
	cluster string // "" if not known
	include bool   // include_vh_rate_limits
}

// callsOf returns the calls of all filters that have limits for a route.
func (r *reader) callsOf(p routeParts) (calls []call) {
	for i := range p.scope.filters {
		f := &p.scope.filters[i]
		specific := r.mostSpecific(p.scope, f)
		if specific == nil {
			specific = &perRoute{disabled: f.disabled}
		}
		if specific.disabled {
			continue
		}
		c := call{number: i, domain: f.domain, internal: f.internal, external: f.external, limits: r.limitsOf(p, f, specific)}
		if specific.domain != "" {
			c.domain = specific.domain
		}
		if len(c.limits) == 0 {
			continue
		}
		if c.domain == "" {
			r.problem(node{}, "no rate limit filter in the file names the domain, give it with --domain")
		}
		calls = append(calls, c)
	}
	return calls
}

// limitsOf returns the limits of a filter for a route: those configured for the filter and the
// route, else those of the filter, else those of the route and its virtual host.
func (r *reader) limitsOf(p routeParts, f *filter, specific *perRoute) []*rateLimit {
	if specific.hasLimits {
		return r.makeAll(specific.limits, p.cluster, nil)
	}
	if f.hasLimits {
		return r.makeAll(f.limits, p.cluster, nil)
	}
	limits := r.makeAll(p.limits, p.cluster, f)
	if p.include || specific.hosts == filterpb.RateLimitPerRoute_INCLUDE ||
		specific.hosts == filterpb.RateLimitPerRoute_OVERRIDE && len(p.limits) == 0 {
		limits = append(limits, r.makeAll(p.scope.limits, p.cluster, f)...)
	}
	return limits
}

// weighted notes the rate limits of one of several clusters.
func (r *reader) weighted(configs node) {
	names, values := configs.pairs()
	for i := range names {
		if kind, _ := typed(values[i]); isAboutRateLimits(kind) {
			r.leaveOut(values[i], "which of the weighted_clusters takes a request is not known; its rate limits are left out")
		}
	}
}

// mostSpecific returns what is configured for a filter closest to a route, nil if nothing.
func (r *reader) mostSpecific(s scope, f *filter) *perRoute {
	for _, configs := range s.configs {
		if p := r.perRoute(configs, f); p != nil {
			return p
		}
	}
	return nil
}

// makeAll makes those rate limits that are of the stage of a filter; all of them without
// a filter, whose own they are then.
func (r *reader) makeAll(limits []*parsedLimit, cluster string, f *filter) (made []*rateLimit) {
	for _, l := range limits {
		if f != nil && !f.takes(l.message) {
			continue
		}
		if limit := r.make(l, cluster, f == nil); limit != nil {
			made = append(made, limit)
		}
	}
	return made
}
