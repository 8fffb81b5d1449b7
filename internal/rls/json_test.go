package rls

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/encoding/protojson"

	"weir/internal/testenv"
)

func post(h http.Handler, method, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, "/json", strings.NewReader(body)))
	return w
}

// Each request is sent to a new server, after requests that use up the limits of some keys. Retry-After
// is the time until the request would be admitted. Quotas deny a request only if all of them are
// exceeded. The body has only members that envoyproxy/ratelimit sends, because clients may be strict.
func TestJSONDecisions(t *testing.T) {
	const rules = `
domain: api
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: path, rate_limit: {name: paths, unit: hour, requests_per_unit: 3}}
  - {key: bucket, rate_limit: {unit: minute, requests_per_unit: 700, burst: 1, algorithm: token_bucket}}
  - {key: second, rate_limit: {unit: second, requests_per_unit: 1}}
  - {key: hour, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: day, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: never, rate_limit: {unit: day, requests_per_unit: 0}}
  - {key: trial, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: daily, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: hourly, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: plenty, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 1000}}
  - {key: nothing, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 0}}
`
	for _, tc := range []struct {
		used, keys, more string // more has additional members of the request
		retry            string // Retry-After and Retry-After-Ms of a denied request
		want             string // beginning of the outline
	}{
		{"", "user", "", "", "OK: OK 1 of 2/MINUTE for 30s"},
		{"", "path", `, "hits_addend": 3`, "", "OK: OK 0 of 3/HOUR paths for 30s"},
		{"user user", "user", "", "30 30000", "OVER: OVER 0 of 2/MINUTE for 30s"},
		{"user user", "never user", "", "", "OVER: OVER 0 of 0/DAY, OVER 0 of 2/MINUTE for 30s"},
		{"bucket", "bucket", "", "1 86", "OVER: "}, // 85.7 ms too early
		{"hour day second", "hour day second", "", "43230 43230000", "OVER: "},
		{"second", "second never", "", "", "OVER: "},
		{"second trial", "second trial", "", "1 1000", "OVER: "},
		{"second daily", "second daily plenty", "", "1 1000", "OVER: "},
		{"second", "second nothing plenty", "", "1 1000", "OVER: "},
		{"daily hourly", "daily hourly", "", "30 30000", "OVER: "},
		{"hourly", "hourly nothing", "", "30 30000", "OVER: "},
		{"day daily hourly", "day daily hourly", "", "43230 43230000", "OVER: "},
		{"second daily hourly", "second daily hourly", "", "30 30000", "OVER: "},
		{"", "nothing", "", "", "OVER: "},
		{"hour daily", "hour nothing nothing daily", "", "43230 43230000", "OVER: "},
	} {
		t.Run(tc.used+" then "+tc.keys, func(t *testing.T) {
			h := options(t, rules).service().JSONHandler()
			body := func(keys []string, more string) string {
				return `{"domain": "api"` + more + `, "descriptors": [{"entries": [{"key": "` + strings.Join(keys, `"}]}, {"entries": [{"key": "`) + `"}]}]}`
			}
			for key := range strings.FieldsSeq(tc.used) {
				post(h, http.MethodPost, body([]string{key}, ""))
			}
			w := post(h, http.MethodPost, body(strings.Fields(tc.keys), tc.more))
			status := http.StatusOK
			if strings.HasPrefix(tc.want, "OVER") {
				status = http.StatusTooManyRequests
			}
			retry := strings.TrimSpace(w.Header().Get("Retry-After") + " " + w.Header().Get("Retry-After-Ms"))
			if w.Code != status || retry != tc.retry || w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("got %d, headers %v; want %d, Retry-After %q and JSON", w.Code, w.Header(), status, tc.retry)
			}
			var got ratelimitv3.RateLimitResponse
			testenv.OK(t, protojson.Unmarshal(w.Body.Bytes(), &got))
			if !strings.HasPrefix(outline(&got), tc.want) {
				t.Errorf("got %v, want %v", outline(&got), tc.want)
			}
		})
	}
}

func TestJSONErrors(t *testing.T) {
	opts := options(t, rules)
	failed := options(t, rules)
	failed.store = failing{}
	for _, tc := range []struct {
		name   string
		opts   *setup
		method string
		body   string
		status int
		want   string // beginning of the sentence
	}{
		{"method", opts, http.MethodGet, "", 405, "only POST is allowed"},
		{"no JSON", opts, http.MethodPost, "domain", 400, "the body is not a RateLimitRequest: "},
		{"unknown field", opts, http.MethodPost, `{"domian": "api"}`, 400, "the body is not a RateLimitRequest: "},
		{"control characters", opts, http.MethodPost, "{\"\u009b31m\u202e\": 1}", 400, "the body is not a RateLimitRequest: "},
		{"bad request", opts, http.MethodPost, `{"domain": "api"}`, 400, "the request has no descriptors"},
		{"too large", opts, http.MethodPost, `{"domain": "` + strings.Repeat("a", maxBytes) + `"}`, 413, "the body has more than 1048576 bytes"},
		{"store failed", failed, http.MethodPost, `{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "a"}]}]}`, 503, "the counter store is unavailable"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.opts.Registerer = prometheus.NewRegistry()
			w := post(tc.opts.service().JSONHandler(), tc.method, tc.body)
			if w.Code != tc.status || !strings.HasPrefix(w.Body.String(), tc.want) {
				t.Errorf("got %d %q, want %d %q", w.Code, w.Body, tc.status, tc.want)
			}
			if strings.ContainsAny(w.Body.String(), "\u009b\u202e") {
				t.Errorf("%q has characters that a terminal obeys", w.Body)
			}
			if w.Code == http.StatusMethodNotAllowed && w.Header().Get("Allow") != http.MethodPost {
				t.Errorf("Allow is %q", w.Header().Get("Allow"))
			}
			if retry := w.Header().Get("Retry-After"); (retry == "1") != (w.Code == http.StatusServiceUnavailable) {
				t.Errorf("Retry-After is %q", retry)
			}
		})
	}
}
