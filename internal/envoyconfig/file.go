package envoyconfig

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"weir/internal/spelling"
	"weir/internal/strictyaml"
)

// MaxFileSize bounds what Load reads, in bytes.
const MaxFileSize = strictyaml.MaxFileSize

const (
	// maxProblems bounds how many problems of a file are listed.
	maxProblems = 100
	maxNesting  = 1000 // of values in each other, whatever they are
)

// Load reads a file, YAML or JSON. name stands for it in places. The error holds all
// problems, one per line.
func Load(data []byte, name string, o Options) (*Config, error) {
	r := &reader{Decoder: strictyaml.Decoder{Reporter: strictyaml.Reporter{File: name}}, messageValues: maxValues}
	var s sources
	roots := r.ParseAll(data)
	for i, root := range roots {
		if r.refuse(root, 0) {
			continue
		}
		top := node{yaml: root}
		if len(roots) > 1 { // documents are told apart by their lines
			top.step = strictyaml.Step{Index: i}
		}
		s.add(top)
	}
	var c *Config
	if len(r.Problems) == 0 {
		c = r.choose(&s, o)
	}
	if len(r.Problems) > 0 {
		r.Problems.Sort()
		return nil, r.Problems.First(maxProblems)
	}
	return c, nil
}

// refuse reports a problem if a document has a merge key, a repeated field or too much
// nesting. It returns whether it did.
func (r *reader) refuse(n *yaml.Node, depth int) bool {
	switch {
	case n.Tag == "!!merge":
		r.problem(node{yaml: n}, "<< is not read, write the fields out")
		return true
	case depth > maxNesting:
		r.problem(node{yaml: n}, "nested too deep, at most %d levels are allowed", maxNesting)
		return true
	}
	var names map[string]bool
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			if names[child.Value] {
				r.problem(node{yaml: child}, "the field %q is repeated, allowed is once", child.Value)
				return true
			}
			if names == nil {
				names = make(map[string]bool, len(n.Content)/2)
			}
			names[child.Value] = true
		}
		if r.refuse(child, depth+1) {
			return true
		}
	}
	return false
}

// sources are the parts of a file that are looked at.
type sources struct {
	listeners []node
	known     bool // whether the file is of a kind that has listeners
	routes    []node
	patches   []node // manifests of EnvoyFilter
	mappings  []node
	bootstrap []node
	otherwise []node // listeners of the bootstrap of a dump, if it has no others
	unknown   node   // the last value of no known kind
}

// add adds what is in a value, by its fields.
func (s *sources) add(n node) {
	for _, item := range n.items() { // as istioctl prints route configurations
		s.add(item)
	}
	switch {
	case n.get("kind").text() == "EnvoyFilter":
		s.patches = append(s.patches, n)
	case n.get("apiVersion").exists() && n.get("kind").exists():
		for _, item := range n.get("items").items() {
			s.add(item)
		}
	case n.get("static_resources").exists() || n.get("dynamic_resources").exists():
		s.bootstrap = append(s.bootstrap, n)
		s.known = true
		s.listeners = append(s.listeners, n.get("static_resources").get("listeners").items()...)
	case n.get("configs").exists():
		for _, dump := range n.get("configs").items() {
			s.addDump(dump)
		}
	case n.get("resources").exists():
		for _, resource := range n.get("resources").items() {
			s.add(resource)
		}
	case n.get("virtual_hosts").exists():
		s.routes = append(s.routes, n)
	case n.get("filter_chains").exists():
		s.known = true
		s.listeners = append(s.listeners, n)
	case n.get("rate_limits").exists():
		s.mappings = append(s.mappings, n)
	default:
		s.unknown = n
	}
}

// addDump adds an item of a dump of the admin port: a whole one, or one resource of it.
func (s *sources) addDump(n node) {
	if bootstrap := n.get("bootstrap"); bootstrap.exists() {
		s.bootstrap = append(s.bootstrap, bootstrap)
		s.otherwise = bootstrap.get("static_resources").get("listeners").items()
	}
	listeners := append(n.get("static_listeners").items(), n.get("dynamic_listeners").items()...)
	for _, l := range append(listeners, n) {
		for _, listener := range []node{l.get("listener"), l.get("active_state").get("listener")} {
			if listener.exists() {
				s.known = true
				s.listeners = append(s.listeners, listener)
			}
		}
	}
	routes := append(n.get("static_route_configs").items(), n.get("dynamic_route_configs").items()...)
	for _, route := range append(routes, n) {
		if route := route.get("route_config"); route.exists() {
			s.routes = append(s.routes, route)
		}
	}
}

// choice is what descriptors can be read from: routes, and the filters before them.
type choice struct {
	name string
	read func() *Config
}

// choose reads what the file says of rate limits, the one that the options name if it has
// several.
func (r *reader) choose(s *sources, o Options) *Config {
	for _, b := range s.bootstrap {
		if cluster := b.get("node").get("cluster").text(); cluster != "" {
			r.sourceCluster = cluster
		}
	}
	if len(s.listeners) == 0 {
		s.listeners = s.otherwise
		s.known = s.known || len(s.otherwise) > 0
	}
	var choices []choice
	switch {
	case len(s.mappings) > 0:
		choices = r.mappings(s.mappings, o)
	case len(s.patches) > 0:
		choices = r.patches(s.patches, o)
	case s.known:
		choices = r.listeners(s)
		if len(choices) == 0 && len(r.Problems) == 0 {
			r.problem(node{}, "no HTTP connection manager in the file has a rate limit filter (%s), so Envoy sends no descriptors", filterType)
		}
	case len(s.routes) > 0:
		choices = r.routesAlone(s.routes, o)
	default:
		r.problem(s.unknown, "this is no configuration of Envoy: needed is a bootstrap (static_resources), a dump of the admin port (configs), "+
			"a route configuration (virtual_hosts), an EnvoyFilter, or a mapping (domain and rate_limits)")
	}
	return r.take(choices, o.From)
}

