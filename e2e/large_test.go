package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// Of an amount, the protocol can say 32 bits only: Envoy's headers saturate, those of
// Weir do not. Regular expressions and lists are for the value that Envoy sends.
func TestLargeAmounts(t *testing.T) {
	t.Parallel()
	s := startGateway(t, gateway{
		virtualHost: `
rate_limits: [{actions: [{request_headers: {header_name: x-model, descriptor_key: model}}]}]
routes: [{match: {prefix: /}, route: {cluster: echo}}]
`,
	}, startUpstream(t), `
domain: api
descriptors:
  - {key: model, regex: "large-v[0-9]+", rate_limit: {unit: month, requests_per_unit: 1125899906842624}}
  - {key: model, value: [small, tiny], share_threshold: true, rate_limit: {unit: day, requests_per_unit: 2}}
`, "LIMIT_RESPONSE_HEADERS_ENABLED=true")
	for _, c := range []struct {
		model, limit, envoys, remaining string
		status                          int
	}{
		{"large-v2", "1125899906842624", "4294967295", "1125899906842623", http.StatusOK},
		{"large-v2", "1125899906842624", "4294967295", "1125899906842622", http.StatusOK},
		{"xlarge-v2", "", "", "", http.StatusOK}, // the whole value must match
		{"small", "2", "2", "1", http.StatusOK},
		{"tiny", "2", "2", "0", http.StatusOK}, // one counter for the list
		{"small", "2", "2", "0", http.StatusTooManyRequests},
	} {
		a := s.ask("/", "x-model: "+c.model)
		limit, remaining := a.header.Get("RateLimit-Limit"), a.header.Get("RateLimit-Remaining")
		envoys, _, _ := strings.Cut(a.header.Get("x-ratelimit-limit"), ",")
		if a.status != c.status || limit != c.limit || remaining != c.remaining || envoys != c.envoys {
			t.Errorf("%+v: got status %d, limit %q, Envoy's %q, remaining %q", c, a.status, limit, envoys, remaining)
		}
	}
}
