package server

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/status"

	"weir/internal/limiter"
	"weir/internal/operators"
	"weir/internal/plan"
	"weir/internal/testenv"
)

// modesOfFailure has a limit of three for each failure mode and for the default.
const modesOfFailure = `
domain: api
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 3}}
  - {key: error, rate_limit: {unit: year, requests_per_unit: 3, failure_mode: error}}
  - {key: allow, rate_limit: {unit: year, requests_per_unit: 3, failure_mode: allow}}
  - {key: deny, rate_limit: {unit: year, requests_per_unit: 3, failure_mode: deny}}
  - {key: local, rate_limit: {unit: year, requests_per_unit: 3, failure_mode: local}}
`

// answer sends a request for a key by gRPC, and answerJSON by HTTP. Both return the code and the time
// to retry in the same form.
func (f *fixture) answer(key string) string {
	response, err := f.decide(f.t.Context(), describe(key+"=grpc"))
	switch {
	case err != nil:
		return status.Code(err).String()
	case response.OverallCode == ratelimitv3.RateLimitResponse_OVER_LIMIT:
		return fmt.Sprintf("OVER_LIMIT, retry after %d", response.Statuses[0].DurationUntilReset.GetSeconds())
	default:
		return response.OverallCode.String()
	}
}

func (f *fixture) answerJSON(key string) string {
	f.t.Helper()
	question := fmt.Sprintf(`{"domain": "api", "descriptors": [{"entries": [{"key": %q, "value": "json"}]}]}`, key)
	request := testenv.Must(http.NewRequestWithContext(f.t.Context(), http.MethodPost, "http://"+f.HTTPAddr()+"/json", strings.NewReader(question)))(f.t)
	response, err := f.http.Do(request)
	testenv.OK(f.t, err)
	defer response.Body.Close()
	if after := response.Header.Get("Retry-After"); after != "" {
		return fmt.Sprintf("%d, retry after %s", response.StatusCode, after)
	}
	return fmt.Sprint(response.StatusCode)
}

func TestFailureModes(t *testing.T) {
	r := testenv.RedisServer(t)
	f := start(t, "--config="+directory(t, modesOfFailure), "--redis-url="+r.Addr(), inTime)
	f.wantHealth(true, "OK")
	want := func(key string, over ...string) { // gRPC, HTTP
		t.Helper()
		testenv.Equal(t, f.answer(key), over[0], "%s", key)
		testenv.Equal(t, f.answerJSON(key), over[1], "%s", key)
	}
	for _, key := range []string{"user", "error", "allow", "deny", "local"} {
		want(key, "OK", "200")
	}

	r.Stop()
	for range 4 { // beyond the limits, before and after the breaker opens
		want("user", "Unavailable", "503, retry after 1")
		want("error", "Unavailable", "503, retry after 1")
		want("allow", "OK", "200")
		want("deny", "OVER_LIMIT, retry after 1", "429, retry after 1")
	}
	for range 3 {
		want("local", "OK", "200")
	}
	if got := f.answer("local"); !strings.HasPrefix(got, "OVER_LIMIT") {
		t.Errorf("local, for the fourth time: got %s", got)
	}
	f.wantLog("redis is failing, failure modes apply")
	f.wantLog("redis does not answer, sending it no requests until it does")
	f.wantHealth(true, "OK")
	f.wantAnswer("GET", f.metrics.addr(), "/metrics", 200, `weir_redis_breaker_open{redis="main"} 1`,
		`weir_failure_mode_decisions_total{mode="allow"} 8`, `weir_failure_mode_decisions_total{mode="deny"} 8`,
		`weir_failure_mode_decisions_total{mode="error"} 16`, `weir_failure_mode_decisions_total{mode="local"} 7`,
		`ratelimit_service_rate_limit_within_limit{domain="api",key1="allow",key2=""} 10`, `ratelimit_service_rate_limit_over_limit{domain="api",key1="deny",key2=""} 8`)

	local := plan.NewJSONDescriptor("api", []limiter.Entry{{Key: "local", Value: "grpc"}})
	if _, err := f.operators.Reset(t.Context(), local, "bob", "peer"); !errors.Is(err, operators.ErrUnavailable) {
		t.Errorf("a reset without Redis: got error %v", err)
	}
	testenv.Equal(t, f.answer("local"), "OK", "local, after a reset")

	r.Start() // Redis has lost its data
	f.wantLog("redis answers again, sending requests to it")
	for _, key := range []string{"user", "error", "allow", "deny"} {
		want(key, "OK", "200")
	}
	for range 3 { // although this server has counted in memory
		want("local", "OK", "200")
	}
}

// The setting applies to limits without a failure mode of their own.
func TestFailureModeIsASetting(t *testing.T) {
	for mode, want := range map[string]string{"": "Unavailable", "error": "Unavailable", "allow": "OK", "deny": "OVER_LIMIT, retry after 1", "local": "OK"} {
		t.Run("FAILURE_MODE="+mode, func(t *testing.T) {
			t.Setenv("FAILURE_MODE", mode)
			f := start(t, "--config="+directory(t, modesOfFailure), "--redis-url=127.0.0.1:1", inTime)
			testenv.Equal(t, f.answer("user"), want, "the answer")
			testenv.Equal(t, f.answer("error"), "Unavailable", "failure_mode: error")
		})
	}
}
