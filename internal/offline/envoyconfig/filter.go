package envoyconfig

import (
	"strings"

	routepb "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	filterpb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	"gopkg.in/yaml.v3"
)

// The types of messages that are looked at.
const (
	managerType  = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
	filterType   = "envoy.extensions.filters.http.ratelimit.v3.RateLimit"
	perRouteType = "envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute"
	filterConfig = "envoy.config.route.v3.FilterConfig"
)

// typed returns the type of an Any and its value, also of one in a TypedStruct.
func typed(n node) (name string, value node) {
	name = typeName(n.get("@type"))
	if name == "udpa.type.v1.TypedStruct" || name == "xds.type.v3.TypedStruct" {
		return typeName(n.get("type_url")), n.get("value")
	}
	return name, n
}

// typeName returns a type's name without the host before it.
func typeName(n node) string {
	url := n.text()
	return url[strings.LastIndexByte(url, '/')+1:]
}

// filter is a rate limit filter of a connection manager.
type filter struct {
	name               string
	domain             string
	stage              uint32
	internal, external bool
	disabled           bool
	limits             []*parsedLimit // its own, instead of those of hosts and routes
	hasLimits          bool
	// unknown stands for the filter if it is not in the file: then routes' configuration of
	// any name, and limits of any stage, are for it.
	unknown bool
}

// takes reports whether a rate limit of a host or route is of the filter's stage.
func (f *filter) takes(l *routepb.RateLimit) bool {
	return f.unknown || l.GetStage().GetValue() == f.stage
}

// filters reads the rate limit filters of a connection manager.
func (r *reader) filters(list node) (filters []filter) {
	for _, n := range list.items() {
		name, value := typed(n.get("typed_config"))
		switch {
		case name == filterType:
			if f, ok := r.filter(value); ok {
				f.name, f.disabled = n.get("name").text(), n.get("disabled").isTrue()
				filters = append(filters, f)
			}
		case isAboutRateLimits(name):
			r.otherRateLimits(n, name)
		default:
			r.hidden(n)
		}
	}
	return filters
}

// filter reads a rate limit filter.
func (r *reader) filter(n node) (f filter, ok bool) {
	m := new(filterpb.RateLimit)
	if !r.message(n.without("@type"), m) {
		return f, false
	}
	f = filter{domain: m.GetDomain(), stage: m.GetStage(), internal: true, external: true}
	switch m.GetRequestType() {
	case "", "both":
	case "internal":
		f.external = false
	case "external":
		f.internal = false
	default:
		r.problem(n.get("request_type"), "the request_type %q is not known, allowed are internal, external and both", m.GetRequestType())
		return f, false
	}
	if f.internal != f.external {
		r.lookAt("x-envoy-internal")
	}
	if m.GetFilterEnabled() != nil {
		r.note(n.get("filter_enabled"), "filter_enabled is not read, the filter is taken as enabled for all requests")
	}
	f.hasLimits = len(m.GetRateLimits()) > 0
	f.limits = r.rateLimits(n.get("rate_limits"), nil)
	return f, true
}

// perRoute is what a route, a virtual host or a route configuration configures for a filter.
type perRoute struct {
	domain    string
	limits    []*parsedLimit
	hasLimits bool
	hosts     filterpb.RateLimitPerRoute_VhRateLimitsOptions
	disabled  bool
}

// perRouteKey names a typed_per_filter_config and the filter that it is for.
type perRouteKey struct {
	configs *yaml.Node
	filter  *filter
}

// perRoute returns what a typed_per_filter_config has for a filter, nil if nothing. It is read
// once, though it holds for many routes: its problems and notes come once, too.
func (r *reader) perRoute(configs node, f *filter) *perRoute {
	of := perRouteKey{configs.yaml, f}
	p, known := r.perRoutes[of]
	if !known {
		p = r.readPerRoute(configs, f)
		if r.perRoutes == nil {
			r.perRoutes = map[perRouteKey]*perRoute{}
		}
		r.perRoutes[of] = p
	}
	return p
}

func (r *reader) readPerRoute(configs node, f *filter) *perRoute {
	names, values := configs.pairs()
	for i, name := range names {
		kind, value := typed(values[i])
		p := new(perRoute)
		if kind == filterConfig {
			p.disabled = value.get("disabled").isTrue()
			kind, value = typed(value.get("config"))
		}
		if name != f.name && (!f.unknown || kind != perRouteType) {
			continue
		}
		if kind == perRouteType {
			m := new(filterpb.RateLimitPerRoute)
			if !r.message(value.without("@type"), m) {
				return p
			}
			p.domain, p.hosts = m.GetDomain(), m.GetVhRateLimits()
			p.hasLimits = len(m.GetRateLimits()) > 0
			p.limits = r.rateLimits(value.get("rate_limits"), nil)
		}
		return p
	}
	return nil
}

// checkPerRoute notes what a typed_per_filter_config says about other rate limits.
func (r *reader) checkPerRoute(configs node, filters []filter) {
	names, values := configs.pairs()
	for i, name := range names {
		kind, _ := typed(values[i])
		if kind != perRouteType && isAboutRateLimits(kind) {
			r.otherRateLimits(values[i], kind)
		}
		if kind != perRouteType {
			continue
		}
		known := false
		for j := range filters {
			known = known || filters[j].name == name || filters[j].unknown
		}
		if !known {
			r.leaveOut(values[i], "no rate limit filter has the name %q; the rate limits are left out", name)
		}
	}
}

// isAboutRateLimits reports whether messages of a type are about rate limits.
func isAboutRateLimits(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "ratelimit") || strings.Contains(name, "rate_limit")
}

// otherRateLimits notes rate limits of a type that is not read.
func (r *reader) otherRateLimits(at node, name string) {
	if strings.Contains(name, ".local_ratelimit.") {
		r.note(at, "local rate limits are counted in Envoy, no descriptors are sent")
		return
	}
	r.leaveOut(at, "the type %s is not known here; its rate limits are left out", name)
}

// hidden notes a rate limit filter inside a value that is not read otherwise. It looks at a
// bounded number of values.
func (r *reader) hidden(n node) {
	budget := 10_000
	var look func(n node)
	look = func(n node) {
		if budget--; budget < 0 || !n.exists() {
			return
		}
		if name, _ := typed(n); name == filterType || name == perRouteType {
			r.leaveOut(n, "a rate limit filter is not read here; its rate limits are left out")
			return
		}
		_, values := n.pairs()
		for _, value := range append(values, n.items()...) {
			look(value)
		}
	}
	look(n)
}
