package server

import (
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"weir/internal/testenv"
)

// TestCalendarMonths counts months of rules and of requests as the reference does with
// USE_CALENDAR_MONTH_RATE_LIMIT: until the first of the next month in UTC. Whatever names an
// algorithm keeps it.
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
