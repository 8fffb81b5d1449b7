package rls

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/testenv"
)

// Known faults of envoyproxy/ratelimit that show in requests and answers, and that Weir must not
// have. Package descriptors has tests for faults with rules.

// envoyproxy/ratelimit joins keys and values with "_", so that these two descriptors share a
// counter.
func TestFaultUnderscoreJoinsCounters(t *testing.T) {
	const limit = "rate_limit: {unit: minute, requests_per_unit: 2}"
	conn := serve(t, options(t, "{domain: api, descriptors: [{key: a, "+limit+"}, {key: a_b, "+limit+"}]}").service())
	for _, request := range []string{"a=b_c", "a_b=c"} {
		expect(t, conn, request, "OK: OK 1 of 2/MINUTE for 30s")
	}
}

// An override with an undefined unit crashes envoyproxy/ratelimit. In Weir, it denies the
// request and takes nothing.
func TestFaultOverrideWithUndefinedUnit(t *testing.T) {
	conn := serve(t, options(t, rules).service())
	for _, unit := range []int{0, 7, 99, -1, math.MinInt32} {
		expect(t, conn, fmt.Sprintf("user=a user=a(1/%d) user=b(1/YEAR*101)", unit), "OVER: OK 2 of 2/MINUTE for 30s, OVER 0 of 0/DAY deny, OVER 0 of 0/DAY deny")
		expect(t, conn, fmt.Sprintf("user=a(1/%d,refund)", unit), "OK: OK")
		expect(t, conn, fmt.Sprintf("domain:none user=a(1/%d)", unit), "OK: OK")
	}
	expect(t, conn, "user=a", "OK: OK 1 of 2/MINUTE for 30s")
}

// In envoyproxy/ratelimit, an addend of 2^63 or more becomes a negative number, which refunds
// units. Weir charges it, so that no units remain.
func TestFaultEnormousAddendRefunds(t *testing.T) {
	for _, addend := range []uint64{1 << 63, 1<<63 + 1, math.MaxUint64} {
		s := options(t, rules).service()
		conn := serve(t, s)
		for _, user := range []string{"user=grpc", "user=json"} {
			expect(t, conn, user, "OK: OK 1 of 2/MINUTE for 30s")
		}
		expect(t, conn, fmt.Sprintf("user=grpc(%d)", addend), "OVER: OVER 0 of 2/MINUTE")
		body := fmt.Sprintf(`{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "json"}], "hitsAddend": "%d"}]}`, addend)
		testenv.Equal(t, post(s.JSONHandler(), http.MethodPost, body).Code, http.StatusTooManyRequests, "status")
		for _, user := range []string{"user=grpc", "user=json"} {
			expect(t, conn, user, "OVER: OVER 0 of 2/MINUTE for 30s")
		}
	}
}

// With STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT, envoyproxy/ratelimit counts no other limit of a
// request if a limit in shadow mode is exceeded, and so enforces none.
func TestFaultShadowRuleSwitchesEnforcementOff(t *testing.T) {
	for _, charge := range []limiter.Charge{limiter.Admitted, limiter.Auto, limiter.Always} {
		for _, request := range []string{"tried=a path=/", "path=/ tried=a"} {
			opts := options(t, rules)
			opts.Charge = charge
			s := opts.service()
			admitted := 0
			for range 10 {
				if !decide(t, s, request).result.Denied {
					admitted++
				}
			}
			testenv.Equal(t, admitted, 3, "charge %v, %s: admitted requests of 10", charge, request)
		}
	}
}

// The cache of denied counters in envoyproxy/ratelimit continues to deny after an override or new
// rules have raised the limit.
func TestFaultDeniesAboveRaisedLimit(t *testing.T) {
	opts := options(t, rules)
	tree := opts.rules()
	opts.rules = func() *descriptors.Tree { return tree }
	s := opts.service()
	admits := func(request string, want bool) {
		t.Helper()
		testenv.Equal(t, !decide(t, s, request).result.Denied, want, "%s: admitted", request)
	}
	admits("tenant=a(1/HOUR)", true)
	admits("tenant=a(1/HOUR)", false)
	admits("tenant=a(2/HOUR)", true)
	admits("tenant=a(2/HOUR)", false)

	admits("user=a +2", true)
	admits("user=a", false)
	tree = load(t, strings.ReplaceAll(rules, "requests_per_unit: 2}", "requests_per_unit: 3}"))
	admits("user=a", true)
	admits("user=a", false)
}

