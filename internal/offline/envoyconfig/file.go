package envoyconfig

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"weir/internal/descriptors/spelling"
	"weir/internal/descriptors/strictyaml"
)

// MaxFileSize bounds what Load reads, in bytes.
const MaxFileSize = strictyaml.MaxFileSize

const (
	// maxProblems bounds how many problems of a file are listed.
	maxProblems = 100
	// maxLeftOut bounds how many documents that are left out are listed.
	maxLeftOut = 100
	maxNesting = 1000 // of values in each other, whatever they are
)

// Load reads a file, YAML or JSON. name stands for it in places. The error holds all
// problems, one per line.
func Load(data []byte, name string, o Options) (*Config, error) {
	r := &reader{Decoder: strictyaml.Decoder{Reporter: strictyaml.Reporter{File: name}}, messageValues: maxValues}
	var s sources
	if len(data) > MaxFileSize {
		r.problem(node{}, "the file is too large, at most %d MiB are allowed; of a dump are enough /config_dump?resource=dynamic_listeners and ?resource=dynamic_route_configs, in one file with a line --- between them", MaxFileSize>>20)
		data = nil
	}
	for _, root := range r.ParseAll(data) {
		if !r.refuse(root, 0) {
			s.add(node{yaml: root})
		}
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
	otherwise []node          // listeners of the bootstrap of a dump, if it has no others
	asked     map[string]bool // names of route configurations of managers with rate limit filters
	documents []document      // of the file, in order
}

// document is a document of the file, or an item of a list that is one.
type document struct {
	node
	kind kind
}

// kind is what a document is.
type kind string

const (
	aBootstrap    kind = "a bootstrap"
	aDump         kind = "a dump of the admin port"
	aListener     kind = "a listener"
	aRouteConfig  kind = "a route configuration"
	anEnvoyFilter kind = "an EnvoyFilter"
	aMapping      kind = "a mapping"
	aManifest     kind = "a manifest" // of another kind
	aList         kind = "a list"
	unknown       kind = ""
)

// kindOf returns what a document is, by its fields.
func kindOf(n node) kind {
	switch {
	case len(listed(n)) > 0:
		return aList
	case n.get("kind").text() == "EnvoyFilter":
		return anEnvoyFilter
	case n.get("apiVersion").exists() && n.get("kind").exists():
		return aManifest
	case n.get("static_resources").exists() || n.get("dynamic_resources").exists():
		return aBootstrap
	case n.get("configs").exists():
		return aDump
	case n.get("virtual_hosts").exists():
		return aRouteConfig
	case n.get("filter_chains").exists():
		return aListener
	case n.get("rate_limits").exists():
		return aMapping
	default:
		return unknown
	}
}

// listed returns the items of a list: one of YAML, of Kubernetes, or of a control plane.
func listed(n node) []node {
	switch {
	case n.get("apiVersion").exists() && n.get("kind").exists():
		return n.get("items").items()
	case n.get("resources").exists():
		return n.get("resources").items()
	default:
		return n.items() // as istioctl prints route configurations
	}
}

// add adds what is in a document, or in the items of a list.
func (s *sources) add(n node) {
	d := document{n, kindOf(n)}
	switch d.kind {
	case aList:
		for _, item := range listed(n) {
			s.add(item)
		}
		return
	case anEnvoyFilter:
		s.patches = append(s.patches, n)
	case aBootstrap:
		s.bootstrap = append(s.bootstrap, n)
		s.known = true
		s.listeners = append(s.listeners, n.get("static_resources").get("listeners").items()...)
	case aDump:
		for _, dump := range n.get("configs").items() {
			s.addDump(dump)
		}
	case aRouteConfig:
		s.routes = append(s.routes, n)
	case aListener:
		s.known = true
		s.listeners = append(s.listeners, n)
	case aMapping:
		s.mappings = append(s.mappings, n)
	}
	if n.exists() {
		s.documents = append(s.documents, d)
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
		r.leaveOutOthers(s, aMapping)
	case len(s.patches) > 0:
		choices = r.patches(s.patches, o)
		r.leaveOutOthers(s, anEnvoyFilter)
	case s.known:
		choices = r.listeners(s)
		r.leaveOutOthers(s, aListener)
		if len(choices) == 0 && len(r.Problems) == 0 {
			r.problem(node{}, "no HTTP connection manager in the file has a rate limit filter (%s), so Envoy sends no descriptors", filterType)
		}
	case len(s.routes) > 0:
		choices = r.routesAlone(s.routes, o)
		r.leaveOutOthers(s, aRouteConfig)
	default:
		var last node
		if n := len(s.documents); n > 0 {
			last = s.documents[n-1].node
		}
		r.problem(last, "this is no configuration of Envoy: needed is a bootstrap (static_resources), a dump of the admin port (configs), "+
			"a route configuration (virtual_hosts), an EnvoyFilter, or a mapping (domain and rate_limits)")
	}
	return r.take(choices, o.From)
}

// leaveOutOthers notes the documents that are not read beside those of a kind.
func (r *reader) leaveOutOthers(s *sources, read kind) {
	left, values := 0, 0
	var next node // the first that is not listed
	for _, d := range s.documents {
		_, name, _ := strings.Cut(string(d.kind), " ")
		what, why := "this "+name, ""
		switch {
		case d.kind == read:
			continue
		case d.kind == unknown:
			what = "this document of no known kind"
		case d.kind == aManifest:
			what = fmt.Sprintf("this manifest of the kind %q", d.get("kind").text())
		case read == aMapping || read == anEnvoyFilter:
			why = fmt.Sprintf(", because the file has %s", read)
		case read == aListener && d.kind == aRouteConfig && !s.asked[d.get("name").text()]:
			why = ", because no connection manager with a rate limit filter names it"
		default:
			continue
		}
		if left++; left > maxLeftOut {
			if left == maxLeftOut+1 {
				next = d.node
			}
			continue
		}
		if mentionsRateLimits(d.yaml, &values) {
			r.leaveOut(d.node, "%s and its rate limits are left out%s", what, why)
		} else {
			r.note(d.node, "%s is left out%s", what, why)
		}
	}
	if left > maxLeftOut {
		r.note(next, "from here on, %d documents are left out", left-maxLeftOut)
	}
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
	if s.asked == nil {
		s.asked = map[string]bool{}
	}
	s.asked[n.get("rds").get("route_config_name").text()] = true
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
		client := r.client(n, client{})
		c := r.routeConfiguration(routes, filters)
		c.client = client
		return c
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
