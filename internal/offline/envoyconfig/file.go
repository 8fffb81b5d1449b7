package envoyconfig

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/internal/descriptors/plaintext"
	"weir/internal/descriptors/strictyaml"
)

const maxProblems = 100 // maximum number of problems in the error of Load

// Load parses data, a file in YAML or JSON. name is the file's name in notes and errors. If the file is invalid,
// the error lists its problems, one per line.
func Load(data []byte, name string, o Options) (*Config, error) {
	r := &reader{Options: o, limits: map[*node]*rateLimit{}, needs: map[string]bool{}}
	r.File = name
	if len(data) > strictyaml.MaxFileSize {
		r.problem(nil, "the file is too large, at most %d MiB are allowed; of a dump you need only /config_dump?resource=dynamic_listeners and ?resource=dynamic_route_configs, in one file with a line --- between them", strictyaml.MaxFileSize>>20)
		data = nil
	}
	for _, root := range r.ParseAll(data) {
		if n := r.node(root, nil, strictyaml.Step{}); len(r.Problems) == 0 {
			r.collect(n)
		}
	}
	var c *Config
	if len(r.Problems) == 0 {
		c = r.take(r.choices())
	}
	if len(r.Problems) > 0 {
		r.Problems.Sort()
		return nil, r.Problems.First(maxProblems)
	}
	return c, nil
}

// reader reads one file. Its Warnings become the notes of the Config.
type reader struct {
	strictyaml.Decoder
	Options
	sources
	limits        map[*node]*rateLimit
	sourceCluster string
	needs         map[string]bool
}

func (r *reader) problem(at *node, format string, args ...any) {
	if len(r.Problems) <= maxProblems {
		r.Problems = appendOnce(r.Problems, r.location(at), fmt.Sprintf(format, args...))
	}
}

func (r *reader) note(at *node, format string, args ...any) {
	r.Warnings = appendOnce(r.Warnings, r.location(at), plaintext.Line(fmt.Sprintf(format, args...)))
}

func appendOnce(list strictyaml.Problems, p strictyaml.Problem, message string) strictyaml.Problems {
	if p.Message = message; slices.Contains(list, p) {
		return list
	}
	return append(list, p)
}

// location returns a problem that has the location of a value, but no message.
func (r *reader) location(at *node) strictyaml.Problem {
	if at == nil {
		return strictyaml.Problem{File: r.File}
	}
	return strictyaml.Problem{File: r.File, Line: at.yaml.Line, Column: at.yaml.Column, Path: at.path()}
}

// errUnusable is the error for valid configuration whose descriptors this package cannot compute.
type errUnusable struct{ error }

func unusable(format string, args ...any) error { return errUnusable{fmt.Errorf(format, args...)} }

// cannot reports err as a problem of a value. It reports an errUnusable as a note that ends with the parameter skipped.
func (r *reader) cannot(at *node, err error, skipped string) {
	if errors.As(err, new(errUnusable)) {
		r.note(at, "%v; %s", err, skipped)
	} else {
		r.problem(at, "%v", err)
	}
}

// lookAt adds a header or another property of requests to Config.Needs, and returns its name in Needs.
func (r *reader) lookAt(name string) string {
	if name = strings.ToLower(name); name == "host" {
		name = ":authority" // where Envoy keeps the header host
	}
	r.needs[name] = true
	return name
}

// finish sets Notes and Needs of config.
func (r *reader) finish(config *Config) *Config {
	config.Needs = slices.Sorted(maps.Keys(r.needs))
	r.Warnings.Sort()
	for _, p := range r.Warnings {
		text := p.Message
		p.Message = ""
		config.Notes = append(config.Notes, Note{p.String(), text})
	}
	return config
}

// sources are the documents of a file. The items of a list count as documents.
type sources struct {
	mappings, manifests []*node
	envoy               []*node // bootstraps, dumps, listeners and route configurations
	listeners, routes   []*node // all listeners and route configurations in the documents above
	unknown             []*node
}

// collect adds a document, or the items of a list. The list may be a YAML list (as istioctl prints route
// configurations), the resources of a control plane, or a Kubernetes List.
func (r *reader) collect(n *node) {
	items := slices.Concat(n.items(), n.get("resources").items())
	if n.get("api_version") != nil {
		items = n.get("items").items()
	}
	for _, item := range items {
		r.collect(item)
	}
	has := func(field string) bool { return n.get(field) != nil }
	switch {
	case len(items) > 0:
	case n.get("kind").text() == "EnvoyFilter":
		r.manifests = append(r.manifests, n)
	case has("rate_limits") && !has("virtual_hosts"):
		r.mappings = append(r.mappings, n)
	case !has("api_version") && slices.ContainsFunc([]string{"virtual_hosts", "static_resources", "dynamic_resources", "configs", "filter_chains", "default_filter_chain"}, has):
		r.envoy = append(r.envoy, n)
		n.visit(r.find)
	default:
		r.unknown = append(r.unknown, n)
	}
}

// find adds a value if it is a listener or a route configuration, and reports whether to search within the value.
func (r *reader) find(n *node) bool {
	switch name := n.get("name").text(); {
	case n.get("filter_chains") != nil || n.get("default_filter_chain") != nil:
		// A config dump lists the bootstrap's listeners twice.
		if !slices.ContainsFunc(r.listeners, func(l *node) bool { return name != "" && l.get("name").text() == name }) {
			r.listeners = append(r.listeners, n)
		}
		return false
	case n.get("virtual_hosts") != nil:
		r.routes = append(r.routes, n)
		return false
	}
	r.sourceCluster = cmp.Or(n.get("node", "cluster").text(), r.sourceCluster)
	return !slices.Contains([]string{"warming_state", "draining_state", "error_state"}, n.field) && !strings.HasSuffix(n.field, "clusters")
}

