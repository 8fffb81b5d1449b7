package envoyconfig

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	routepb "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	filterpb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

// The types of messages that are looked at.
const (
	managerType  = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
	filterType   = "envoy.extensions.filters.http.ratelimit.v3.RateLimit"
	perRouteType = "envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute"
	filterConfig = "envoy.config.route.v3.FilterConfig"
)

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
func (f *filter) takes(m *routepb.RateLimit) bool {
	return f.unknown || m.GetStage().GetValue() == f.stage
}

// filters reads the rate limit filters among those of a connection manager.
func (r *reader) filters(list []*node) (filters []filter) {
	for _, n := range list {
		name, value := n.get("typed_config").typed()
		if name != filterType {
			r.skip(n)
		} else if f, ok := r.filter(value); ok {
			f.number, f.name, f.disabled = len(filters), n.get("name").text(), n.get("disabled").isTrue()
			filters = append(filters, f)
		}
	}
	return filters
}

// filter reads a rate limit filter.
func (r *reader) filter(n *node) (f filter, ok bool) {
	m := new(filterpb.RateLimit)
	if n == nil || !r.message(n, "", m) {
		return f, false
	}
	kind := cmp.Or(m.GetRequestType(), "both")
	switch kind {
	case "both":
	case "internal", "external":
		r.lookAt("x-envoy-internal")
	default:
		r.problem(n.get("request_type"), "the request_type %q is unknown, allowed are internal, external and both", kind)
		return f, false
	}
	if m.GetFilterEnabled() != nil {
		r.note(r.at[m.GetFilterEnabled()], "filter_enabled is ignored, the filter counts as enabled for all requests")
	}
	return filter{
		domain: m.GetDomain(), stage: m.GetStage(), internal: kind != "external", external: kind != "internal",
		limits: r.rateLimits(m.GetRateLimits(), nil),
	}, true
}

// within returns the scope of what has a typed_per_filter_config, which may configure filters.
// Those of which it says nothing are as around it.
func (r *reader) within(configs map[string]*anypb.Any, s scope) scope {
	names := slices.Sorted(maps.Keys(configs))
	for _, name := range names {
		at := r.at[configs[name]]
		if kind, _ := at.typed(); kind != perRouteType && kind != filterConfig {
			r.skip(at)
		} else if kind == perRouteType && !slices.ContainsFunc(s.all, func(f filter) bool { return f.unknown || f.name == name }) {
			r.note(at, "no rate limit filter has the name %q; these rate limits are skipped", name)
		}
	}
	s.filters = slices.Clone(s.filters)
	for i, f := range s.all {
		for _, name := range names {
			if r.configure(&f, name, r.at[configs[name]]) {
				s.filters[i] = f
				break
			}
		}
	}
	return s
}

// configure changes a filter by a configuration, and reports whether that applies to the filter.
func (r *reader) configure(f *filter, name string, n *node) bool {
	disabled := false
	kind, value := n.typed()
	if kind == filterConfig {
		disabled = value.get("disabled").isTrue()
		kind, value = value.get("config").typed()
	}
	if name != f.name && (!f.unknown || kind != perRouteType) {
		return false
	}
	f.disabled = disabled
	m := new(filterpb.RateLimitPerRoute)
	if kind != perRouteType || value == nil || !r.message(value, "", m) {
		return true
	}
	f.domain, f.hosts = cmp.Or(m.GetDomain(), f.domain), m.GetVhRateLimits()
	if len(m.GetRateLimits()) > 0 {
		f.limits = r.rateLimits(m.GetRateLimits(), nil)
	}
	return true
}

// skip notes the rate limits in a value that is not read.
func (r *reader) skip(n *node) {
	n.visit(func(n *node) bool {
		kind, _ := n.typed()
		switch name := strings.ToLower(kind); {
		case !strings.Contains(name, "ratelimit") && !strings.Contains(name, "rate_limit"):
			return true
		case strings.Contains(name, ".local_ratelimit."):
			r.note(n, "Envoy counts local rate limits itself and sends no descriptors for them")
		default:
			r.note(n, "%s is not supported here; its rate limits are skipped", kind)
		}
		return false
	})
}
