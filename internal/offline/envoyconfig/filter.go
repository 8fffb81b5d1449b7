package envoyconfig

import (
	"cmp"
	"slices"
	"strings"
)

// These are names of message types that the reader knows.
const (
	managerType  = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
	filterType   = "envoy.extensions.filters.http.ratelimit.v3.RateLimit"
	perRouteType = "envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute"
	filterConfig = "envoy.config.route.v3.FilterConfig"
)

// filter is a rate limit filter of a connection manager. Virtual hosts and routes may change its configuration.
type filter struct {
	number   int // index among the rate limit filters of the manager
	name     string
	domain   string
	stage    uint64
	requests string // internal or external if the filter handles only such requests, or empty
	disabled bool
	limits   []*rateLimit // the filter's own limits, which replace the limits of hosts and routes; in route.filters, all limits of the route
	hosts    string       // vh_rate_limits
	// unknown is true if the filter is not in the file. An unknown filter accepts
	// configuration in routes under any name, and limits of any stage.
	unknown bool
}

// unknownFilter returns the filter that is assumed for a file without filters.
func (r *reader) unknownFilter() []filter {
	return []filter{{unknown: true, domain: r.Domain}}
}

// takes reports whether a rate limit of a host or route has the filter's stage.
func (f *filter) takes(l *rateLimit) bool {
	return f.unknown || uint64(l.message.GetStage().GetValue()) == f.stage
}

// filters reads the rate limit filters in a connection manager's list of filters.
func (r *reader) filters(list []*node) (filters []filter) {
	for _, n := range list {
		kind, value := n.get("typed_config").typed()
		if kind != filterType {
			r.skip(n)
			continue
		}
		requests := value.get("request_type").text()
		switch requests {
		case "", "both":
			requests = ""
		case "internal", "external":
			r.lookAt("x-envoy-internal")
		default:
			r.problem(value.get("request_type"), "the request_type %q is unknown; use internal, external or both", requests)
		}
		if enabled := value.get("filter_enabled"); enabled != nil {
			r.note(enabled, "filter_enabled is ignored, the filter counts as enabled for all requests")
		}
		filters = append(filters, filter{
			number: len(filters), name: n.get("name").text(), domain: value.get("domain").text(), stage: r.number(value.get("stage"), 0),
			requests: requests, disabled: n.get("disabled").isTrue(), limits: r.rateLimits(value.get("rate_limits"), nil),
		})
	}
	return filters
}

// within returns the scope of n, whose typed_per_filter_config may configure filters. Other
// filters keep their configuration in s, the enclosing scope.
func (r *reader) within(n *node, s scope) scope {
	configs := n.get("typed_per_filter_config")
	if configs == nil {
		return s
	}
	for _, config := range configs.children {
		name := config.step.Field
		if kind, _ := config.typed(); kind != perRouteType && kind != filterConfig {
			r.skip(config)
		} else if kind == perRouteType && !slices.ContainsFunc(s.all, func(f filter) bool { return f.unknown || f.name == name }) {
			r.note(config, "no rate limit filter has the name %q; these rate limits are skipped", name)
		}
	}
	s.filters = slices.Clone(s.filters)
	for i, f := range s.all {
		for _, config := range configs.children {
			if r.configure(&f, config) {
				s.filters[i] = f
				break
			}
		}
	}
	return s
}

// configure applies a configuration to a filter. It returns false if the configuration belongs to another filter.
func (r *reader) configure(f *filter, n *node) bool {
	disabled := false
	kind, value := n.typed()
	if kind == filterConfig {
		disabled = value.get("disabled").isTrue()
		kind, value = value.get("config").typed()
	}
	if n.step.Field != f.name && (!f.unknown || kind != perRouteType) {
		return false
	}
	f.disabled = disabled
	if kind == perRouteType {
		f.domain, f.hosts = cmp.Or(value.get("domain").text(), f.domain), value.get("vh_rate_limits").text()
		if limits := r.rateLimits(value.get("rate_limits"), nil); len(limits) > 0 {
			f.limits = limits
		}
	}
	return true
}

// skip adds a note for each message about rate limits in an unsupported value.
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