// choice is a set of rate limits that From can select: the limits of routes and of the filters before the routes.
type choice struct {
	name string
	read func() *Config
}

// choices returns the sets of rate limits in the file.
func (r *reader) choices() (choices []choice) {
	ignored := r.unknown
	switch {
	case len(r.mappings) > 0:
		choices, ignored = r.mappingChoices(), slices.Concat(ignored, r.manifests, r.envoy)
	case len(r.manifests) > 0:
		choices, ignored = r.patchChoices(), slices.Concat(ignored, r.envoy)
	case len(r.routes) > 0 && len(r.listeners) == 0:
		choices = r.routeChoices()
	case len(r.envoy) > 0:
		choices = r.listenerChoices()
	default:
		r.problem(nil, "this is not a configuration of Envoy: expected is a bootstrap (static_resources), a dump of the admin port (configs), "+
			"a route configuration (virtual_hosts), an EnvoyFilter, or a mapping (domain and rate_limits)")
	}
	for _, n := range ignored {
		r.note(n, "this document is ignored")
	}
	return choices
}

// take reads the choice whose name is From, or the only choice if From is empty. If there is none, it reports a problem.
func (r *reader) take(choices []choice) *Config {
	var names []string
	for _, c := range choices {
		if r.From == c.name || r.From == "" && len(choices) == 1 {
			return c.read()
		}
		names = append(names, c.name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	switch {
	case len(r.Problems) > 0:
	case r.From == "":
		r.problem(nil, "the file has several sets of rate limits, choose one with --from: %q", names)
	default:
		r.problem(nil, "no listener or route configuration with rate limits has the name %q%s; there are %q", r.From, r.DidYouMean(r.From, names), names)
	}
	return nil
}

// mentionsRateLimits reports whether a value has rate_limits at any depth.
func mentionsRateLimits(n *node) (found bool) {
	n.visit(func(n *node) bool {
		found = found || n.field == "rate_limits"
		return !found
	})
	return found
}

// listenerChoices returns a choice for each connection manager with rate limit filters.
func (r *reader) listenerChoices() (choices []choice) {
	for _, l := range r.listeners {
		first := len(choices)
		chains := slices.Clone(l.get("filter_chains").items())
		if other := l.get("default_filter_chain"); other != nil {
			chains = append(chains, other)
		}
		for i, chain := range chains {
			for _, network := range chain.get("filters").items() {
				kind, manager := network.get("typed_config").typed()
				if kind != managerType {
					continue
				}
				if filters := r.filters(manager.get("http_filters").items()); len(filters) > 0 {
					name := l.get("name").text() + "/" + cmp.Or(chain.get("name").text(), fmt.Sprint(i))
					choices = append(choices, choice{name, func() *Config { return r.manager(manager, filters) }})
				}
			}
		}
		if len(choices) == first+1 {
			choices[first].name = l.get("name").text()
		}
	}
	if len(choices) == 0 && len(r.Problems) == 0 {
		r.problem(nil, "no HTTP connection manager in the file has a rate limit filter (%s), so Envoy sends no descriptors; weir explain takes the bucket IDs of rate_limit_quota", filterType)
	}
	return choices
}

func (r *reader) manager(n *node, filters []filter) *Config {
	routes := n.get("route_config")
	if rds := n.get("rds"); rds != nil {
		name := rds.get("route_config_name").text()
		i := slices.IndexFunc(r.routes, func(n *node) bool { return n.get("name").text() == name })
		if i < 0 {
			r.problem(rds, "the route configuration %q is not in the file; a dump of the admin port (/config_dump) has it", name)
			return nil
		}
		routes = r.routes[i]
	}
	if routes == nil {
		r.problem(n, "this connection manager has neither route_config nor rds, other routes are not supported")
		return nil
	}
	return r.routeConfiguration(routes, filters, r.client(n, client{}))
}

// routeChoices returns a choice for each route configuration with rate limits, or for the only route configuration.
func (r *reader) routeChoices() (choices []choice) {
	for _, n := range r.routes {
		if len(r.routes) == 1 || mentionsRateLimits(n) {
			choices = append(choices, choice{n.get("name").text(), func() *Config { return r.routeConfiguration(n, r.unknownFilter(), client{}) }})
		}
	}
	if len(choices) == 0 {
		r.problem(nil, "no route configuration in the file has rate limits")
	}
	return choices
}

// mappingChoices returns a choice for each mapping: a domain and rate limits that apply to all
// requests. Both fields have the same form as in a filter.
func (r *reader) mappingChoices() (choices []choice) {
	for _, n := range r.mappings {
		for _, field := range n.children {
			if field.field != "domain" && field.field != "rate_limits" {
				r.problem(field, "unknown field %q; use domain or rate_limits", field.step.Field)
			}
		}
		choices = append(choices, choice{n.get("domain").text(), func() *Config {
			name := cmp.Or(n.get("domain").text(), r.Domain)
			if name == "" {
				r.problem(n, "the field domain is required")
			}
			limits := r.usable(r.rateLimits(n.get("rate_limits"), nil), "")
			all := []route{{match: []condition{hasPath}, filters: []filter{{domain: name, limits: limits}}}}
			return r.finish(&Config{domains: []domain{{"*", all}}})
		}})
	}
	return choices
}
