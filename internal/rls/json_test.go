package rls

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"weir/internal/limiter"
)

func post(h http.Handler, method, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, "/json", strings.NewReader(body)))
	return w
}

func TestJSONDecisions(t *testing.T) {
	h := New(options(t, rules)).JSONHandler()
	const request = `{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "a"}]}]}`
	for i, tc := range []struct {
		body       string
		status     int
		retryAfter string
		want       string
	}{
		{request, 200, "", "overall_code: OK " + user("OK", 1)},
		{request, 200, "", "overall_code: OK " + user("OK", 0)},
		{request, 429, "30", "overall_code: OVER_LIMIT " + user("OVER_LIMIT", 0)},
		{`{"domain": "api", "descriptors": [{"entries": [{"key": "nobody", "value": "a"}]}, {"entries": [{"key": "user", "value": "a"}]}]}`, 429, "",
			"overall_code: OVER_LIMIT statuses {code: OVER_LIMIT current_limit {unit: DAY}} " + user("OVER_LIMIT", 0)},
		{`{"domain": "api", "hits_addend": 3, "descriptors": [{"entries": [{"key": "path", "value": "/"}]}]}`, 200, "", "overall_code: OK " + path("OK", 0)},
	} {
		w := post(h, http.MethodPost, tc.body)
		if w.Code != tc.status || w.Header().Get("Retry-After") != tc.retryAfter || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("request %d: got %d, headers %v; want %d, Retry-After %q and JSON", i, w.Code, w.Header(), tc.status, tc.retryAfter)
		}
		var got, want ratelimitv3.RateLimitResponse
		if err := protojson.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatalf("request %d: %v in %s", i, err, w.Body)
		}
		parse(t, tc.want, &want)
		if !proto.Equal(&got, &want) {
			t.Errorf("request %d: got %v, want %v", i, &got, &want)
		}
	}
}

func TestRetryAfterIsTheLongest(t *testing.T) {
	h := New(options(t, `
domain: api
descriptors:
  - {key: day, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: hour, rate_limit: {unit: hour, requests_per_unit: 1}}
`)).JSONHandler()
	const request = `{"domain": "api", "descriptors": [{"entries": [{"key": "day"}]}, {"entries": [{"key": "hour"}]}]}`
	post(h, http.MethodPost, request)
	if got := post(h, http.MethodPost, request).Header().Get("Retry-After"); got != "43230" {
		t.Errorf("Retry-After is %q, want 43230", got)
	}
}

func TestJSONErrors(t *testing.T) {
	opts := options(t, rules)
	failed := options(t, rules)
	failed.Limiter = limiter.New(failing{}, prometheus.NewRegistry())
	for _, tc := range []struct {
		name   string
		opts   Options
		method string
		body   string
		status int
		want   string // beginning of the sentence
	}{
		{"method", opts, http.MethodGet, "", 405, "only POST is allowed"},
		{"no JSON", opts, http.MethodPost, "domain", 400, "the body is not a RateLimitRequest: "},
		{"unknown field", opts, http.MethodPost, `{"domian": "api"}`, 400, "the body is not a RateLimitRequest: "},
		{"bad request", opts, http.MethodPost, `{"domain": "api"}`, 400, "the request has no descriptors"},
		{"too large", opts, http.MethodPost, `{"domain": "` + strings.Repeat("a", maxBytes) + `"}`, 413, "the body has more than 1048576 bytes"},
		{"store failed", failed, http.MethodPost, `{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "a"}]}]}`, 503, "the store of the counters is unavailable"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.opts.Registerer = prometheus.NewRegistry()
			w := post(New(tc.opts).JSONHandler(), tc.method, tc.body)
			if w.Code != tc.status || !strings.HasPrefix(w.Body.String(), tc.want) {
				t.Errorf("got %d %q, want %d %q", w.Code, w.Body, tc.status, tc.want)
			}
			if w.Code == http.StatusMethodNotAllowed && w.Header().Get("Allow") != http.MethodPost {
				t.Errorf("Allow is %q", w.Header().Get("Allow"))
			}
		})
	}
}
