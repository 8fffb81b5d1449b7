package envoyconfig

import (
	"cmp"
	"slices"
	"strings"

	filterpb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
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

// filter is a rate limit filter of a connection manager, with what is configured for it where a request goes.
type filter struct {
	number             int // among those of the manager
	name               string
	domain             string
	stage              uint32
	internal, external bool
	disabled           bool
	limits             []*rateLimit // its own, instead of those of hosts and routes; nil: none
	hosts              filterpb.RateLimitPerRoute_VhRateLimitsOptions
	// unknown stands for the filter if it is not in the file: then routes' configuration of
	// any name, and limits of any stage, are for it.
	unknown bool
}

// unknownFilter stands for the filter of a file that has none.
func unknownFilter(o Options) []filter {
	return []filter{{unknown: true, domain: o.Domain, internal: true, external: true}}
}

// takes reports whether a rate limit of a host or route is of the filter's stage.
func (f *filter) takes(l *rateLimit) bool {
	return f.unknown || l.message.GetStage().GetValue() == f.stage
}

// filters reads the rate limit filters among those of a connection manager.
func (r *reader) filters(list []node) (filters []filter) {
	for _, n := range list {
		name, value := typed(n.get("typed_config"))
		switch {
		case name == filterType:
			if f, ok := r.filter(value); ok {
				f.number, f.name, f.disabled = len(filters), n.get("name").text(), n.get("disabled").isTrue()
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
	if !r.message(n, m) {
		return f, false
	}
	kind := cmp.Or(m.GetRequestType(), "both")
	if !slices.Contains([]string{"internal", "external", "both"}, kind) {
		r.problem(n.get("request_type"), "the request_type %q is not known, allowed are internal, external and both", kind)
		return f, false
	}
	if kind != "both" {
		r.lookAt("x-envoy-internal")
	}
	if m.GetFilterEnabled() != nil {
		r.note(n.get("filter_enabled"), "filter_enabled is not read, the filter is taken as enabled for all requests")
	}
	return filter{
		domain: m.GetDomain(), stage: m.GetStage(), internal: kind != "external", external: kind != "internal",
		limits: r.rateLimits(n.get("rate_limits"), nil),
	}, true
}

// within returns the scope of what is in a value, for which its typed_per_filter_config may configure filters.
// Those of which it says nothing are as around it.
func (r *reader) within(n node, s scope) scope {
	configs := n.get("typed_per_filter_config")
	for name, value := range configs.fields() {
		switch kind, _ := typed(value); {
		case kind == perRouteType && !slices.ContainsFunc(s.all, func(f filter) bool { return f.unknown || f.name == name }):
			r.leaveOut(value, "no rate limit filter has the name %q; the rate limits are left out", name)
		case kind != perRouteType && isAboutRateLimits(kind):
			r.otherRateLimits(value, kind)
		}
	}
	s.filters = slices.Clone(s.filters)
	for i, f := range s.all {
		for name, value := range configs.fields() {
			if r.configure(&f, name, value) {
				s.filters[i] = f
				break
			}
		}
	}
	return s
}

// configure changes a filter by a configuration, and reports whether that is for the filter.
func (r *reader) configure(f *filter, name string, n node) bool {
	disabled := false
	kind, value := typed(n)
	if kind == filterConfig {
		disabled = value.get("disabled").isTrue()
		kind, value = typed(value.get("config"))
	}
	if name != f.name && (!f.unknown || kind != perRouteType) {
		return false
	}
	f.disabled = disabled
	m := new(filterpb.RateLimitPerRoute)
	if kind != perRouteType || !r.message(value, m) {
		return true
	}
	f.domain, f.hosts = cmp.Or(m.GetDomain(), f.domain), m.GetVhRateLimits()
	if limits := r.rateLimits(value.get("rate_limits"), nil); len(m.GetRateLimits()) > 0 {
		f.limits = limits
	}
	return true
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
	n.visit(&budget, func(n node) bool {
		if name, _ := typed(n); name != filterType && name != perRouteType {
			return true
		}
		r.leaveOut(n, "a rate limit filter is not read here; its rate limits are left out")
		return false
	})
}
