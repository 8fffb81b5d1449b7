package envoyconfig

import (
	"slices"
	"strings"
)

// patch is a patch of an EnvoyFilter.
type patch struct {
	node              // of the patch's value
	applyTo           string
	removes           bool
	context, selector string // of the workloads that take it, "" for all
	host, route       string // names that Istio gives, "" for all
}

// patches returns what EnvoyFilters make of the workloads that they are for. The
// routes that they patch are not in the file: Istio makes them from a VirtualService.
func (r *reader) patches(manifests []node, o Options) (choices []choice) {
	var all []patch
	contexts, selectors := []string{}, []string{}
	for _, manifest := range manifests {
		spec := manifest.get("spec")
		var labels []string
		for name, value := range spec.get("workload_selector").get("labels").fields() {
			labels = append(labels, name+"="+value.text())
		}
		slices.Sort(labels)
		for _, n := range spec.get("config_patches").items() {
			p := newPatch(n, strings.Join(labels, ","))
			all, contexts, selectors = append(all, p), appendNew(contexts, p.context), appendNew(selectors, p.selector)
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

// newPatch reads what a patch is for.
func newPatch(n node, selector string) patch {
	match := n.get("match")
	vhost := match.get("route_configuration").get("vhost")
	p := patch{
		node: n.get("patch").get("value"), applyTo: n.get("apply_to").text(), removes: n.get("patch").get("operation").text() == "REMOVE",
		context: match.get("context").text(), selector: selector,
		host: vhost.get("name").text(), route: vhost.get("route").get("name").text(),
	}
	if p.context == "ANY" {
		p.context = ""
	}
	return p
}

func appendNew(list []string, s string) []string {
	if s == "" || slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// orAll returns the names, or the one for all.
func orAll(names []string) []string {
	if len(names) == 0 {
		return []string{""}
	}
	return names
}

// hasRateLimits reports whether descriptors come of the patch.
func (p patch) hasRateLimits() bool {
	budget := maxValues
	return !p.removes && p.exists() && p.applyTo != "CLUSTER" && mentionsRateLimits(p.node, &budget)
}

// patched reads the patches of a workload: their filters, and virtual hosts with as much
// of their routes as is known. c is the client without them.
func (r *reader) patched(patches []patch, o Options, c client) *Config {
	var httpFilters []node
	for _, p := range patches {
		if p.applyTo == "HTTP_FILTER" && !p.removes {
			httpFilters = append(httpFilters, p.node)
		}
	}
	filters := r.filters(httpFilters)
	if len(filters) == 0 {
		filters = unknownFilter(o)
	}
	s := scope{all: filters, filters: filters}
	names := []string{""}
	for _, p := range patches {
		switch p.applyTo {
		case "ROUTE_CONFIGURATION":
			s = r.within(p.node, s)
		case "VIRTUAL_HOST", "HTTP_ROUTE":
			names = appendNew(names, p.host)
		case "HTTP_FILTER":
		case "NETWORK_FILTER":
			if kind, manager := typed(p.get("typed_config")); kind == managerType {
				c = r.client(manager, c)
			}
			r.hidden(p.node)
		default:
			r.hidden(p.node)
		}
	}
	all := newHosts()
	all.ignorePort = true
	for _, name := range names {
		domain := hostDomain(name)
		if err := all.add(domain, r.patchedHost(name, patches, s)); err != nil {
			r.note(patches[0].node, "%v; the first is taken", err)
		}
		if domain != "*" {
			r.lookAt(":authority")
		}
	}
	return r.config(all, c)
}

// hostDomain returns the domain of a virtual host that Istio has named: domain:port, or
// inbound|http|port for all requests to a sidecar.
func hostDomain(name string) string {
	if name == "" || strings.Contains(name, "|") {
		return "*"
	}
	return withoutPort(name)
}

// patchedHost reads the patches for the routes of a virtual host.
func (r *reader) patchedHost(name string, patches []patch, s scope) (routes []route) {
	var mine []patch // of its routes
	for _, p := range patches {
		switch {
		case p.removes || p.host != "" && p.host != name:
		case p.applyTo == "VIRTUAL_HOST":
			s = r.within(p.node, s)
			s.limits = append(s.limits, r.rateLimits(p.get("rate_limits"), s.all)...)
		case p.applyTo == "HTTP_ROUTE":
			mine = append(mine, p)
		}
	}
	var named []string
	for _, p := range mine {
		if p.get("match").exists() { // a route that is added as a whole
			routes = r.appendRoute(routes, p.node, s)
		} else {
			named = appendNew(named, p.route)
		}
	}
	for _, route := range append(named, "") {
		routes = append(routes, r.patchedRoute(route, mine, s))
	}
	return routes
}

// patchedRoute returns the route of a name, "" for those of any other.
func (r *reader) patchedRoute(name string, patches []patch, s scope) (result route) {
	result.match = []condition{hasPath}
	if name != "" {
		r.lookAt(RouteName)
		result.match = append(result.match, func(t *Request) bool { return t.Route == name })
	}
	var limits []*rateLimit
	include := false
	for _, p := range patches {
		if p.get("match").exists() || p.route != "" && p.route != name {
			continue
		}
		if p.route != "" {
			r.note(p.node, "which requests the route %q takes is in a VirtualService; it is compared with the name of the route in the log", name)
		}
		s = r.within(p.node, s)
		limits = append(limits, r.rateLimits(p.get("route").get("rate_limits"), s.all)...)
		include = include || p.get("route").get("include_vh_rate_limits").isTrue()
	}
	result.calls = r.calls(s, limits, "", include)
	return result
}
