package envoyconfig

import (
	"slices"
	"strings"
)

// patch is a patch of an EnvoyFilter.
type patch struct {
	node               // of the patch's value
	applyTo, operation string
	context, selector  string // of the workloads that take it, "" for all
	host, route        string // names that Istio gives, "" for all
}

// patches returns what EnvoyFilters make of the workloads that they are for. The
// routes that they patch are not in the file: Istio makes them from a VirtualService.
func (r *reader) patches(manifests []node, o Options) (choices []choice) {
	var all []patch
	for _, manifest := range manifests {
		spec := manifest.get("spec")
		selector := selectorText(spec.get("workload_selector"))
		for _, p := range spec.get("config_patches").items() {
			all = append(all, r.patch(p, selector))
		}
	}
	var contexts, selectors []string
	for _, p := range all {
		contexts, selectors = appendNew(contexts, p.context), appendNew(selectors, p.selector)
	}
	for _, context := range orAll(contexts) {
		for _, selector := range orAll(selectors) {
			var mine []patch
			for _, p := range all {
				if (p.context == "" || p.context == context) && (p.selector == "" || p.selector == selector) {
					mine = append(mine, p)
				}
			}
			if slices.ContainsFunc(mine, patch.hasRateLimits) {
				name := strings.TrimSpace(context + " " + selector)
				choices = append(choices, choice{name: name, read: func() *Config {
					// Istio's gateways have use_remote_address.
					return r.patched(mine, o, client{connection: context == "GATEWAY"})
				}})
			}
		}
	}
	if len(choices) == 0 {
		r.problem(manifests[0], "no patch has rate_limits of virtual hosts, routes or a filter")
	}
	return choices
}

// patch reads what a patch is for.
func (r *reader) patch(n node, selector string) patch {
	match := n.get("match")
	vhost := match.get("route_configuration").get("vhost")
	p := patch{
		node: n.get("patch").get("value"), applyTo: n.get("apply_to").text(), operation: n.get("patch").get("operation").text(),
		context: match.get("context").text(), selector: selector,
		host: vhost.get("name").text(), route: vhost.get("route").get("name").text(),
	}
	if p.context == "ANY" {
		p.context = ""
	}
	return p
}

// selectorText returns the labels that select workloads.
func selectorText(n node) string {
	names, values := n.get("labels").pairs()
	var labels []string
	for i, name := range names {
		labels = append(labels, name+"="+values[i].text())
	}
	slices.Sort(labels)
	return strings.Join(labels, ",")
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
	return p.operation != "REMOVE" && p.exists() && p.applyTo != "CLUSTER" && mentionsRateLimits(p.yaml, new(int))
}

// patched reads the patches of a workload: their filters, and virtual hosts with as much
// of their routes as is known. c is the client without them.
func (r *reader) patched(patches []patch, o Options, c client) *Config {
	var filters []filter
	for _, p := range patches {
		if p.applyTo != "HTTP_FILTER" || p.operation == "REMOVE" {
			continue
		}
		if kind, value := typed(p.get("typed_config")); kind == filterType {
			if f, ok := r.filter(value); ok {
				f.name = p.get("name").text()
				filters = append(filters, f)
			}
		} else if isAboutRateLimits(kind) {
			r.otherRateLimits(p.node, kind)
		}
	}
	if len(filters) == 0 {
		filters = unknownFilter(o)
	}
	var configs []node
	names := []string{""}
	for _, p := range patches {
		switch p.applyTo {
		case "ROUTE_CONFIGURATION":
			configs = append(configs, p.get("typed_per_filter_config"))
		case "VIRTUAL_HOST", "HTTP_ROUTE":
			if !slices.Contains(names, p.host) {
				names = append(names, p.host)
			}
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
	var all hosts
	for _, name := range names {
		host := r.patchedHost(name, patches, scope{filters: filters, configs: configs})
		if err := all.add(hostDomain(name), host); err != nil {
			r.note(patches[0].node, "%v; the first is taken", err)
		}
		r.needs.Authority = r.needs.Authority || hostDomain(name) != "*"
	}
	config := r.config()
	config.hosts, config.ignorePort, config.client = all, true, c
	return config
}

// hostDomain returns the domain of a virtual host that Istio has named: domain:port, or
// inbound|http|port for all requests to a sidecar.
func hostDomain(name string) string {
	if name == "" || strings.Contains(name, "|") {
		return "*"
	}
	return withoutPort(name)
}

// patchedHost reads the patches for a virtual host.
func (r *reader) patchedHost(name string, patches []patch, s scope) *virtualHost {
	var mine []patch
	for _, p := range patches {
		if p.operation == "REMOVE" || p.host != "" && p.host != name {
			continue
		}
		switch p.applyTo {
		case "VIRTUAL_HOST":
			s = r.within(p.node, s)
			s.limits = append(s.limits, r.rateLimits(p.get("rate_limits"), s.filters)...)
		case "HTTP_ROUTE":
			mine = append(mine, p)
		}
	}
	host := new(virtualHost)
	var named []string
	for _, p := range mine {
		if p.get("match").exists() { // a route that is added as a whole
			host.routes = append(host.routes, r.route(p.node, s))
		} else {
			named = appendNew(named, p.route)
		}
	}
	for _, route := range append(named, "") {
		host.routes = append(host.routes, r.patchedRoute(route, mine, s))
	}
	return host
}

// patchedRoute returns the route of a name, "" for those of any other.
func (r *reader) patchedRoute(name string, patches []patch, s scope) route {
	result := route{match: routeMatch{name: name}}
	merged := routeParts{scope: s}
	for _, p := range patches {
		if p.get("match").exists() || p.route != "" && p.route != name {
			continue
		}
		if p.route != "" {
			r.note(p.node, "which requests the route %q takes is in a VirtualService; it is compared with the name of the route in the log", name)
		}
		merged.scope = r.within(p.node, merged.scope)
		forward := p.get(forwardField)
		merged.limits = append(merged.limits, r.rateLimits(forward.get("rate_limits"), s.filters)...)
		merged.include = merged.include || forward.get("include_vh_rate_limits").isTrue()
		merged.at = p.node
	}
	r.lookMatch(&result.match)
	result.setCalls(r.callsOf(merged))
	return result
}