// In envoyproxy/ratelimit, a rule with detailed_metric loses its metadata, and the merged
// metadata of a request's descriptors stays in the rule of the first descriptor.
func TestFaultMetadataLostOrLeaked(t *testing.T) {
	opts := options(t, `
domain: api
descriptors:
  - key: model
    detailed_metric: true
    rate_limit: {unit: minute, requests_per_unit: 100}
    metadata: {price: {currency: EUR}, tags: [a]}
  - key: path
    value: /v1/*
    value_to_metric: true
    rate_limit: {unit: minute, requests_per_unit: 100}
    metadata: {price: {unit: token, more: {deep: 1}}, version: 1}
  - key: path
    value: /v2/*
    share_threshold: true
    rate_limit: {unit: minute, requests_per_unit: 100}
    metadata: {price: {more: {deeper: 2}}, version: 2}
`)
	opts.DynamicMetadata = true
	s := opts.service()
	const model = `{"price": {"currency": "EUR"}, "tags": ["a"]}`
	for _, tc := range []struct{ request, want string }{
		{"model=x", model},
		{"model=x path=/v1/a path=/v2/a",
			`{"price": {"currency": "EUR", "unit": "token", "more": {"deep": 1, "deeper": 2}}, "tags": ["a"], "version": 1}`},
		{"model=x", model},
		{"path=/v2/a path=/v1/a", `{"price": {"unit": "token", "more": {"deep": 1, "deeper": 2}}, "version": 2}`},
		{"path=/v1/b", `{"price": {"unit": "token", "more": {"deep": 1}}, "version": 1}`},
		{"path=/v2/b", `{"price": {"more": {"deeper": 2}}, "version": 2}`},
		{"model=y", model},
	} {
		got := response(t, decide(t, s, tc.request).response).GetDynamicMetadata()
		wantStruct(t, got.GetFields()["metadata"].GetStructValue(), tc.want)
	}
}

// envoyproxy/ratelimit answers every error of Redis with UNKNOWN.
func TestFaultStoreErrorsAreUnknown(t *testing.T) {
	opts := options(t, rules)
	opts.store = failing{}
	s := opts.service()
	conn := serve(t, s)
	_, err := ask(t, conn, "user=a")
	expectError(t, err, codes.Unavailable, "the counter store is unavailable")
	testenv.Equal(t, testutil.ToFloat64(s.metrics.storeErrors), 1, "store errors")
	// A request without a limit does not need the store.
	expect(t, conn, "user=root stranger=a", "OK: OK 4294967295, OK")
}

// In envoyproxy/ratelimit, every unknown domain and every override creates permanent series.
func TestFaultSeriesFromTraffic(t *testing.T) {
	opts := options(t, rules)
	s := opts.service()
	traffic := func(n int) {
		for i := range n {
			decide(t, s, fmt.Sprintf("user=u%d stranger=%[1]d key%[1]d=a(%[1]d/HOUR)", i))
			decide(t, s, fmt.Sprintf("domain:domain%d user=a user=a(%[1]d/HOUR)", i))
		}
	}
	series := func() (n int) {
		for _, f := range testenv.Must(opts.registry.Gather())(t) {
			n += len(f.GetMetric())
		}
		return n
	}
	traffic(1)
	few := series()
	traffic(2000)
	testenv.Equal(t, series(), few, "series after 2000 requests of each kind, as after one")
}

// Envoy sends the raw bytes of a header. envoyproxy/ratelimit refuses bytes that are not UTF-8
// before it counts the request, and Envoy then lets the request pass.
func TestFaultInvalidUTF8BypassesLimits(t *testing.T) {
	conn := serve(t, options(t, rules).service())
	for _, value := range []string{"\xff", "\xfe", "\xff\xff", "\xef\xbf\xbd", "%ff", "a\x00b", strings.Repeat("\xff", 10_000)} {
		for i, want := range []ratelimitv3.RateLimitResponse_Code{1, 1, 2} {
			got, err := ask(t, conn, "user="+value)
			if err != nil || got.GetOverallCode() != want {
				t.Errorf("value %.10q, request %d: got %v (error: %v), want %v", value, i, got.GetOverallCode(), err, want)
			}
		}
	}
}
