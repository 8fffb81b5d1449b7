package e2e

import (
	"encoding/base64"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// What Contour makes of the manifests in examples/contour. A policy on a route stands in
// place of that of the virtual host. Clients tell their address.
var contour = gateway{
	cluster: "name: extension/projectcontour/weir",
	rateLimit: `
domain: contour
failure_mode_deny: false
enable_x_ratelimit_headers: DRAFT_VERSION_03
rate_limit_service:
  transport_api_version: V3
  grpc_service: {envoy_grpc: {cluster_name: extension/projectcontour/weir, authority: extension.projectcontour.weir}}
`,
	virtualHost: `
rate_limits: [{actions: [{remote_address: {}}]}]
routes:
  - match: {prefix: /login}
    route:
      cluster: echo
      rate_limits:
        - actions: [{remote_address: {}}]
        - actions: [{generic_key: {descriptor_value: login}}]
        - actions: [{generic_key: {descriptor_value: login}}, {remote_address: {}}]
  - match: {prefix: /}
    route: {cluster: echo}
`,
	manager: "{use_remote_address: true, xff_num_trusted_hops: 1}",
}

// Envoy Gateway makes one domain of each listener, and rules of each route's
// policy: a level for the route, one for the rule of the policy, and one for
// each header that must match; a header of which each value has a limit of its
// own is a key without a value.
const envoyGatewayRules = `
domain: default/eg/http
descriptors:
  - key: httproute/default/ratelimit/rule/0/match/0/www_example_com
    value: httproute/default/ratelimit/rule/0/match/0/www_example_com
    descriptors:
      - key: default/policy/rule/0
        value: default/policy/rule/0
        descriptors:
          - key: rule-0-match-0
            value: rule-0-match-0
            rate_limit: {unit: HOUR, requests_per_unit: 3}
      - key: default/policy/rule/1
        value: default/policy/rule/1
        descriptors:
          - key: rule-1-match-0
            value: ""
            rate_limit: {unit: HOUR, requests_per_unit: 2}
`

var envoyGateway = gateway{
	rateLimit: "domain: default/eg/http",
	virtualHost: `
routes:
  - match: {prefix: /}
    route: {cluster: echo}
    typed_per_filter_config:
      envoy.filters.http.ratelimit:
        "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
        rate_limits:
          - actions:
              - generic_key: &route
                  descriptor_key: httproute/default/ratelimit/rule/0/match/0/www_example_com
                  descriptor_value: httproute/default/ratelimit/rule/0/match/0/www_example_com
              - generic_key: {descriptor_key: default/policy/rule/0, descriptor_value: default/policy/rule/0}
              - header_value_match:
                  descriptor_key: rule-0-match-0
                  descriptor_value: rule-0-match-0
                  expect_match: true
                  headers: [{name: x-user-id, string_match: {exact: one}}]
          - actions:
              - generic_key: *route
              - generic_key: {descriptor_key: default/policy/rule/1, descriptor_value: default/policy/rule/1}
              - request_headers: {header_name: x-org-id, descriptor_key: rule-1-match-0}
`,
}

// The rules and the routes of Istio's task on rate limits: a limit for each
// path, and one for all paths of the route named api.
const istioRules = `
domain: ratelimit
descriptors:
  - key: PATH
    value: "/productpage"
    rate_limit: {unit: minute, requests_per_unit: 1}
  - key: PATH
    value: "api"
    rate_limit: {unit: minute, requests_per_unit: 2}
  - key: PATH
    rate_limit: {unit: minute, requests_per_unit: 100}
`

// Istio names clusters like this, and Envoy sends the name as :authority.
var istio = gateway{
	cluster: "name: outbound|8081||ratelimit.default.svc.cluster.local",
	rateLimit: `
domain: ratelimit
rate_limit_service:
  transport_api_version: V3
  grpc_service: {envoy_grpc: {cluster_name: "outbound|8081||ratelimit.default.svc.cluster.local"}}
`,
	virtualHost: `
rate_limits: [{actions: [{request_headers: {header_name: ":path", descriptor_key: PATH}}]}]
routes:
  - match: {prefix: /api/v1/products}
    name: api
    route:
      cluster: echo
      rate_limits:
        - actions:
            - header_value_match:
                descriptor_key: PATH
                descriptor_value: api
                headers: [{name: ":path", string_match: {safe_regex: {regex: "/api/v1/products/[1-9]{1,2}"}}}]
  - match: {prefix: /}
    route: {cluster: echo}
`,
}

// Clients say their address, so that there can be several.
var forwarded = gateway{
	virtualHost: "rate_limits: [{actions: [{remote_address: {}}]}]\nroutes: [{match: {prefix: /}, route: {cluster: echo}}]\n",
	manager:     "{use_remote_address: true, xff_num_trusted_hops: 1}",
}

// What Envoy sends as remote_address, the address alone, leads to the network with
// the longest prefix.
const networkRules = `
domain: api
descriptors:
  - {key: remote_address, networks: [10.0.0.0/8, "2001:db8::/32"], share_threshold: true, rate_limit: {unit: day, requests_per_unit: 4}}
  - {key: remote_address, networks: [10.1.0.0/16], rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: remote_address, value: [10.1.0.1]}
`

func from(client string) []string { return []string{"x-forwarded-for: " + client} }

// Envoy can bring the limit along, in the place of the one of the rules: the
// one of the route, or the one that an earlier filter has put into metadata.
// Here the filter is one that decodes a header.
var overrides = gateway{
	filters: `
- name: envoy.filters.http.header_to_metadata
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config
    request_rules:
      - header: x-plan
        on_header_present: {metadata_namespace: plan, key: limit, type: PROTOBUF_VALUE, encode: BASE64}
`,
	virtualHost: `
routes:
  - match: {path: /route}
    route:
      cluster: echo
      rate_limits:
        - actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]
          limit: {rate_limit: {requests_per_unit: 2, unit: MONTH}}
  - match: {path: /filter}
    route: {cluster: echo}
    typed_per_filter_config:
      envoy.filters.http.ratelimit:
        "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
        rate_limits:
          - actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]
            limit: &plan {dynamic_metadata: {metadata_key: {key: plan, path: [{key: limit}]}}}
  - match: {path: /judged}
    route:
      cluster: echo
      rate_limits: [{actions: [{request_headers: {header_name: x-user, descriptor_key: tenant}}], limit: *plan}]
  - match: {path: /metadata}
    route:
      cluster: echo
      rate_limits: [{actions: [{request_headers: {header_name: x-user, descriptor_key: user}}], limit: *plan}]
`,
}

// The rule of a tenant says how the limit of a request is counted, and what it may ask for.
const overrideRules = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: tenant
    rate_limit: {unit: day, requests_per_unit: 10, algorithm: token_bucket, burst: 2}
    override: {max_requests_per_unit: 10}
`

// with are the headers of a user with a plan, which stands for an override.
func with(user string, requestsPerUnit int, unit string) []string {
	value, err := structpb.NewValue(map[string]any{"requests_per_unit": requestsPerUnit, "unit": unit})
	if err != nil {
		panic(err)
	}
	data, err := proto.Marshal(value)
	if err != nil {
		panic(err)
	}
	return append(by(user), "x-plan: "+base64.StdEncoding.EncodeToString(data))
}

// TestShapesOfGateways asks gateways that make their descriptors in different ways, and
// compares statuses and the limit that Envoy shows.
func TestShapesOfGateways(t *testing.T) {
	t.Parallel()
	const plain, login = "100, 100;w=60", "3, 100;w=60, 50;w=1, 3;w=60"
	contourRules := readDocument(t, "examples/contour/rules/contour.yaml")
	for name, c := range map[string]struct {
		gateway gateway
		rules   string
		period  time.Duration // which may not end between the requests
		asked   []asked
	}{
		"Contour": {contour, contourRules, time.Minute, []asked{
			{"/", from("192.0.2.1"), plain, times(4, 200)},
			{"/login", from("192.0.2.1"), login, times(3, 200, 429)},
			{"/", from("192.0.2.1"), plain, times(1, 200)},
			{"/login", from("192.0.2.2"), login, times(3, 200, 429)},
		}},
		"Envoy Gateway": {envoyGateway, envoyGatewayRules, time.Hour, []asked{
			{"/", []string{"x-user-id: one"}, "3, 3;w=3600", times(3, 200, 429)},
			{"/", []string{"x-user-id: two"}, "", times(4, 200)},
			{"/", []string{"x-org-id: acme"}, "2, 2;w=3600", times(2, 200, 429)},
			{"/", []string{"x-org-id: globex"}, "2, 2;w=3600", times(2, 200, 429)},
		}},
		"Istio": {istio, istioRules, time.Minute, []asked{
			{"/productpage", nil, "1, 1;w=60", times(1, 200, 429)},
			{"/api/v1/products/1", nil, "2, 2;w=60", times(1, 200)},
			{"/api/v1/products/2", nil, "2, 2;w=60", times(1, 200)},
			{"/api/v1/products/3", nil, "2, 2;w=60", times(1, 429)},
			{"/login", nil, "100, 100;w=60", times(2, 200)},
			{"/static/logo.png", nil, "100, 100;w=60", times(1, 200)},
		}},
		"networks": {forwarded, networkRules, 24 * time.Hour, []asked{
			{"/", from("10.1.0.1"), "", times(3, 200)},                         // the list
			{"/", from("10.1.2.3"), "1, 1;w=86400", times(1, 200, 429)},        // the longest prefix
			{"/", from("10.1.2.4"), "1, 1;w=86400", times(1, 200, 429)},        // counts for itself
			{"/", from("10.2.3.4"), "4, 4;w=86400", times(1, 200)},             // counts with
			{"/", from("2001:db8::1"), "4, 4;w=86400", times(1, 200)},          // each other
			{"/", from("2001:0DB8:0::2"), "4, 4;w=86400", times(1, 200)},       // however written
			{"/", from("::ffff:10.3.4.5"), "4, 4;w=86400", times(1, 200, 429)}, // also in IPv6 form
			{"/", from("192.0.2.1"), "", times(2, 200)},                        // no network
			{"/", from("2001:db9::1"), "", times(2, 200)},                      // no network
		}},
		"overrides": {overrides, overrideRules, 24 * time.Hour, []asked{
			{"/route", by("alice"), "2, 2;w=2592000", times(2, 200, 429)},
			{"/metadata", with("bob", 3, "YEAR"), "3, 3;w=31536000", times(3, 200, 429)},
			{"/filter", with("carol", 2, "MONTH"), "2, 2;w=2592000", times(2, 200, 429)},
			{"/metadata", with("dave", 0, "MONTH"), "0, 0;w=2592000", times(1, 429)},
			{"/metadata", with("erin", 3, "FORTNIGHT"), "1, 1;w=86400", times(1, 200, 429)}, // which Envoy does not know, so that it sends none
			{"/metadata", by("frank"), "1, 1;w=86400", times(1, 200, 429)},
			{"/metadata", with("frank", 3, "DAY"), "3, 3;w=86400", times(2, 200, 429)}, // another plan than a moment ago
			{"/judged", with("alice", 5, "DAY"), "5, 5;w=86400", times(1, 200, 429)},
			{"/judged", with("bob", 1_000_000, "DAY"), "10, 10;w=86400", times(2, 200, 429)},
			{"/judged", with("carol", 1_000_000, "SECOND"), "10, 10;w=86400", times(2, 200, 429)},
			// Envoy sends the unit UNKNOWN as well: the request is refused, so that
			// failure_mode_deny decides, and Weir goes on.
			{"/metadata", with("grace", 3, "UNKNOWN"), "", times(3, 500)},
			{"/metadata", by("grace"), "1, 1;w=86400", times(1, 200, 429)},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := c.gateway.start(t, c.rules)
			awayFromEnd(c.period)
			s.wantLimits(c.asked...)
			if name == "overrides" {
				s.weir.waitForMetric(`ratelimit_service_should_rate_limit_error{err_type="service_error"} 3`)
			}
		})
	}
}

// Envoy sends one descriptor for each request; the limits of all levels apply to it.
func TestLimitsHoldBelow(t *testing.T) {
	t.Parallel()
	s := gateway{virtualHost: `
routes:
  - match: {path: /other}
    route:
      cluster: echo
      rate_limits: [{actions: [{generic_key: {descriptor_value: other}}]}]
  - match: {prefix: /}
    route:
      cluster: echo
      rate_limits:
        - actions:
            - request_headers: {header_name: x-user, descriptor_key: user}
            - request_headers: {header_name: ":path", descriptor_key: path}
`}.start(t, `
domain: api
descriptors:
  - key: user
    below: true
    rate_limit: {unit: minute, requests_per_unit: 100, algorithm: first_hit}
    descriptors:
      - key: path
        value: /login
        rate_limit: {unit: hour, requests_per_unit: 20, algorithm: first_hit}
  - {rate_limit: {unit: day, requests_per_unit: 2}}
`)
	s.want("/login", "x-user: alice", times(20, 200, 429, 429)...)
	s.wantLimits(asked{"/login", by("alice"), "20, 20;w=3600", times(1, 429)})
	s.want("/cart", "x-user: alice", times(80, 200, 429, 429)...) // what login denied is not counted
	s.wantLimits(asked{"/other-cart", by("alice"), "100, 100;w=60", times(1, 429)})
	s.want("/login", "x-user: bob", 200)
	s.want("/other", "x-user: alice", 200, 200, 429)
	for key, want := range map[string]string{"user=alice|f1m": "1", "user=alice|path=/login|f1h": "1", "user=bob|f1m": "1", "generic_key=other|1d": "1", "user=alice|path=/cart|f1m": "0"} {
		if got := s.redis.Command("EXISTS w1|api|" + key); got != want {
			t.Errorf("EXISTS %s: got %s, want %s", key, got, want)
		}
	}
	s.weir.waitForMetric(`weir_limit_hits_total{domain="api",limit="day",outcome="over",rule="(no key)"} 1`)
}
