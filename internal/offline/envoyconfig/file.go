package envoyconfig

import (
	"cmp"
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
	maxProblems = 100  // of a file, that are listed
	maxNesting  = 1000 // of values in each other, whatever they are
)

// Load reads a file, YAML or JSON. name stands for it in places. The error holds all
// problems, one per line.
func Load(data []byte, name string, o Options) (*Config, error) {
	r := &reader{noted: map[Note]bool{}, needs: map[string]bool{}, messageValues: maxValues}
	r.File = name
	s := sources{asked: map[string]bool{}}
	if len(data) > MaxFileSize {
		r.problem(node{}, "the file is too large, at most %d MiB are allowed; of a dump are enough /config_dump?resource=dynamic_listeners and ?resource=dynamic_route_configs, in one file with a line --- between them", MaxFileSize>>20)
		data = nil
	}
	for _, root := range r.ParseAll(data) {
		if !r.refuse(root) {
			r.add(&s, node{yaml: root})
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

// refuse reports a problem if a document has a merge key or a repeated field. It returns whether it did.
func (r *reader) refuse(n *yaml.Node) bool {
	if n.Tag == "!!merge" {
		r.problem(node{yaml: n}, "<< is not read, write the fields out")
		return true
	}
	names := map[string]bool{}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			if names[child.Value] {
				r.problem(node{yaml: child}, "the field %q is repeated, allowed is once", child.Value)
				return true
			}
			names[child.Value] = true
		}
		if r.refuse(child) {
			return true
		}
	}
	return false
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
	unknown       kind = ""
)

// kinds are told apart by a field.
var kinds = []struct {
	field string
	kind  kind
}{
	{"static_resources", aBootstrap},
	{"dynamic_resources", aBootstrap},
	{"configs", aDump},
	{"virtual_hosts", aRouteConfig},
	{"filter_chains", aListener},
	{"rate_limits", aMapping},
}

// kindOf returns what a document is and, if it is a list, its items: one of YAML, as istioctl prints route
// configurations, of a control plane, or of Kubernetes.
func kindOf(n node) (k kind, items []node) {
	manifest := n.get("kind")
	switch of := n.get("resources"); {
	case n.get("apiVersion").exists() && manifest.exists():
		k, items = aManifest, n.get("items").items()
	case of.exists():
		items = of.items()
	default:
		items = n.items()
	}
	if manifest.text() == "EnvoyFilter" {
		k = anEnvoyFilter
	}
	for _, row := range kinds {
		if k == unknown && n.get(row.field).exists() {
			k = row.kind
		}
	}
	return k, items
}

// sources are the parts of a file that are looked at.
type sources struct {
	documents         []document      // of the file, in order, with the items of lists
	mappings, patches []node          // of these kinds
	listeners, routes []node          // in documents of other kinds
	asked             map[string]bool // names of route configurations of managers with rate limit filters
}

type document struct {
	node
	kind kind
}

// add adds what is in a document, or in the items of a list.
func (r *reader) add(s *sources, n node) {
	k, items := kindOf(n)
	for _, item := range items {
		r.add(s, item)
	}
	if !n.exists() || len(items) > 0 {
		return
	}
	s.documents = append(s.documents, document{n, k})
	budget := maxValues
	switch k {
	case aMapping:
		s.mappings = append(s.mappings, n)
	case anEnvoyFilter:
		s.patches = append(s.patches, n)
	case aBootstrap, aDump, aListener, aRouteConfig:
		n.visit(&budget, func(n node) bool { return r.collect(s, n) })
	}
}

// collect adds a value if it is a listener or a route configuration, and reports whether to look for them in it.
func (r *reader) collect(s *sources, n node) bool {
	switch name := n.get("name").text(); {
	case n.get("filter_chains").exists() || n.get("default_filter_chain").exists():
		// A dump has those of the bootstrap twice.
		if !slices.ContainsFunc(s.listeners, func(l node) bool { return name != "" && l.get("name").text() == name }) {
			s.listeners = append(s.listeners, n)
		}
		return false
	case n.get("virtual_hosts").exists():
		s.routes = append(s.routes, n)
		return false
	}
	r.sourceCluster = cmp.Or(n.get("node").get("cluster").text(), r.sourceCluster)
	return !slices.Contains([]string{"warming_state", "draining_state", "error_state"}, n.step.Field) && !strings.HasSuffix(n.step.Field, "clusters")
}

// choice is what descriptors can be read from: routes, and the filters before them.
type choice struct {
	name string
	read func() *Config
}

// choose reads what the file says of rate limits, the one that the options name if it has
// several.
func (r *reader) choose(s *sources, o Options) *Config {
	var choices []choice
	var read kind
	switch {
	case len(s.mappings) > 0:
		choices, read = r.mappings(s.mappings, o), aMapping
	case len(s.patches) > 0:
		choices, read = r.patches(s.patches, o), anEnvoyFilter
	case len(s.listeners) > 0 || slices.ContainsFunc(s.documents, func(d document) bool { return d.kind == aBootstrap }):
		choices, read = r.listeners(s), aListener
	case len(s.routes) > 0:
		choices, read = r.routesAlone(s.routes, o), aRouteConfig
	default:
		var last node
		if n := len(s.documents); n > 0 {
			last = s.documents[n-1].node
		}
		r.problem(last, "this is no configuration of Envoy: needed is a bootstrap (static_resources), a dump of the admin port (configs), "+
			"a route configuration (virtual_hosts), an EnvoyFilter, or a mapping (domain and rate_limits)")
		return nil
	}
	r.leaveOutOthers(s, read)
	return r.take(choices, o.From)
}

// take reads the choice of a name, or the only one.
func (r *reader) take(choices []choice, from string) *Config {
	var known, names []string
	for _, c := range choices {
		if from == c.name || from == "" && len(choices) == 1 {
			return c.read()
		}
		known, names = append(known, c.name), append(names, fmt.Sprintf("%q", c.name))
	}
	slices.Sort(names)
	list, hint := strings.Join(slices.Compact(names), ", "), ""
	if near := spelling.Nearest(from, known); near != "" {
		hint = fmt.Sprintf(", did you mean %q?", near)
	}
	switch {
	case len(r.Problems) > 0:
	case from == "":
		r.problem(node{}, "the file has rate limits at several places, choose one with --from: %s", list)
	default:
		r.problem(node{}, "no listener or route configuration with rate limits has the name %q%s; there are %s", from, hint, list)
	}
	return nil
}

// leaveOutOthers notes the documents that are not read beside those of a kind.
func (r *reader) leaveOutOthers(s *sources, read kind) {
	budget := maxValues
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
		if mentionsRateLimits(d.node, &budget) {
			r.leaveOut(d.node, "%s and its rate limits are left out%s", what, why)
		} else {
			r.note(d.node, "%s is left out%s", what, why)
		}
	}
}

