package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"weir/internal/testenv"
)

// TestThoseWhoAreDeniedAreSpread denies two callers with a token bucket of one token, which takes
// three seconds to fill. The second caller's retry time is three seconds after the first's.
func TestThoseWhoAreDeniedAreSpread(t *testing.T) {
	f := start(t, "--config="+directory(t, "{domain: api, descriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 20, algorithm: token_bucket, burst: 1}}]}"))
	if got := f.answer("user"); got != "OK" {
		t.Fatalf("the first request: %s", got)
	}
	var seconds [2]int
	for i := range seconds {
		testenv.Must(fmt.Sscanf(f.answer("user"), "OVER_LIMIT, retry after %d", &seconds[i]))(t)
	}
	if seconds[0] > 3 || seconds[1] <= seconds[0] || seconds[1] > 6 {
		t.Errorf("told %d and %d seconds, want up to 3, and up to 3 more", seconds[0], seconds[1])
	}
}

// TestSettingsOfAnswers sets the reference's switches one at a time, and checks the answer to a
// request whose first descriptor exceeds its limit of 3. The log and the status page name switches
// that change every response.
func TestSettingsOfAnswers(t *testing.T) {
	for _, tc := range []struct {
		env     string
		denied  bool
		headers string // response headers, then request headers
		domain  any    // the domain in the metadata
	}{
		{"", true, "[]", nil},
		{"SHADOW_MODE=true", false, "[]", nil},
		{"QUOTA_MODE=true", false, "[]", nil},
		{"SHADOW_MODE=true QUOTA_MODE=true", false, "[]", nil},
		{"LIMIT_RESPONSE_HEADERS_ENABLED=true", true, "[RateLimit-Limit=3 RateLimit-Remaining=0 RateLimit-Reset]", nil},
		{"LIMIT_RESPONSE_HEADERS_ENABLED=true LIMIT_LIMIT_HEADER=a LIMIT_REMAINING_HEADER=b LIMIT_RESET_HEADER=c", true, "[a=3 b=0 c]", nil},
		{"LIMIT_REQUEST_HEADERS_ENABLED=true LIMIT_REQUEST_LIMIT_HEADER=a LIMIT_REQUEST_REMAINING_HEADER=b LIMIT_REQUEST_RESET_HEADER=c", true, "[a=3 b=0 c]", nil},
		{"RESPONSE_DYNAMIC_METADATA=true", true, "[]", "api"},
	} {
		t.Run(tc.env, func(t *testing.T) {
			for variable := range strings.FieldsSeq(tc.env) {
				name, value, _ := strings.Cut(variable, "=")
				t.Setenv(name, value)
			}
			f := start(t, "--config="+directory(t, limited(3)))
			var notes []string
			for name, note := range map[string]string{
				"SHADOW_MODE": "SHADOW_MODE is on: no request is denied",
				"QUOTA_MODE":  "QUOTA_MODE is on: a request is denied only if all its limits are exceeded",
			} {
				on := strings.Contains(tc.env, name)
				if on {
					notes = append(notes, note)
				}
				testenv.Equal(t, strings.Contains(f.log.String(), `level=WARN msg="a switch changes every response" effect="`+note+`"`), on, "the log tells %q", note)
			}
			if told := f.operators.Status().Problems; len(told) != len(notes) {
				t.Errorf("the problems are %+v, want %q", told, notes)
			}
			for range 3 {
				f.askMany("alice")
			}
			got := f.askMany("alice", "other")
			testenv.Equal(t, got.GetOverallCode() == ratelimitv3.RateLimitResponse_OVER_LIMIT, tc.denied, "denied")
			testenv.Equal(t, got.GetStatuses()[0].GetCode(), ratelimitv3.RateLimitResponse_OVER_LIMIT, "the first descriptor")
			var headers []string
			for i, h := range append(got.GetResponseHeadersToAdd(), got.GetRequestHeadersToAdd()...) {
				if i%3 == 2 { // seconds until the end of the year
					headers = append(headers, h.GetKey())
				} else {
					headers = append(headers, h.GetKey()+"="+h.GetValue())
				}
			}
			testenv.Equal(t, fmt.Sprint(headers), tc.headers, "headers")
			if domain := got.GetDynamicMetadata().AsMap()["domain"]; domain != tc.domain {
				t.Errorf("got the domain %v in the metadata, want %v", domain, tc.domain)
			}
		})
	}
}

// TestCalendarMonths sets USE_CALENDAR_MONTH_RATE_LIMIT: months in rules and in requests end with
// the calendar month in UTC, as in the reference. Limits with an algorithm keep that algorithm.
func TestCalendarMonths(t *testing.T) {
	t.Setenv("USE_CALENDAR_MONTH_RATE_LIMIT", "true")
	const rules = `
domain: api
descriptors:
  - {key: user, value: plain, rate_limit: {unit: month, requests_per_unit: 3}}
  - {key: user, value: epoch, rate_limit: {unit: month, requests_per_unit: 3, algorithm: fixed_window}}
  - {key: user, value: sliding, rate_limit: {unit: month, requests_per_unit: 3, algorithm: sliding_window}}
  - {key: user, value: year, rate_limit: {unit: year, requests_per_unit: 3}}
`
	const month = 30 * 24 * time.Hour
	f := start(t, "--config="+directory(t, rules))
	reset := func(user string, override *commonv3.RateLimitDescriptor_RateLimitOverride) time.Duration {
		d := describe("user=" + user)
		d.Limit = override
		return testenv.Must(f.decide(t.Context(), d))(t).GetStatuses()[0].GetDurationUntilReset().AsDuration()
	}
	year, this, _ := time.Now().UTC().Date()
	end := time.Until(time.Date(year, this+1, 1, 0, 0, 0, 0, time.UTC))
	since := time.Duration(time.Now().UnixNano())
	for _, c := range []struct {
		user string
		want time.Duration
	}{
		{"plain", end}, {"epoch", month - since%month}, {"sliding", 2*month - since%month}, {"year", 365*24*time.Hour - since%(365*24*time.Hour)},
	} {
		if got := reset(c.user, nil); (got-c.want).Abs() > time.Minute && c.want > time.Minute {
			t.Errorf("%s: whole again after %v, want %v", c.user, got, c.want)
		}
	}
	sent := &commonv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 7, Unit: typev3.RateLimitUnit_MONTH}
	if got := reset("sent", sent); (got-end).Abs() > time.Minute && end > time.Minute {
		t.Errorf("a limit that the request brings is whole again after %v, want %v", got, end)
	}
	f.wantAnswer("GET", f.debug.addr(), "/rlconfig", 200, "api.user_plain: unit=MONTH requests_per_unit=3, shadow_mode: false, quota_mode: false, algorithm: calendar,")
}
