package e2e

import (
	"fmt"
	"slices"
	"testing"
)

// Envoy sends one descriptor for each request; the limits of all levels hold for it.
var levels = gateway{virtualHost: `
routes:
  - match: {path: /other}
    route:
      cluster: echo
      rate_limits: [{actions: [{generic_key: {descriptor_value: other}}]}]
  - match: {path: /plan}
    route:
      cluster: echo
      rate_limits:
        - actions: [{request_headers: {header_name: x-user, descriptor_key: tenant}}]
          limit: {dynamic_metadata: {metadata_key: {key: plan, path: [{key: limit}]}}}
  - match: {prefix: /}
    route:
      cluster: echo
      rate_limits:
        - actions:
            - request_headers: {header_name: x-user, descriptor_key: user}
            - request_headers: {header_name: ":path", descriptor_key: path}
`, filters: overrides.filters}

const levelsRules = `
domain: api
descriptors:
  - key: user
    below: true
    rate_limit: {unit: minute, requests_per_unit: 100, anchor: first_hit}
    descriptors:
      - key: path
        value: /login
        rate_limit: {unit: hour, requests_per_unit: 20, anchor: first_hit}
  - key: tenant
    override: {algorithm: token_bucket, burst_ratio: 0.2, max_requests_per_unit: 10, unit: day}
otherwise: {rate_limit: {unit: day, requests_per_unit: 2}}
`

func TestLimitsHoldBelow(t *testing.T) {
	t.Parallel()
	s := startGateway(t, levels, startUpstream(t), levelsRules)
	admitted := func(n int) []int { return slices.Repeat([]int{200}, n) }

	s.want("/login", "x-user: alice", append(admitted(20), 429, 429)...)
	if a := s.ask("/login", "x-user: alice"); a.header.Get("x-ratelimit-limit") != "20, 20;w=3600" {
		t.Errorf("login is denied by %q", a.header.Get("x-ratelimit-limit"))
	}
	s.want("/cart", "x-user: alice", append(admitted(80), 429, 429)...) // what login denied is not counted
	if a := s.ask("/other-cart", "x-user: alice"); a.header.Get("x-ratelimit-limit") != "100, 100;w=60" {
		t.Errorf("the cart is denied by %q", a.header.Get("x-ratelimit-limit"))
	}
	s.want("/login", "x-user: bob", 200)
	s.want("/other", "x-user: alice", 200, 200, 429)

	for key, want := range map[string]int{"user=alice|f1m": 1, "user=alice|path=/login|f1h": 1, "user=bob|f1m": 1, "generic_key=other|1d": 1, "user=alice|path=/cart|f1m": 0} {
		if got := redisCommand(t, s.redis, "EXISTS w1|api|"+key); got != fmt.Sprintf(":%d\r\n", want) {
			t.Errorf("EXISTS %s: got %q, want %d", key, got, want)
		}
	}
	s.weir.wantMetric(`weir_limit_hits_total{domain="api",limit="day",outcome="over",rule="otherwise"} 1`)
}

// The rule says how the limit of a request's metadata is counted, and what it may ask for.
func TestRuleJudgesTheLimitOfMetadata(t *testing.T) {
	t.Parallel()
	s := startGateway(t, levels, startUpstream(t), levelsRules)
	for _, c := range []struct {
		user, plan, limit string
		statuses          []int
	}{
		{"alice", plan(t, 5, "DAY"), "5, 5;w=86400", []int{200, 429}},
		{"bob", plan(t, 1_000_000, "DAY"), "10, 10;w=86400", []int{200, 200, 429}},
		{"carol", plan(t, 1_000_000, "SECOND"), "10, 10;w=86400", []int{200, 200, 429}},
	} {
		for i, want := range c.statuses {
			a := s.ask("/plan", "x-user: "+c.user, "x-plan: "+c.plan)
			if got := a.header.Get("x-ratelimit-limit"); a.status != want || got != c.limit {
				t.Errorf("%s, request %d: status %d with limit %q, want %d with %q", c.user, i+1, a.status, got, want, c.limit)
			}
		}
	}
}