// take reads the choice of a name, or the only one.
func (r *reader) take(choices []choice, from string) *Config {
	var names []string
	for _, c := range choices {
		if from == c.name || from == "" && len(choices) == 1 {
			return c.read()
		}
		names = append(names, fmt.Sprintf("%q", c.name))
	}
	slices.Sort(names)
	names = slices.Compact(names)
	switch {
	case len(r.Problems) > 0:
	case from == "":
		r.problem(node{}, "the file has rate limits at several places, choose one with --from: %s", strings.Join(names, ", "))
	default:
		hint := ""
		if near := spelling.Nearest(from, choiceNames(choices)); near != "" {
			hint = fmt.Sprintf(", did you mean %q?", near)
		}
		r.problem(node{}, "no listener or route configuration with rate limits has the name %q%s; there are %s", from, hint, strings.Join(names, ", "))
	}
	return nil
}

func choiceNames(choices []choice) (names []string) {
	for _, c := range choices {
		names = append(names, c.name)
	}
	return names
}

// listeners returns the connection managers with rate limit filters.
func (r *reader) listeners(s *sources) (choices []choice) {
	for _, l := range s.listeners {
		chains := l.get("filter_chains").items()
		if last := l.get("default_filter_chain"); last.exists() {
			chains = append(chains, last)
		}
		first := len(choices)
		for i, chain := range chains {
			for _, network := range chain.get("filters").items() {
				kind, manager := typed(network.get("typed_config"))
				if kind == managerType {
					choices = r.manager(choices, l, chain, i, manager, s)
				}
			}
		}
		if kind, manager := typed(l.get("api_listener").get("api_listener")); kind == managerType {
			choices = r.manager(choices, l, node{}, 0, manager, s)
		}
		if len(choices) == first+1 {
			choices[first].name = l.get("name").text()
		}
	}
	return choices
}

// manager appends a connection manager if it has rate limit filters.
func (r *reader) manager(choices []choice, listener, chain node, index int, n node, s *sources) []choice {
	filters := r.filters(n.get("http_filters"))
	if len(filters) == 0 {
		return choices
	}
	name := chain.get("name").text()
	if name == "" {
		name = fmt.Sprint(index)
	}
	return append(choices, choice{name: listener.get("name").text() + "/" + name, read: func() *Config {
		routes := n.get("route_config")
		if rds := n.get("rds"); rds.exists() {
			name := rds.get("route_config_name").text()
			i := slices.IndexFunc(s.routes, func(n node) bool { return n.get("name").text() == name })
			if i < 0 {
				r.problem(rds, "the route configuration %q is not in the file; a dump of the admin port (/config_dump) has it", name)
				return nil
			}
			routes = s.routes[i]
		}
		if !routes.exists() {
			r.problem(n, "this connection manager has neither route_config nor rds, others are not read")
			return nil
		}
		return r.routeConfiguration(routes, filters)
	}})
}

// routesAlone returns the route configurations with rate limits of a file without filters.
func (r *reader) routesAlone(routes []node, o Options) (choices []choice) {
	for _, n := range routes {
		if !mentionsRateLimits(n.yaml, new(int)) && len(routes) > 1 {
			continue
		}
		choices = append(choices, choice{name: n.get("name").text(), read: func() *Config {
			return r.routeConfiguration(n, unknownFilter(o))
		}})
	}
	if len(choices) == 0 {
		r.problem(node{}, "no route configuration in the file has rate limits")
	}
	return choices
}

// unknownFilter stands for the filter of a file that has none.
func unknownFilter(o Options) []filter {
	return []filter{{unknown: true, domain: o.Domain, internal: true, external: true}}
}

// mentionsRateLimits reports whether a value has rate limits somewhere.
func mentionsRateLimits(n *yaml.Node, seen *int) bool {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if *seen++; *seen > maxValues {
		return true
	}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && (child.Value == "rate_limits" || child.Value == "rateLimits") || mentionsRateLimits(child, seen) {
			return true
		}
	}
	return false
}

// mappings returns the mapping of a small file: a domain and its rate limits, for
// all requests.
func (r *reader) mappings(list []node, o Options) (choices []choice) {
	for _, n := range list {
		names, values := n.pairs()
		for i, name := range names {
			if name != "domain" && camelCase(name) != "rateLimits" {
				r.problem(values[i].orNull(n, name), "unknown field %q, allowed are domain and rate_limits", name)
			}
		}
		choices = append(choices, choice{name: n.get("domain").text(), read: func() *Config {
			c := call{domain: n.get("domain").text(), internal: true, external: true}
			if c.domain == "" {
				c.domain = o.Domain
			}
			if c.domain == "" {
				r.problem(n, "the field domain is needed")
			}
			c.limits = r.makeAll(r.rateLimits(n.get("rate_limits"), nil), "", nil)
			var only route
			only.setCalls([]call{c})
			config := r.config()
			config.hosts.any = &virtualHost{routes: []route{only}}
			return config
		}})
	}
	return choices
}
