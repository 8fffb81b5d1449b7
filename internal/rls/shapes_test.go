package rls

import (
	"fmt"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// Envoy Gateway writes every field of its rules, and asks with a descriptor of
// the route, the rule and, for a limit per value, the value.
const envoyGatewayRules = `
name: default/eg/http
domain: default/eg/http
descriptors:
  - key: httproute/default/http-ratelimit/rule/0/match/0/ratelimit_example
    value: httproute/default/http-ratelimit/rule/0/match/0/ratelimit_example
    rate_limit: null
    descriptors:
      - key: rule-0-match-0
        value: rule-0-match-0
        rate_limit:
          requests_per_unit: 3
          unit: HOUR
          unlimited: false
          name: ""
          replaces: []
        descriptors: []
        shadow_mode: false
        detailed_metric: false
      - key: rule-1-match-0
        value: ""
        rate_limit: {requests_per_unit: 5, unit: HOUR, unlimited: false, name: "", replaces: []}
        descriptors: []
        shadow_mode: false
        detailed_metric: false
    shadow_mode: false
    detailed_metric: false
`

// Istio's users write rules by path, after its documentation.
const istioRules = `
domain: ratelimit
descriptors:
  - key: PATH
    value: "/productpage"
    rate_limit: {unit: minute, requests_per_unit: 1}
  - key: PATH
    rate_limit: {unit: minute, requests_per_unit: 100}
`

func TestGatewayShapes(t *testing.T) {
	const (
		route      = "httproute/default/http-ratelimit/rule/0/match/0/ratelimit_example"
		perRoute   = "descriptors {entries {key: '" + route + "' value: '" + route + "'} entries {key: 'rule-0-match-0' value: 'rule-0-match-0'}} "
		perUser    = "descriptors {entries {key: '" + route + "' value: '" + route + "'} entries {key: 'rule-1-match-0' value: 'one'}} "
		gateway    = "domain: 'default/eg/http' "
		mesh       = "domain: 'ratelimit' "
		ok         = ratelimitv3.RateLimitResponse_OK
		overLimit  = ratelimitv3.RateLimitResponse_OVER_LIMIT
		threeAHour = "3, 3;w=3600"
	)
	type step struct {
		request string
		overall ratelimitv3.RateLimitResponse_Code
		want    string // the headers x-ratelimit-limit, remaining and reset
	}
	for _, tc := range []struct {
		name, rules string
		steps       []step
	}{
		{"Envoy Gateway", envoyGatewayRules, []step{
			{gateway + perRoute, ok, threeAHour + " | 2 | 30"},
			{gateway + perRoute, ok, threeAHour + " | 1 | 30"},
			{gateway + perRoute, ok, threeAHour + " | 0 | 30"},
			{gateway + perRoute, overLimit, threeAHour + " | 0 | 30"},
			{gateway + perUser, ok, "5, 5;w=3600 | 4 | 30"},
			{gateway + perUser + perRoute, overLimit, "3, 5;w=3600, 3;w=3600 | 0 | 30"},
			{gateway + "descriptors {entries {key: '" + route + "' value: '" + route + "'}}", ok, ""},
		}},
		{"Istio", istioRules, []step{
			{mesh + d("PATH", "/productpage"), ok, "1, 1;w=60 | 0 | 30"},
			{mesh + d("PATH", "/productpage"), overLimit, "1, 1;w=60 | 0 | 30"},
			{mesh + d("PATH", "/reviews"), ok, "100, 100;w=60 | 99 | 30"},
		}},
		{"overrides of a route", istioRules, []step{
			{mesh + d("tenant", "a", "limit {requests_per_unit: 3 unit: HOUR}"), ok, threeAHour + " | 2 | 30"},
			{mesh + d("tenant", "a", "limit {requests_per_unit: 4 unit: HOUR}"), ok, "4, 4;w=3600 | 2 | 30"},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			conn := serve(t, options(t, tc.rules).service())
			for i, s := range tc.steps {
				response, err := ask(t, conn, s.request)
				if err != nil {
					t.Fatal(err)
				}
				if got := envoyHeaders(response); response.GetOverallCode() != s.overall || got != s.want {
					t.Errorf("request %d: got %v and %q, want %v and %q", i+1, response.GetOverallCode(), got, s.overall, s.want)
				}
			}
		})
	}
}

// envoyHeaders are the values that Envoy makes of statuses for x-ratelimit-limit,
// x-ratelimit-remaining and x-ratelimit-reset (enable_x_ratelimit_headers): those
// of the status with the least remaining, and the policies of all.
func envoyHeaders(response *ratelimitv3.RateLimitResponse) string {
	windows := map[ratelimitv3.RateLimitResponse_RateLimit_Unit]int{
		ratelimitv3.RateLimitResponse_RateLimit_MINUTE: 60,
		ratelimitv3.RateLimitResponse_RateLimit_HOUR:   3600,
	}
	var least *ratelimitv3.RateLimitResponse_DescriptorStatus
	policies := ""
	for _, s := range response.GetStatuses() {
		l := s.GetCurrentLimit()
		if l == nil {
			continue
		}
		if least == nil || s.GetLimitRemaining() < least.GetLimitRemaining() {
			least = s
		}
		policies += fmt.Sprintf(", %d;w=%d", l.GetRequestsPerUnit(), windows[l.GetUnit()])
		if l.GetName() != "" {
			policies += fmt.Sprintf(";name=%q", l.GetName())
		}
	}
	if least == nil {
		return ""
	}
	return fmt.Sprintf("%d%s | %d | %d", least.GetCurrentLimit().GetRequestsPerUnit(), policies,
		least.GetLimitRemaining(), least.GetDurationUntilReset().GetSeconds())
}
