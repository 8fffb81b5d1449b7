package envoyconfig

import (
	"slices"
	"strings"
	"testing"
)

// limit is a mapping with one rate limit.
func limit(text string) string { return "domain: d\nrate_limits:\n  - " + text + "\n" }

// oneAction is a mapping with one action.
func oneAction(text string) string { return limit("actions: [{" + text + "}]") }

// oneRoute is a bootstrap with one route, whose line is 13.
func oneRoute(text string) string { return bootstrap("", text) }

func bootstrap(filter, route string) string {
	return `static_resources:
  listeners:
    - name: l
      filter_chains:
        - filters:
            - typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                http_filters:
                  - name: weir
                    typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit, domain: d` + filter + `}
                route_config:
                  virtual_hosts: [{name: v, domains: ["*"], routes: [{
                    ` + route + `}]}]
`
}

func TestBadFiles(t *testing.T) {
	const inRoute = "static_resources.listeners[0].filter_chains[0].filters[0].typed_config.route_config.virtual_hosts[0].routes[0]"
	for _, tt := range []struct{ name, text, from, want string }{
		{"empty", "", "", "f.yaml: this is no configuration of Envoy: needed is"},
		{"no YAML", "a: [", "", "f.yaml:2: invalid YAML: "},
		{"something else", "a: b", "", "f.yaml:1:1: this is no configuration of Envoy: needed is a bootstrap (static_resources)"},
		{"control character", "a: \x01", "", "f.yaml:1: the byte 0x01 is not text"},
		{"merge", "domain: d\nrate_limits: [{<<: {}}]", "", "f.yaml:2:16: << is not read, write the fields out"},
		{"repeated field", "domain: d\ndomain: e", "", `f.yaml:2:1: the field "domain" is repeated, allowed is once`},
		{"no domain", "rate_limits: [{actions: [{remote_address: {}}]}]", "", "f.yaml:1:1: the field domain is needed"},
		{"unknown field of a mapping", limit("actions: [{remote_address: {}}]") + "extra: 1", "", `f.yaml:4:8: extra: unknown field "extra", allowed are domain and rate_limits`},
		{"no list", "domain: d\nrate_limits: {}", "", "f.yaml:2:14: rate_limits: a list of rate limits is needed"},
		{"no rate limit", "domain: d\nrate_limits: [null]", "", "f.yaml:2:15: rate_limits[0]: a rate limit is needed"},
		{"no actions", limit("{}"), "", "f.yaml:3:5: rate_limits[0]: actions are needed"},
		{"empty action", oneAction(""), "", "f.yaml:3:15: rate_limits[0].actions[0]: the action is empty"},
		{"unknown action", oneAction("remoteaddress: {}"), "", `f.yaml:3:31: rate_limits[0].actions[0].remoteaddress: unknown field "remoteaddress"`},
		{"path as an action", oneAction("path: {}"), "", `actions[0].path: unknown field "path"; Envoy has no such action, use request_headers with header_name ":path"`},
		{"host as an action", oneAction("host: {}"), "", `actions[0].host: unknown field "host"; Envoy has no such action, use request_headers with header_name ":authority"`},
		{"path within an action", oneAction("request_headers: {path: x}"), "", "unknown field \"path\"\n"},
		{"two actions in one", oneAction("remote_address: {}, source_cluster: {}"), "", `f.yaml:3:52: rate_limits[0].actions[0].source_cluster: error parsing "source_cluster", oneof`},
		{"unknown field of an action", oneAction("request_headers: {header_name: x, descriptor_key: key, skip: true}"), "", `rate_limits[0].actions[0].request_headers.skip: unknown field "skip"`},
		{"no header", oneAction("request_headers: {descriptor_key: key}"), "", "rate_limits[0].actions[0]: header_name and descriptor_key are needed"},
		{"no parameter", oneAction("query_parameters: {query_parameter_name: key}"), "", "rate_limits[0].actions[0]: query_parameter_name and descriptor_key are needed"},
		{"no value", oneAction("generic_key: {}"), "", "rate_limits[0].actions[0]: descriptor_value is needed"},
		{"word for a boolean", oneAction("generic_key: {descriptor_value: on}"), "", "f.yaml:3:48: rate_limits[0].actions[0].generic_key.descriptor_value: invalid value for string field descriptorValue: true; Envoy takes on for a boolean, put it in quotes"},
		{"large mask", oneAction("masked_remote_address: {v4_prefix_mask_len: 33}"), "", "v4_prefix_mask_len is at most 32"},
		{"no headers to match", oneAction("header_value_match: {descriptor_value: x}"), "", "headers are needed"},
		{"no parameters to match", oneAction("query_parameter_value_match: {descriptor_value: x}"), "", "query_parameters are needed"},
		{"bad regex", oneAction("header_value_match: {descriptor_value: x, headers: [{name: a, string_match: {safe_regex: {regex: '('}}}]}"), "", "headers[0]: the regular expression cannot be read: "},
		{"empty matcher", oneAction("header_value_match: {descriptor_value: x, headers: [{name: a, string_match: {}}]}"), "", "headers[0]: a string matcher says nothing"},
		{"no name", oneAction("header_value_match: {descriptor_value: x, headers: [{present_match: true}]}"), "", "headers[0]: the name of a header is needed"},
		{"bad network", oneAction("remote_address_match: {descriptor_value: x, address_matcher: {ranges: [{address_prefix: x}]}}"), "", `the address_prefix "x" is no IP address`},
		{"hits without number", limit("{actions: [{remote_address: {}}], hits_addend: {}}"), "", "f.yaml:3:52: rate_limits[0].hits_addend: number or format is needed"},
		{"stage", limit("{actions: [{remote_address: {}}], stage: 1}"), "", "stage and disable_key are not allowed here"},
		{"deep", "domain: d\nrate_limits: " + strings.Repeat("[", 2000) + strings.Repeat("]", 2000), "", "nested too deep"},
		{"loop", "domain: d\nrate_limits:\n  - &a\n    actions: [*a]\n", "", "rate_limits[0].actions[0].actions[0].actions[0]"},
		{"no filter", strings.ReplaceAll(oneRoute("match: {prefix: /}"), "ratelimit.v3", "lua.v3"), "", "f.yaml: no HTTP connection manager in the file has a rate limit filter"},
		{"unknown stage of a filter", bootstrap(", stages: 1", "match: {prefix: /}"), "", `http_filters[0].typed_config.stages: unknown field "stages"`},
		{"request type", bootstrap(", request_type: inside", "match: {prefix: /}"), "", `typed_config.request_type: the request_type "inside" is not known, allowed are internal, external and both`},
		{"no match", oneRoute("route: {cluster: c}"), "", "f.yaml:12:70: " + inRoute + ": the field match is needed"},
		{"no path", oneRoute("match: {headers: [{name: x}]}"), "", "f.yaml:13:28: " + inRoute + ".match: one of prefix, path, safe_regex, path_separated_prefix and connect_matcher is needed"},
		{"unknown match", oneRoute("match: {prefixes: /}"), "", inRoute + `.match.prefixes: unknown field "prefixes"`},
		{"unknown name", oneRoute("match: {prefix: /}"), "x", `f.yaml: no listener or route configuration with rate limits has the name "x"; there are "l"`},
		{"misspelt name", strings.Replace(oneRoute("match: {prefix: /}"), "name: l", "name: gateway", 1), "gatway", `has the name "gatway", did you mean "gateway"?; there are "gateway"`},
		{"no route configuration", strings.Replace(oneRoute("match: {prefix: /}"), "route_config:", "rds: {route_config_name: far}\n                other:", 1), "", `the route configuration "far" is not in the file`},
		{"several", "[{name: a, virtual_hosts: [{rate_limits: []}]}, {name: b, virtual_hosts: [{rate_limits: []}]}]", "", `f.yaml: the file has rate limits at several places, choose one with --from: "a", "b"`},
		{"no domain in routes", "virtual_hosts: [{domains: ['*'], routes: [{match: {prefix: /}, route: {cluster: c, rate_limits: [{actions: [{remote_address: {}}]}]}}]}]", "", "f.yaml: no rate limit filter in the file names the domain, give it with --domain"},
		{"domain of two hosts", "virtual_hosts: [{domains: [a]}, {domains: [A]}]", "", `f.yaml:1:44: virtual_hosts[1].domains[0]: two virtual hosts have the domain "a"`},
		{"escape", "domain: \"\\e[31m\"\nrate_limits: [{actions: [{\"\\e\": 1}]}]", "", `unknown field`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Load([]byte(tt.text), "f.yaml", Options{From: tt.from})
			if err == nil || !strings.Contains(err.Error()+"\n", tt.want) || strings.ContainsRune(err.Error(), '\x1b') {
				t.Errorf("got %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestNotes(t *testing.T) {
	const perRoute = `match: {prefix: /}, route: {cluster: c}, typed_per_filter_config: {`
	for _, tt := range []struct {
		name, text, want string
		leftOut          bool
	}{
		{"source cluster", oneAction("source_cluster: {}"), "f.yaml:3:15: rate_limits[0].actions[0]: source_cluster is the --service-cluster of Envoy, which is not in the file; the rate limit is left out", true},
		{"destination cluster", oneAction("destination_cluster: {}"), "destination_cluster is chosen by Envoy", true},
		{"metadata", oneAction("metadata: {descriptor_key: k}"), "metadata is set by other filters", true},
		{"dynamic metadata", oneAction("dynamic_metadata: {descriptor_key: k}"), "dynamic_metadata is set by other filters", true},
		{"extension", oneAction(`extension: {name: "n", typed_config: {"@type": type.googleapis.com/envoy.extensions.rate_limit_descriptors.expr.v3.Descriptor, text: x}}`), `the extension "n" (envoy.extensions.rate_limit_descriptors.expr.v3.Descriptor) is not known here; the rate limit is left out`, true},
		{"custom matcher", oneAction("header_value_match: {descriptor_value: x, headers: [{name: a, string_match: {custom: {name: z}}}]}"), "headers[0]: a string matcher of an extension is not known here; the rate limit is left out", true},
		{"format of an address", oneAction("remote_address_match: {descriptor_value: '%REQ(a)%', address_matcher: {}}"), `the descriptor_value "%REQ(a)%" is a format`, true},
		{"format of hits", limit(`{actions: [{remote_address: {}}], hits_addend: {format: "%BYTES_RECEIVED%"}}`), `f.yaml:3:52: rate_limits[0].hits_addend: the hits_addend "%BYTES_RECEIVED%" is known after the request only`, true},
		{"override", limit(`{actions: [{remote_address: {}}], limit: {rate_limit: {requests_per_unit: 1, unit: DAY}}}`), "rate_limits[0].limit: the override of the limit is not shown", false},
		{"literal", oneAction("generic_key: {descriptor_value: '%REQ(a)%'}"), `"%REQ(a)%" is taken as it is`, false},
		{"runtime", oneRoute("match: {prefix: /, runtime_fraction: {default_value: {numerator: 1}}}, route: {cluster: c}"), "runtime_fraction is not read", false},
		{"metadata of a route", oneRoute("match: {prefix: /, dynamic_metadata: [{}]}"), "no request shows dynamic_metadata; the route and its rate limits are left out", true},
		{"path policy", oneRoute(`match: {path_match_policy: {name: p, typed_config: {"@type": x/y.UriTemplate}}}`), "the path_match_policy y.UriTemplate is not known here", true},
		{"misspelt field", oneRoute("match: {prefix: /}, route: {rate_limit: []}"), `routes[0].route.rate_limit: the field "rate_limit" is not known here and not used, did you mean rate_limits?`, false},
		{"disable key", oneRoute("match: {prefix: /}, route: {rate_limits: [{disable_key: k, actions: [{remote_address: {}}]}]}"), "the runtime key ratelimit.k.http_filter_enabled is not read", false},
		{"stage of no filter", oneRoute("match: {prefix: /}, route: {rate_limits: [{stage: 2, actions: [{remote_address: {}}]}]}"), "route.rate_limits[0]: no rate limit filter has the stage 2, Envoy does not use this rate limit", false},
		{"hits of a route", oneRoute("match: {prefix: /}, route: {rate_limits: [{hits_addend: {number: 1}, actions: [{remote_address: {}}]}]}"), "Envoy does not use hits_addend here", false},
		{"enabled", bootstrap(", filter_enabled: {}", "match: {prefix: /}"), "filter_enabled is not read", false},
		{"weighted", oneRoute("match: {prefix: /}, route: {weighted_clusters: {clusters: [{typed_per_filter_config: {weir: {'@type': x/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute}}}]}}"), "which of the weighted_clusters takes a request is not known", true},
		{"unknown name of a filter", oneRoute(perRoute + "far: {'@type': x/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute}}"), `no rate limit filter has the name "far"`, true},
		{"local", oneRoute(perRoute + "far: {'@type': x/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit}}"), "local rate limits are counted in Envoy", false},
		{"quota", oneRoute(perRoute + "far: {'@type': x/envoy.extensions.filters.http.rate_limit_quota.v3.RateLimitQuotaOverride}}"), "the type envoy.extensions.filters.http.rate_limit_quota.v3.RateLimitQuotaOverride is not known here", true},
		{"hidden filter", strings.Replace(oneRoute("match: {prefix: /}"), "http_filters:", "http_filters:\n                  - {name: c, typed_config: {'@type': x/c, inner: [{'@type': x/envoy.extensions.filters.http.ratelimit.v3.RateLimit}]}}", 1), "typed_config.inner[0]: a rate limit filter is not read here", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			notes := load(t, tt.text, Options{}).Notes()
			for _, n := range notes {
				if strings.Contains(n.String(), tt.want) && n.LeftOut == tt.leftOut {
					return
				}
			}
			t.Errorf("got %+v, want %s", notes, tt.want)
		})
	}
}

// TestDocumentsThatAreLeftOut has files with several documents, not all of which are read.
func TestDocumentsThatAreLeftOut(t *testing.T) {
	const (
		limits    = "rate_limits: [{actions: [{remote_address: {}}]}]"
		small     = "{domain: d, " + limits + "}"
		routes    = "virtual_hosts: [{domains: ['*'], " + limits + "}]"
		patch     = "{apiVersion: v1, kind: EnvoyFilter, spec: {configPatches: [{applyTo: VIRTUAL_HOST, patch: {value: {" + limits + "}}}]}}"
		unknown   = "hello: world"
		unknownIs = "this document of no known kind is left out"
	)
	for _, tt := range []struct {
		name      string
		documents []string
		want      []string // the notes
	}{
		{"beside a mapping", []string{
			"static_resources: {}", unknown, small, routes, "configs: []", patch, "{apiVersion: v1, kind: Service}", "filter_chains: []", "null",
		}, []string{
			"f.yaml:1:1: this bootstrap is left out, because the file has a mapping",
			"f.yaml:3:1: " + unknownIs,
			"f.yaml:7:1: this route configuration and its rate limits are left out, because the file has a mapping",
			"f.yaml:9:1: this dump of the admin port is left out, because the file has a mapping",
			"f.yaml:11:1: this EnvoyFilter and its rate limits are left out, because the file has a mapping",
			`f.yaml:13:1: this manifest of the kind "Service" is left out`,
			"f.yaml:15:1: this listener is left out, because the file has a mapping",
		}},
		{"beside an EnvoyFilter", []string{patch, routes}, []string{
			"f.yaml:3:1: this route configuration and its rate limits are left out, because the file has an EnvoyFilter",
		}},
		{"beside a bootstrap", []string{unknown, oneRoute("match: {prefix: /}")}, []string{"f.yaml:1:1: " + unknownIs}},
		{"not asked for", []string{"name: near\n" + routes, "name: far\n" + routes, strings.Replace(oneRoute("match: {prefix: /}"), "route_config:", "rds: {route_config_name: near}\n                other:", 1)}, []string{
			"f.yaml:4:1: this route configuration and its rate limits are left out, because no connection manager with a rate limit filter names it",
		}},
		{"beside routes", []string{routes, "[a: b, null, {" + routes + "}]", "routes: [{" + limits + "}]"}, []string{
			"f.yaml:3:2: [0]: " + unknownIs,
			"f.yaml:5:1: this document of no known kind and its rate limits are left out",
		}},
		{"later notes come later", []string{oneRoute("match: {prefix: /, runtime_fraction: {default_value: {numerator: 1}}}"), unknown}, []string{
			"f.yaml:13:58: static_resources.listeners[0].filter_chains[0].filters[0].typed_config.route_config.virtual_hosts[0].routes[0].match.runtime_fraction: runtime_fraction is not read, the route takes all requests that match",
			"f.yaml:16:1: " + unknownIs,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, n := range load(t, strings.Join(tt.documents, "\n---\n"), Options{Domain: "d"}).Notes() {
				got = append(got, n.String())
				if want := strings.Contains(n.Text, "its rate limits"); n.LeftOut != want {
					t.Errorf("%s: left out is %v, want %v", n, n.LeftOut, want)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}
