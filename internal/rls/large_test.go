package rls

import (
	"net/http"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

// An amount that the 32 bits of a status cannot say is the largest that they can.
// Headers say all of it, and so does the dynamic metadata of what was asked.
func TestLargeAmounts(t *testing.T) {
	const large = `
domain: api
descriptors:
  - key: tokens
    rate_limit: {unit: month, requests_per_unit: 1125899906842624}
`
	opts := options(t, large)
	opts.ResponseHeaders = Headers{Limit: "x-ratelimit-limit", Remaining: "x-ratelimit-remaining", Reset: "x-ratelimit-reset"}
	opts.RequestHeaders = Headers{Limit: "limit", Remaining: "remaining", Reset: "reset"}
	opts.DynamicMetadata = true
	service := opts.service()
	conn, json := serve(t, service), service.JSONHandler()
	for _, step := range []struct {
		addend, negative string
		code             string
		remaining        string
		status           uint32
	}{
		{"1", "false", "OK", "1125899906842623", 1<<32 - 1},
		{"1125895611875328", "false", "OK", "4294967295", 1<<32 - 1},
		{"1", "false", "OK", "4294967294", 1<<32 - 2},
		{"9007199254740992", "true", "OK", "1125899906842624", 1<<32 - 1},
		{"1125899906842625", "false", "OVER_LIMIT", "0", 0},
		{"18446744073709551615", "true", "OK", "1125899906842624", 1<<32 - 1},
	} {
		response, err := ask(t, conn, "domain: 'api' "+d("tokens", "a", "hits_addend {value: "+step.addend+"} is_negative_hits: "+step.negative))
		if err != nil {
			t.Fatal(err)
		}
		// A peek, which has the same headers and status as the request before it.
		peek := post(json, http.MethodPost, `{"domain": "api", "descriptors": [{"entries": [{"key": "tokens", "value": "a"}], "hitsAddend": "0"}]}`)
		peeked := new(ratelimitv3.RateLimitResponse)
		if err := protojson.Unmarshal(peek.Body.Bytes(), peeked); err != nil {
			t.Fatalf("%v in %s", err, peek.Body)
		}
		for name, got := range map[string]*ratelimitv3.RateLimitResponse{"gRPC": response, "/json": peeked} {
			s := got.GetStatuses()[0]
			if s.GetCode().String() != step.code || s.GetLimitRemaining() != step.status || s.GetCurrentLimit().GetRequestsPerUnit() != 1<<32-1 {
				t.Errorf("%+v: %s says %v", step, name, s)
			}
			for prefix, headers := range map[string][]*corev3.HeaderValue{"x-ratelimit-": got.GetResponseHeadersToAdd(), "": got.GetRequestHeadersToAdd()} {
				want := []string{prefix + "limit: 1125899906842624", prefix + "remaining: " + step.remaining}
				var lines []string
				for _, h := range headers {
					lines = append(lines, h.GetKey()+": "+h.GetValue())
				}
				if !strings.HasPrefix(strings.Join(lines, "\n"), strings.Join(want, "\n")) {
					t.Errorf("%+v: %s has the headers %q, want %q", step, name, lines, want)
				}
			}
		}
		said := response.GetDynamicMetadata().GetFields()["descriptors"].GetListValue().GetValues()[0].GetStructValue().GetFields()["hitsAddend"]
		if text := protojson.Format(said); len(step.addend) < 17 && text != step.addend {
			t.Errorf("%+v: dynamic metadata says %s", step, text)
		}
	}
}
