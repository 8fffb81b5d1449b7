package envoyconfig

import (
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// patch is a patch of an EnvoyFilter.
type patch struct {
	*node             // of the patch's value
	applyTo           string
	context, selector string // of the workloads that take it, "" for all
	host, route       string // names that Istio gives, "" for all
}

// patches returns what EnvoyFilters make of the workloads to which they apply. The
// routes that they patch are not in the file: Istio makes them from a VirtualService.
func (r *reader) patches(manifests []*node, o Options) (choices []choice) {
	var all []patch
	contexts, selectors := map[string]bool{}, map[string]bool{}
	for _, manifest := range manifests {
		var labels []string
		if selector := manifest.get("spec", "workload_selector", "labels"); selector != nil {
			for _, label := range selector.children {
				labels = append(labels, label.step.Field+"="+label.text())
			}
		}
		slices.Sort(labels)
		for _, n := range manifest.get("spec", "config_patches").items() {
			value, host := n.get("patch", "value"), n.get("match", "route_configuration", "vhost")
			if value == nil || n.get("patch", "operation").text() == "REMOVE" {
				continue
			}
			p := patch{
				value, n.get("apply_to").text(), strings.TrimPrefix(n.get("match", "context").text(), "ANY"), strings.Join(labels, ","),
				host.get("name").text(), host.get("route", "name").text(),
			}
			all = append(all, p)
			contexts[p.context], selectors[p.selector] = true, true
		}
	}
	for _, context := range orAll(contexts) {
		for _, selector := range orAll(selectors) {
			mine := slices.DeleteFunc(slices.Clone(all), func(p patch) bool {
				return p.context != "" && p.context != context || p.selector != "" && p.selector != selector
			})
			if slices.ContainsFunc(mine, func(p patch) bool { return p.applyTo != "CLUSTER" && mentionsRateLimits(p.node) }) {
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

// orAll returns names, or the empty one for all if there is no other.
func orAll(names map[string]bool) []string {
	if len(names) > 1 {
		delete(names, "")
	}
	return slices.Sorted(maps.Keys(names))
}

// patched reads the patches of a workload: their filters, and virtual hosts with as much
// of their routes as is known. c is the client without them.
func (r *reader) patched(patches []patch, o Options, c client) *Config {
	var httpFilters, ofAllHosts []*node
	names := map[string]bool{"": true}
	for _, p := range patches {
		switch p.applyTo {
		case "ROUTE_CONFIGURATION":
			ofAllHosts = append(ofAllHosts, p.node)
		case "VIRTUAL_HOST", "HTTP_ROUTE":
			names[p.host] = true
		case "HTTP_FILTER":
			httpFilters = append(httpFilters, p.node)
		case "NETWORK_FILTER":
			if kind, manager := p.get("typed_config").typed(); kind == managerType {
				c = r.client(manager, c)
			}
			r.skip(p.node)
		default:
			r.skip(p.node)
		}
	}
	filters := r.filters(httpFilters)
	if len(filters) == 0 {
		filters = unknownFilter(o)
	}
	s := r.within(merged(ofAllHosts...), scope{all: filters, filters: filters})
	all := &hosts{ignorePort: true}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(names))) { // "" last: of equal domains the first counts
		all.add(r, hostDomain(name), r.patchedHost(name, patches, s))
	}
	return r.config(all, c)
}

// hostDomain returns the domain of a virtual host that Istio has named: domain:port, or
// inbound|http|port for all requests to a sidecar.
func hostDomain(name string) string {
	if name == "" || strings.Contains(name, "|") {
		return "*"
	}
	return WithoutPort(name)
}

// patchedHost reads the routes of a virtual host: whole ones, and then those that are known by their names only, of
// which "" stands for all others and comes last.
func (r *reader) patchedHost(name string, patches []patch, s scope) (routes []route) {
	var host, whole []*node
	var parts []patch
	named := map[string]bool{"": true}
	for _, p := range patches {
		switch {
		case p.host != "" && p.host != name:
		case p.applyTo == "VIRTUAL_HOST":
			host = append(host, p.node)
		case p.applyTo == "HTTP_ROUTE" && p.get("match") != nil:
			whole = append(whole, p.node)
		case p.applyTo == "HTTP_ROUTE":
			parts, named[p.route] = append(parts, p), true
		}
	}
	s = r.host(merged(host...), s)
	for _, n := range whole {
		if match, ok := r.routeMatch(n); ok {
			routes = append(routes, r.route(n, match, s))
		}
	}
	names := slices.Sorted(maps.Keys(named))
	for _, name := range append(names[1:], "") {
		match := []condition{hasPath}
		if name != "" {
			r.lookAt(RouteName)
			match = append(match, func(t *Request) bool { return t.Route == name })
		}
		values := []*node{{yaml: &yaml.Node{Kind: yaml.MappingNode}, children: []*node{forwards}}}
		for _, p := range parts {
			if p.route == name && name != "" {
				r.note(p.node, "which requests the route %q takes is in a VirtualService; it is compared with the route name in the log", name)
			}
			if p.route == name || p.route == "" {
				values = append(values, p.node)
			}
		}
		routes = append(routes, r.route(merged(values...), match, s))
	}
	return routes
}

// forwards is the field route of a route that forwards, as those do of which only a name is known.
var forwards = &node{yaml: &yaml.Node{Kind: yaml.MappingNode}, field: "route"}
