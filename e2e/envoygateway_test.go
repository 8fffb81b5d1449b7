package e2e

import (
	"testing"
	"time"
)

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
              - generic_key:
                  descriptor_key: httproute/default/ratelimit/rule/0/match/0/www_example_com
                  descriptor_value: httproute/default/ratelimit/rule/0/match/0/www_example_com
              - generic_key: {descriptor_key: default/policy/rule/0, descriptor_value: default/policy/rule/0}
              - header_value_match:
                  descriptor_key: rule-0-match-0
                  descriptor_value: rule-0-match-0
                  expect_match: true
                  headers: [{name: x-user-id, string_match: {exact: one}}]
          - actions:
              - generic_key:
                  descriptor_key: httproute/default/ratelimit/rule/0/match/0/www_example_com
                  descriptor_value: httproute/default/ratelimit/rule/0/match/0/www_example_com
              - generic_key: {descriptor_key: default/policy/rule/1, descriptor_value: default/policy/rule/1}
              - request_headers: {header_name: x-org-id, descriptor_key: rule-1-match-0}
`,
}

func TestEnvoyGatewayLimits(t *testing.T) {
	t.Parallel()
	s := startGateway(t, envoyGateway, startUpstream(t), envoyGatewayRules)
	awayFromEnd(time.Hour)
	for _, c := range []struct {
		header, limit string
		statuses      []int
	}{
		{"x-user-id: one", "3, 3;w=3600", []int{200, 200, 200, 429}},
		{"x-user-id: two", "", []int{200, 200, 200, 200}},
		{"x-org-id: acme", "2, 2;w=3600", []int{200, 200, 429}},
		{"x-org-id: globex", "2, 2;w=3600", []int{200, 200, 429}},
	} {
		for i, want := range c.statuses {
			a := s.ask("/", c.header)
			if got := a.header.Get("x-ratelimit-limit"); a.status != want || got != c.limit {
				t.Errorf("request %d with %s: status %d with limit %q, want %d with %q", i+1, c.header, a.status, got, want, c.limit)
			}
		}
	}
}
