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

func TestJSONDecisions(t *testing.T) {
	h := options(t, rules).service().JSONHandler()
	const request = `{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "a"}]}]}`
	for i, tc := range []struct {
		body       string
		status     int
		retryAfter string
		want       string
	}{
		{request, 200, "", "OK: OK 1 of 2/MINUTE for 30s"},
		{request, 200, "", "OK: OK 0 of 2/MINUTE for 30s"},
		{request, 429, "30", "OVER: OVER 0 of 2/MINUTE for 30s"},
		{`{"domain": "api", "descriptors": [{"entries": [{"key": "nobody", "value": "a"}]}, {"entries": [{"key": "user", "value": "a"}]}]}`, 429, "",
			"OVER: OVER 0 of 0/DAY, OVER 0 of 2/MINUTE for 30s"},
		{`{"domain": "api", "hits_addend": 3, "descriptors": [{"entries": [{"key": "path", "value": "/"}]}]}`, 200, "", "OK: OK 0 of 3/HOUR paths for 30s"},
	} {
		w := post(h, http.MethodPost, tc.body)
		if w.Code != tc.status || w.Header().Get("Retry-After") != tc.retryAfter || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("request %d: got %d, headers %v; want %d, Retry-After %q and JSON", i, w.Code, w.Header(), tc.status, tc.retryAfter)
		}
		var got ratelimitv3.RateLimitResponse
		testenv.OK(t, protojson.Unmarshal(w.Body.Bytes(), &got))
		if outline(&got) != tc.want {
			t.Errorf("request %d: got %v, want %v", i, outline(&got), tc.want)
		}
	}
}

// Retry-After is when the request would be admitted, and a quota that is over
// does not deny it unless all are.
func TestRetryAfter(t *testing.T) {
	const rules = `
domain: api
descriptors:
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
	for keys, want := range map[string]string{
		"hour day second":            "43230",
		"second never":               "",
		"second trial":               "1",
		"second daily plenty":        "1",
		"second nothing plenty":      "1",
		"daily hourly":               "30",
		"hourly nothing":             "30",
		"day daily hourly":           "43230",
		"second daily hourly":        "30",
		"nothing":                    "",
		"hour nothing nothing daily": "43230",
	} {
		t.Run(keys, func(t *testing.T) {
			h := options(t, rules).service().JSONHandler()
			body := func(keys ...string) string {
				return `{"domain": "api", "descriptors": [{"entries": [{"key": "` + strings.Join(keys, `"}]}, {"entries": [{"key": "`) + `"}]}]}`
			}
			for key := range strings.FieldsSeq(keys) { // each is used up by itself
				post(h, http.MethodPost, body(key))
			}
			w := post(h, http.MethodPost, body(strings.Fields(keys)...))
			if got := w.Header().Get("Retry-After"); w.Code != http.StatusTooManyRequests || got != want {
				t.Errorf("got %d, Retry-After %q, want 429, %q", w.Code, got, want)
			}
		})
	}
}

// TestRetryAfterInMilliseconds has a bucket deny for a part of a second. The body
// holds what the reference's does, which clients may read strictly.
func TestRetryAfterInMilliseconds(t *testing.T) {
	h := options(t, "{domain: api, descriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 700, burst: 1, algorithm: token_bucket}}]}").service().JSONHandler()
	const request = `{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "a"}]}]}`
	if w := post(h, http.MethodPost, request); w.Code != http.StatusOK || w.Header().Get("Retry-After-Ms") != "" {
		t.Errorf("admitted: got %d, headers %v", w.Code, w.Header())
	}
	w := post(h, http.MethodPost, request) // 85.7 ms too early
	if got := w.Header(); w.Code != http.StatusTooManyRequests || got.Get("Retry-After") != "1" || got.Get("Retry-After-Ms") != "86" {
		t.Errorf("got %d, headers %v; want 429, 1 s and 86 ms", w.Code, got)
	}
	if err := protojson.Unmarshal(w.Body.Bytes(), new(ratelimitv3.RateLimitResponse)); err != nil {
		t.Error(err)
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