// mentionsRateLimits reports whether a value has rate limits somewhere, or so many values that this is not known.
func mentionsRateLimits(n node, budget *int) bool {
	found := false
	return !n.visit(budget, func(n node) bool {
		found = found || n.step.Field == "rate_limits" || n.step.Field == "rateLimits"
		return !found
	}) || found
}

// listeners returns the connection managers with rate limit filters.
func (r *reader) listeners(s *sources) (choices []choice) {
	for _, l := range s.listeners {
		first := len(choices)
		add := func(chain string, n node) {
			kind, manager := typed(n)
			if kind != managerType {
				return
			}
			if filters := r.filters(manager.get("http_filters").items()); len(filters) > 0 {
				s.asked[manager.get("rds").get("route_config_name").text()] = true
				choices = append(choices, choice{l.get("name").text() + "/" + chain, func() *Config { return r.manager(manager, filters, s) }})
			}
		}
		for i, chain := range append(l.get("filter_chains").items(), l.get("default_filter_chain")) {
			for _, network := range chain.get("filters").items() {
				add(cmp.Or(chain.get("name").text(), fmt.Sprint(i)), network.get("typed_config"))
			}
		}
		if len(choices) == first+1 {
			choices[first].name = l.get("name").text()
		}
	}
	if len(choices) == 0 && len(r.Problems) == 0 {
		r.problem(node{}, "no HTTP connection manager in the file has a rate limit filter (%s), so Envoy sends no descriptors", filterType)
	}
	return choices
}

// manager reads a connection manager.
func (r *reader) manager(n node, filters []filter, s *sources) *Config {
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
	return r.routeConfiguration(routes, filters, r.client(n, client{}))
}

// routesAlone returns the route configurations with rate limits of a file without filters.
func (r *reader) routesAlone(routes []node, o Options) (choices []choice) {
	for _, n := range routes {
		if budget := maxValues; len(routes) == 1 || mentionsRateLimits(n, &budget) {
			choices = append(choices, choice{n.get("name").text(), func() *Config { return r.routeConfiguration(n, unknownFilter(o), client{}) }})
		}
	}
	if len(choices) == 0 {
		r.problem(node{}, "no route configuration in the file has rate limits")
	}
	return choices
}

// mappings returns the mapping of a small file: a domain and its rate limits, for
// all requests.
func (r *reader) mappings(list []node, o Options) (choices []choice) {
	for _, n := range list {
		for name, value := range n.fields() {
			if name != "domain" && name != "rate_limits" && name != "rateLimits" {
				r.problem(value, "unknown field %q, allowed are domain and rate_limits", name)
			}
		}
		domain := n.get("domain").text()
		choices = append(choices, choice{domain, func() *Config {
			if domain = cmp.Or(domain, o.Domain); domain == "" {
				r.problem(n, "the field domain is needed")
			}
			limits := r.usable(r.rateLimits(n.get("rate_limits"), nil), "")
			all := newHosts()
			all.exact["*"] = []route{{match: []condition{hasPath}, calls: []call{{0, domain, true, true, limits}}}}
			return r.config(all, client{})
		}})
	}
	return choices
}
