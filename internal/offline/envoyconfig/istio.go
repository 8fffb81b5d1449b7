package envoyconfig

import (
	"maps"
	"slices"
	"strings"

	routepb "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

// patch is a patch of an EnvoyFilter.
type patch struct {
	*node                    // of the patch's value
	applyTo           string // or REMOVE
	context, selector string // of the workloads that take it, "" for all
	host, route       string // names that Istio gives, "" for all
}

// patches returns what EnvoyFilters make of the workloads to which they apply. The
// routes that they patch are not in the file: Istio makes them from a VirtualService.
func (r *reader) patches(manifests []*node, o Options) (choices []choice) {
	var all []patch
	contexts, selectors := map[string]bool{}, map[string]bool{}
	for _, manifest := range manifests {
		spec := manifest.get("spec")
		var labels []string
		if selector := spec.get("workload_selector").get("labels"); selector != nil {
			for _, label := range selector.children {
				labels = append(labels, label.step.Field+"="+label.text())
			}
		}
		slices.Sort(labels)
		for _, n := range spec.get("config_patches").items() {
			p := newPatch(n, strings.Join(labels, ","))
			if p.node != nil {
				all = append(all, p)
				contexts[p.context], selectors[p.selector] = true, true
			}
		}
	}
	for _, context := range orAll(contexts) {
		for _, selector := range orAll(selectors) {
			mine := slices.DeleteFunc(slices.Clone(all), func(p patch) bool {
				return p.context != "" && p.context != context || p.selector != "" && p.selector != selector
			})
			if slices.ContainsFunc(mine, patch.hasRateLimits) {
				// Istio's gateways have use_remote_address.
				c := client{connection: context == "GATEWAY"}
				choices = append(choices, choice{strings.TrimSpace(context + " " + selector), func() *Config { return r.patched(mine, o, c) }})
			}
		}
	}
	if len(choices) == 0 {
		r.problem(manifests[0], "no patch has rate_limits of virtual hosts, routes or a filter")
	}
	return choices
}

// newPatch reads what a patch applies to.
func newPatch(n *node, selector string) patch {
	match := n.get("match")
	host := match.get("route_configuration").get("vhost")
	p := patch{
		node: n.get("patch").get("value"), applyTo: n.get("apply_to").text(), context: match.get("context").text(), selector: selector,
		host: host.get("name").text(), route: host.get("route").get("name").text(),
	}
	if n.get("patch").get("operation").text() == "REMOVE" {
		p.applyTo = "REMOVE"
	}
	if p.context == "ANY" {
		p.context = ""
	}
	return p
}

// orAll returns names, or the empty one for all if there is no other.
func orAll(names map[string]bool) []string {
	if len(names) > 1 {
		delete(names, "")
	}
	return slices.Sorted(maps.Keys(names))
}

// hasRateLimits reports whether descriptors come of the patch.
func (p patch) hasRateLimits() bool {
	return p.applyTo != "REMOVE" && p.applyTo != "CLUSTER" && mentionsRateLimits(p.node)
}

// patched makes a route configuration of the patches of a workload: with their filters, and virtual hosts with as much
// of their routes as is known. c is the client without them.
func (r *reader) patched(patches []patch, o Options, c client) *Config {
	var httpFilters []*node
	m := &routepb.RouteConfiguration{IgnorePortInHostMatching: true, TypedPerFilterConfig: map[string]*anypb.Any{}}
	names := map[string]bool{"": true}
	for _, p := range patches {
		switch p.applyTo {
		case "ROUTE_CONFIGURATION":
			of := new(routepb.RouteConfiguration)
			r.message(p.node, "route_config", of)
			maps.Copy(m.GetTypedPerFilterConfig(), of.GetTypedPerFilterConfig())
		case "VIRTUAL_HOST", "HTTP_ROUTE":
			names[p.host] = true
		case "HTTP_FILTER":
			httpFilters = append(httpFilters, p.node)
		case "NETWORK_FILTER":
			if kind, manager := p.get("typed_config").typed(); kind == managerType {
				c = r.client(manager, c)
			}
			r.skip(p.node)
		case "REMOVE":
		default:
			r.skip(p.node)
		}
	}
	filters := r.filters(httpFilters)
	if len(filters) == 0 {
		filters = unknownFilter(o)
	}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(names))) { // "" last: of equal domains the first counts
		host := r.patchedHost(name, patches)
		host.Domains = []string{hostDomain(name)}
		m.VirtualHosts = append(m.VirtualHosts, host)
	}
	return r.routeConfiguration(m, filters, c)
}

// hostDomain returns the domain of a virtual host that Istio has named: domain:port, or
// inbound|http|port for all requests to a sidecar.
func hostDomain(name string) string {
	if name == "" || strings.Contains(name, "|") {
		return "*"
	}
	return withoutPort(name)
}

// patchedHost reads the patches of a virtual host.
func (r *reader) patchedHost(name string, patches []patch) *routepb.VirtualHost {
	host := &routepb.VirtualHost{TypedPerFilterConfig: map[string]*anypb.Any{}}
	named := map[string]bool{"": true}
	var mine []patch // of its routes
	for _, p := range patches {
		switch {
		case p.host != "" && p.host != name:
		case p.applyTo == "VIRTUAL_HOST":
			of := new(routepb.VirtualHost)
			r.message(p.node, "virtual_hosts", of)
			host.RateLimits = append(host.RateLimits, of.GetRateLimits()...)
			maps.Copy(host.GetTypedPerFilterConfig(), of.GetTypedPerFilterConfig())
		case p.applyTo == "HTTP_ROUTE" && p.get("match") != nil: // a full route
			of := new(routepb.Route)
			r.message(p.node, "routes", of)
			host.Routes = append(host.Routes, of)
		case p.applyTo == "HTTP_ROUTE":
			mine, named[p.route] = append(mine, p), true
		}
	}
	list := slices.Sorted(maps.Keys(named))
	for _, route := range append(list[1:], "") { // the one for all others last
		host.Routes = append(host.Routes, r.patchedRoute(route, mine))
	}
	return host
}

// patchedRoute returns the route of a name, "" for those of any other. Which requests it takes is known by its name only.
func (r *reader) patchedRoute(name string, patches []patch) *routepb.Route {
	forward := new(routepb.RouteAction)
	route := &routepb.Route{
		Name: name, Action: &routepb.Route_Route{Route: forward}, TypedPerFilterConfig: map[string]*anypb.Any{},
		Match: &routepb.RouteMatch{PathSpecifier: &routepb.RouteMatch_Prefix{Prefix: "/"}},
	}
	for _, p := range patches {
		if p.route != "" && p.route != name {
			continue
		}
		if p.route != "" {
			r.note(p.node, "which requests the route %q takes is in a VirtualService; it is compared with the route name in the log", name)
		}
		of := new(routepb.Route)
		r.message(p.node, "routes", of)
		forward.RateLimits = append(forward.RateLimits, of.GetRoute().GetRateLimits()...)
		if include := of.GetRoute().GetIncludeVhRateLimits(); include.GetValue() { //nolint:staticcheck // as in calls
			forward.IncludeVhRateLimits = include //nolint:staticcheck // as in calls
		}
		maps.Copy(route.GetTypedPerFilterConfig(), of.GetTypedPerFilterConfig())
	}
	return route
}
