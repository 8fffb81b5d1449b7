package envoyconfig

import (
	"slices"
	"strings"
	"testing"
)

// limit returns a mapping with one rate limit.
func limit(text string) string { return "domain: d\nrate_limits:\n  - " + text + "\n" }

// oneAction returns a mapping with one action.
func oneAction(text string) string { return limit("actions: [{" + text + "}]") }

// oneRoute returns a bootstrap with one route, on line 13.
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
		{"empty", "", "", "f.yaml: this is not a configuration of Envoy: expected is a bootstrap (static_resources)"},
		{"not YAML", "a: [", "", "f.yaml:1: invalid YAML: "},
		{"control character", "a: \x01", "", "f.yaml:1: the byte 0x01 is not text"},
		{"merge", "domain: d\nrate_limits: [{<<: {}}]", "", "f.yaml:2:16: rate_limits[0]: << is not supported, write out the fields"},
		{"no domain", "rate_limits: [{actions: [{remote_address: {}}]}]", "", "f.yaml:1:1: the field domain is required"},
		{"unknown field of a mapping", limit("actions: [{remote_address: {}}]") + "extra: 1", "", `f.yaml:4:8: extra: unknown field "extra"; use domain or rate_limits`},
		{"not a list", "domain: d\nrate_limits: {}", "", "f.yaml:2:14: rate_limits: a list is required"},
		{"unknown action", oneAction("remoteaddress: {}"), "", `f.yaml:3:15: rate_limits[0].actions[0]: unknown field "remoteaddress"`},
		{"word for a boolean", oneAction("generic_key: {descriptor_value: on}"), "", "f.yaml:3:15: rate_limits[0].actions[0]: invalid value for string field descriptorValue: true; Envoy reads words such as on and no as booleans, put them in quotes"},
		{"large mask", oneAction("masked_remote_address: {v4_prefix_mask_len: 33}"), "", "rate_limits[0].actions[0]: invalid RateLimit_Action_MaskedRemoteAddress.V4PrefixMaskLen: value must be less than or equal to 32"},
		{"bad regex", oneAction("header_value_match: {descriptor_value: x, headers: [{name: a, string_match: {safe_regex: {regex: '('}}}]}"), "", "rate_limits[0].actions[0]: the regular expression is invalid: "},
		{"bad network", oneAction("remote_address_match: {descriptor_value: x, address_matcher: {ranges: [{address_prefix: x}]}}"), "", `rate_limits[0].actions[0]: netip.ParsePrefix("x/0")`},
		{"hits without number", limit("{actions: [{remote_address: {}}], hits_addend: {}}"), "", "f.yaml:3:52: rate_limits[0].hits_addend: number or format is required"},
		{"stage", limit("{actions: [{remote_address: {}}], stage: 1}"), "", "stage and disable_key are not allowed here"},
		{"deep", "domain: d\nrate_limits: " + strings.Repeat("[", 2000) + strings.Repeat("]", 2000), "", "nested too deep"},
		{"loop", "domain: d\nrate_limits:\n  - &a\n    actions: [*a]\n", "", `f.yaml:4:15: rate_limits[0].actions[0]: alias "a" refers to itself`},
		{"no filter", strings.ReplaceAll(oneRoute("match: {prefix: /}"), "ratelimit.v3", "lua.v3"), "", "f.yaml: no HTTP connection manager in the file has a rate limit filter"},
		{"request type", bootstrap(", request_type: inside", "match: {prefix: /}"), "", `typed_config.request_type: the request_type "inside" is unknown; use internal, external or both`},
		{"no match", oneRoute("route: {cluster: c}"), "", "f.yaml:12:70: " + inRoute + ": the field match is required"},
		{"no path", oneRoute("match: {headers: [{name: x}]}"), "", "f.yaml:13:28: " + inRoute + ".match: invalid RouteMatch.PathSpecifier: value is required"},
		{"unknown match", oneRoute("match: {prefixes: /}"), "", inRoute + `.match: unknown field "prefixes"`},
		{"misspelt name", strings.Replace(oneRoute("match: {prefix: /}"), "name: l", "name: gateway", 1), "gatway", `has the name "gatway" (did you mean gateway?); there are ["gateway"]`},
		{"no route configuration", strings.Replace(oneRoute("match: {prefix: /}"), "route_config:", "rds: {route_config_name: far}\n                other:", 1), "", `the route configuration "far" is not in the file`},
		{"several", "[{name: a, virtual_hosts: [{rate_limits: []}]}, {name: b, virtual_hosts: [{rate_limits: []}]}]", "", `f.yaml: the file has several sets of rate limits, choose one with --from: ["a" "b"]`},
		{"no domain in routes", "virtual_hosts: [{domains: ['*'], routes: [{match: {prefix: /}, route: {cluster: c, rate_limits: [{actions: [{remote_address: {}}]}]}}]}]", "", "f.yaml: no rate limit filter in the file names the domain, give it with --domain"},
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

// Everything in a file that the descriptors cannot reflect has a note.
func TestNotes(t *testing.T) {
	const (
		perRoute = `match: {prefix: /}, route: {cluster: c}, typed_per_filter_config: {`
		limits   = "rate_limits: [{actions: [{remote_address: {}}]}]"
		patch    = "{apiVersion: v1, kind: EnvoyFilter, spec: {configPatches: [{applyTo: VIRTUAL_HOST, patch: {value: {" + limits + "}}}]}}"
	)
	for name, tt := range map[string]struct{ text, want string }{
		"source cluster":           {oneAction("source_cluster: {}"), "f.yaml:3:15: rate_limits[0].actions[0]: source_cluster is Envoy's --service-cluster, which is not in the file; this rate limit is skipped"},
		"destination cluster":      {oneAction("destination_cluster: {}"), "Envoy chooses destination_cluster"},
		"metadata":                 {oneAction("metadata: {descriptor_key: k, metadata_key: {key: a, path: [{key: b}]}}"), "the action metadata is not supported; this rate limit is skipped"},
		"extension":                {oneAction(`extension: {name: "n", typed_config: {"@type": type.googleapis.com/envoy.extensions.rate_limit_descriptors.expr.v3.Descriptor, text: x}}`), "the action extension is not supported"},
		"custom matcher":           {oneAction("header_value_match: {descriptor_value: x, headers: [{name: a, string_match: {custom: {name: z, typed_config: {}}}}]}"), "a string matcher of an extension is not supported; this rate limit is skipped"},
		"format of an address":     {oneAction("remote_address_match: {descriptor_value: '%REQ(a)%', address_matcher: {}}"), `the descriptor_value "%REQ(a)%" is a format`},
		"format of hits":           {limit(`{actions: [{remote_address: {}}], hits_addend: {format: "%BYTES_RECEIVED%"}}`), `f.yaml:3:52: rate_limits[0].hits_addend: the hits_addend "%BYTES_RECEIVED%" is known only after the request`},
		"limit":                    {limit(`{actions: [{remote_address: {}}], limit: {rate_limit: {requests_per_unit: 1, unit: DAY}}}`), "rate_limits[0].limit: the limit that the request sends is not shown"},
		"literal":                  {oneAction("generic_key: {descriptor_value: '%REQ(a)%'}"), `"%REQ(a)%" is used literally`},
		"runtime":                  {oneRoute("match: {prefix: /, runtime_fraction: {default_value: {numerator: 1}}}, route: {cluster: c}"), "runtime_fraction is ignored"},
		"metadata of a route":      {oneRoute("match: {prefix: /, tls_context: {}}"), "tls_context, dynamic_metadata and filter_state are not part of a request; this route and its rate limits are skipped"},
		"path policy":              {oneRoute(`match: {path_match_policy: {name: p, typed_config: {"@type": x/y.UriTemplate}}}`), "path_match_policy is not supported"},
		"disable key":              {oneRoute("match: {prefix: /}, route: {rate_limits: [{disable_key: k, actions: [{remote_address: {}}]}]}"), "the runtime key ratelimit.k.http_filter_enabled is ignored"},
		"stage of no filter":       {oneRoute("match: {prefix: /}, route: {rate_limits: [{stage: 2, actions: [{remote_address: {}}]}]}"), "route.rate_limits[0]: no rate limit filter has the stage 2, Envoy ignores this rate limit"},
		"hits of a route":          {oneRoute("match: {prefix: /}, route: {rate_limits: [{hits_addend: {number: 1}, actions: [{remote_address: {}}]}]}"), "Envoy ignores hits_addend here"},
		"enabled":                  {bootstrap(", filter_enabled: {}", "match: {prefix: /}"), "filter_enabled is ignored"},
		"weighted":                 {oneRoute("match: {prefix: /}, route: {weighted_clusters: {clusters: [{typed_per_filter_config: {weir: {'@type': x/" + perRouteType + "}}}]}}"), perRouteType + " is not supported here; its rate limits are skipped"},
		"unknown name of a filter": {oneRoute(perRoute + "far: {'@type': x/" + perRouteType + "}}"), `no rate limit filter has the name "far"`},
		"local":                    {oneRoute(perRoute + "far: {'@type': x/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit}}"), "Envoy counts local rate limits itself"},
		"quota":                    {oneRoute(perRoute + "far: {'@type': x/envoy.extensions.filters.http.rate_limit_quota.v3.RateLimitQuotaOverride}}"), "envoy.extensions.filters.http.rate_limit_quota.v3.RateLimitQuotaOverride is not supported here"},
		"inner filter":             {strings.Replace(oneRoute("match: {prefix: /}"), "http_filters:", "http_filters:\n                  - {name: c, typed_config: {'@type': x/c, inner: [{'@type': x/"+filterType+"}]}}", 1), "typed_config.inner[0]: " + filterType + " is not supported here"},
		"trusted networks":         {managed(extension + "xff.v3.XffConfig, xff_trusted_cidrs: {cidrs: [{address_prefix: 10.0.0.0, prefix_len: 8}]}}}]\n"), "original_ip_detection_extensions[0]: this is ignored, the client may have another address"},
		"header of the client":     {managed(extension + "custom_header.v3.CustomHeaderConfig, header_name: x-real-ip}}]\n"), "original_ip_detection_extensions[0]: this is ignored, the client may have another address"},
		"unknown document":         {"hello: world\n---\n" + oneRoute("match: {prefix: /}"), "f.yaml:1:1: this document is ignored"},
		"beside a mapping":         {"static_resources: {}\n---\ndomain: d\n" + limits, "f.yaml:1:1: this document is ignored"},
		"beside an EnvoyFilter":    {patch + "\n---\nvirtual_hosts: []", "f.yaml:3:1: this document is ignored"},
	} {
		t.Run(name, func(t *testing.T) {
			notes := load(t, tt.text, Options{Domain: "d"}).Notes
			if !slices.ContainsFunc(notes, func(n Note) bool { return strings.Contains(n.String(), tt.want) }) {
				t.Errorf("got %+v, want %s", notes, tt.want)
			}
		})
	}
}
