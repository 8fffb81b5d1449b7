package rls

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"weir/internal/limiter"
	"weir/internal/plan"
)

// rulesOfSeveral goes on where rules ends: rules that carry several limits.
const rulesOfSeveral = `
  - key: mixed
    rate_limit:
      - {name: burst, unit: second, requests_per_unit: 2}
      - {name: steady, unit: minute, unit_multiplier: 5, requests_per_unit: 4, algorithm: sliding_window}
      - {name: budget, unit: day, requests_per_unit: 240, algorithm: token_bucket, burst: 5}
  - key: windows
    rate_limit:
      - {name: minutes, unit: minute, requests_per_unit: 5}
      - {name: hours, unit: hour, requests_per_unit: 3}
      - {name: days, unit: day, requests_per_unit: 4}
  - key: even
    rate_limit:
      - {unit: minute, requests_per_unit: 5}
      - {unit: hour, requests_per_unit: 3}
  - key: trial
    rate_limit:
      - {unit: second, requests_per_unit: 1, shadow_mode: true}
      - {unit: minute, requests_per_unit: 10}
  - key: trials
    shadow_mode: true
    rate_limit:
      - {unit: minute, requests_per_unit: 10}
      - {unit: second, requests_per_unit: 1}
  - key: quotas
    quota_mode: true
    rate_limit:
      - {unit: second, requests_per_unit: 1}
      - {unit: minute, requests_per_unit: 2}
  - key: partly
    rate_limit:
      - {unlimited: true}
      - {name: minutes, unit: minute, requests_per_unit: 5}
  - key: replacing
    rate_limit:
      - {unlimited: true, replaces: [{name: hours}, {name: burst}]}
      - {unit: week, requests_per_unit: 9, replaces: [{name: minutes}]}
  - key: kept
    rate_limit:
      - {unit: minute, requests_per_unit: 9}
      - {unit: minute, requests_per_unit: 9, algorithm: sliding_window, charge: auto}
      - {unit: minute, requests_per_unit: 9, algorithm: first_hit, charge: admitted}
      - {unit: minute, requests_per_unit: 9, algorithm: token_bucket, charge: always}
`

func TestAnswersOfSeveralLimits(t *testing.T) {
	const (
		burst   = "name: 'burst' requests_per_unit: 2 unit: SECOND"
		steady  = "name: 'steady' requests_per_unit: 4 unit: MINUTE unit_multiplier {value: 5}"
		three   = "requests_per_unit: 3 unit: HOUR"
		minutes = "name: 'minutes' requests_per_unit: 5 unit: MINUTE"
		hours   = "name: 'hours' requests_per_unit: 3 unit: HOUR"
		days    = "name: 'days' requests_per_unit: 4 unit: DAY"
		perTen  = "requests_per_unit: 10 unit: MINUTE"
		second  = "requests_per_unit: 1 unit: SECOND"
		two     = "requests_per_unit: 2 unit: MINUTE"
		week    = "requests_per_unit: 9 unit: WEEK"
	)
	expectTalks(t, rules+rulesOfSeveral, []talk{
		{"fewest remaining, then the only one that denies", []step{
			{api + d("mixed", "a"), ok + status("OK", burst, 1, 1)},
			{api + d("mixed", "a"), ok + status("OK", burst, 0, 1)},
			{api + d("mixed", "a"), over + status("OVER_LIMIT", burst, 0, 1)},
			{api + d("mixed", "b"), ok + status("OK", burst, 1, 1)},
		}},
		{"a limit that never admits so much waits longest", []step{
			{api + d("mixed", "a") + "hits_addend: 2", ok + status("OK", burst, 0, 1)},
			{api + d("mixed", "a") + "hits_addend: 3", over + status("OVER_LIMIT", burst, 0, 0)},
		}},
		{"of those that never admit so much, the fewest remaining", []step{
			{api + d("windows", "a") + "hits_addend: 6", over + status("OVER_LIMIT", hours, 0, 0)},
		}},
		{"longest wait", []step{
			{api + d("windows", "a") + "hits_addend: 3", ok + status("OK", hours, 0, 30)},
			{api + d("windows", "a"), over + status("OVER_LIMIT", hours, 0, 30)},
			{api + d("windows", "a") + "hits_addend: 2", over + status("OVER_LIMIT", days, 0, 43230)},
		}},
		{"of equal waits, fewest remaining", []step{
			{api + d("even", "a") + "hits_addend: 3", ok + status("OK", three, 0, 30)},
			{api + d("even", "a") + "hits_addend: 3", over + status("OVER_LIMIT", three, 0, 30)},
		}},
		{"a denied request takes nothing from the other limits of its rule", []step{
			{api + d("mixed", "a") + "hits_addend: 2", ok + status("OK", burst, 0, 1)},
			{api + d("mixed", "a"), over + status("OVER_LIMIT", burst, 0, 1)},
			{api + d("mixed", "a") + d("replacing", "b"), ok + status("OK", steady, 1, 330) + status("OK", week, 8, 388830)},
			{api + d("mixed", "a") + d("replacing", "b"), ok + status("OK", steady, 0, 330) + status("OK", week, 7, 388830)},
			{api + d("mixed", "a") + d("replacing", "b"), over + status("OVER_LIMIT", steady, 0, 105) + status("OK", week, 7, 388830)},
		}},
		{"a trial is not noticed beside a limit", []step{
			{api + d("trial", "a"), ok + status("OK", perTen, 9, 30)},
			{api + d("trial", "a"), ok + status("OK", perTen, 8, 30)},
			{api + d("trial", "a") + "hits_addend: 9", over + status("OVER_LIMIT", perTen, 0, 30)},
		}},
		{"trials alone", []step{
			{api + d("trials", "a"), ok + status("OK", second, 0, 1)},
			{api + d("trials", "a"), ok + status("OK", second, 0, 1)},
		}},
		{"quotas: over when all are", []step{
			{api + d("quotas", "a"), ok + status("OK", second, 0, 1)},
			{api + d("quotas", "a"), ok + status("OVER_LIMIT", second, 0, 1)},
			{api + d("quotas", "a"), over + status("OVER_LIMIT", two, 0, 30)},
		}},
		{"unlimited beside a limit", []step{
			{api + d("partly", "a"), ok + status("OK", minutes, 4, 30)},
		}},
		{"replaced by name, each limit for itself", []step{
			{api + d("replacing", "a") + d("windows", "a"), ok + status("OK", week, 8, 388830) + status("OK", days, 3, 43230)},
			{api + d("windows", "a"), ok + status("OK", hours, 2, 30)},
			{api + d("replacing", "a") + d("partly", "a"), ok + status("OK", week, 7, 388830) + unlimited},
			{api + d("vip", "a") + d("path", "/"), ok + vip(99) + none},
		}},
		{"the same descriptor twice", []step{
			{api + d("mixed", "a") + d("mixed", "a"), ok + status("OK", burst, 0, 1) + status("OK", burst, 0, 1)},
			{api + d("windows", "a") + d("windows", "a") + "hits_addend: 2", over + status("OK", hours, 3, 30) + status("OVER_LIMIT", hours, 0, 0)},
		}},
		{"peek and refund", []step{
			{api + d("mixed", "a") + "hits_addend: 2", ok + status("OK", burst, 0, 1)},
			{api + d("mixed", "a", "hits_addend {value: 0}"), over + status("OVER_LIMIT", burst, 0, 1)},
			{api + d("mixed", "a", "is_negative_hits: true"), ok + status("OK", burst, 1, 1)},
			{api + d("mixed", "a", "hits_addend {value: 0}"), ok + status("OK", burst, 1, 1)},
		}},
		{"an override is a fixed window, whatever the rule", []step{
			{api + d("mixed", "a", "limit {requests_per_unit: 7 unit: MINUTE unit_multiplier {value: 5}}"),
				ok + status("OK", "requests_per_unit: 7 unit: MINUTE unit_multiplier {value: 5}", 6, 30)},
			{api + d("mixed", "a"), ok + status("OK", burst, 1, 1)},
		}},
	})
}

// A tighter limit that is tried beside the one that holds counts for itself.
func TestTrialHasItsOwnCounter(t *testing.T) {
	s := options(t, `
domain: api
descriptors:
  - key: user
    rate_limit:
      - {unit: minute, requests_per_unit: 10}
      - {unit: minute, requests_per_unit: 3, shadow_mode: true}
`).service()
	for i := range int64(10) {
		c := decide(t, s, "domain: 'api' "+d("user", "a"))
		if real, trial := c.result.Decisions[0], c.result.Decisions[1]; real.Used != i+1 || trial.Used != min(i+1, 3) || trial.Over != (i >= 3) || c.result.Denied {
			t.Errorf("request %d: got %+v and the trial %+v", i+1, real, trial)
		}
	}
}

// What becomes of a hit that fits, in a request that another limit denies.
func TestCharge(t *testing.T) {
	for _, tc := range []struct {
		server limiter.Charge
		// What is left of the limits of the rule kept, 9 each: of the one that
		// says nothing, and of those with charge auto, admitted and always.
		plain, ownAddend [4]int64
	}{
		{limiter.ByDefault, [4]int64{9, 9, 9, 8}, [4]int64{8, 8, 9, 8}},
		{limiter.Auto, [4]int64{9, 9, 9, 8}, [4]int64{8, 8, 9, 8}},
		{limiter.Admitted, [4]int64{9, 9, 9, 8}, [4]int64{9, 8, 9, 8}},
		{limiter.Always, [4]int64{8, 9, 9, 8}, [4]int64{8, 8, 9, 8}},
	} {
		for fields, want := range map[string][4]int64{
			"":                       tc.plain,
			"hits_addend {value: 1}": tc.ownAddend,
			"hits_addend {value: 0}": {9, 9, 9, 9},
			"is_negative_hits: true": {9, 9, 9, 9},
			"is_negative_hits: true hits_addend {value: 1}": {9, 9, 9, 9},
		} {
			t.Run(fmt.Sprint(tc.server, fields), func(t *testing.T) {
				opts := options(t, rules+rulesOfSeveral)
				opts.Charge = tc.server
				c := decide(t, opts.service(), "domain: 'api' "+d("kept", "a", fields)+d("nobody", "a"))
				var got [4]int64
				for i := range got {
					got[i] = c.result.Decisions[i].Remaining
				}
				if got != want || !c.result.Denied {
					t.Errorf("got %v and over limit %t, want %v and a denied request", got, c.result.Denied, want)
				}
			})
		}
	}
}

// A peek that comes before usage is told: of a limit of 2 a third one passes where
// all usage is charged, as in the reference, whose scripts of quotas rely on it.
func TestPeeksBeforeUsage(t *testing.T) {
	for charge, want := range map[limiter.Charge]int{limiter.ByDefault: 2, limiter.Auto: 2, limiter.Admitted: 2, limiter.Always: 3} {
		opts := options(t, "domain: api\ndescriptors: [{key: service, rate_limit: {unit: minute, requests_per_unit: 2}}]")
		opts.Charge = charge
		s, passed := opts.service(), 0
		for range 5 {
			if c := decide(t, s, "domain: 'api' "+d("service", "2", "hits_addend {value: 0}")); !c.result.Denied {
				passed++
				decide(t, s, "domain: 'api' "+d("service", "2", "hits_addend {value: 1}"))
			}
		}
		if passed != want {
			t.Errorf("charge %v: %d of 5 peeks passed, want %d", charge, passed, want)
		}
	}
}

// An override says nothing of charges, so the server's setting holds.
func TestChargeOfOverride(t *testing.T) {
	opts := options(t, rules)
	opts.Charge = limiter.Always
	c := decide(t, opts.service(), "domain: 'api' "+d("user", "a", "limit {requests_per_unit: 9 unit: HOUR}")+d("nobody", "a"))
	if got := c.result.Decisions[0].Remaining; got != 8 {
		t.Errorf("%d of 9 are left, want 8", got)
	}
}

// decide returns the call that has decided a request in text format.
func decide(t *testing.T, s *Service, request string) *call {
	t.Helper()
	var m ratelimitv3.RateLimitRequest
	parse(t, request, &m)
	c := s.calls.Get().(*call)
	c.wire = marshal(t, &m)
	must(t, s.decide(t.Context(), c))
	return c
}

// wiresOfSeveral are requests for rulesOfSeveral.
func wiresOfSeveral() [][]byte {
	var wires [][]byte
	for _, key := range []string{"mixed", "windows", "even", "trial", "trials", "quotas", "partly", "replacing", "kept"} {
		for _, cost := range []uint64{0, 1, 4, 1 << 63} {
			own := entryMessage(key, "b").bytes(3, message{}.varint(1, cost))
			wires = append(wires, message{}.string(1, "api").varint(3, cost).
				bytes(2, entryMessage(key, "a")).bytes(2, own).bytes(2, own.varint(4, 1)))
		}
	}
	return wires
}

// checkStatuses compares the statuses of a call with what was decided for the
// limits of each descriptor, in other words than settle does.
func checkStatuses(t *testing.T, c *call) {
	t.Helper()
	enforced := false // some enforced limit is over
	next := 0         // hit
	for i := range c.result.Statuses {
		s, first := &c.result.Statuses[i], next
		next = hitsEnd(c, s, first)
		var visible, denied []limiter.Decision
		var limits []*limiter.Limit
		for j := first; j < next; j++ {
			limit, decision := c.result.Hits[j].Limit, c.result.Decisions[j]
			limits = append(limits, limit)
			if limit.Mode != limiter.Shadow {
				visible = append(visible, decision)
			}
			if limit.Mode != limiter.Shadow && decision.Over {
				denied = append(denied, decision)
			}
			enforced = enforced || limit.Mode == limiter.Enforced && decision.Over
		}
		if (s.Limit != nil) != (first < next) || s.Limit != nil && !slices.Contains(limits, s.Limit) {
			t.Errorf("status %d is about the limit %v, want one of %v", i, s.Limit, limits)
		}
		if s.OverLimit != (len(denied) > 0) {
			t.Errorf("status %d is over limit: %t, but %d limits deny it", i, s.OverLimit, len(denied))
		}
		if len(denied) > 0 && (s.Remaining != 0 || s.UntilReset != longestWait(denied)) {
			t.Errorf("status %d: %d remain for %v, want 0 for %v", i, s.Remaining, s.UntilReset, longestWait(denied))
		}
		for _, decision := range visible {
			if !s.OverLimit && int64(s.Remaining) > min(decision.Remaining, math.MaxUint32) {
				t.Errorf("status %d: %d remain, but of one limit only %d do", i, s.Remaining, decision.Remaining)
			}
		}
	}
	if next != len(c.result.Hits) {
		t.Errorf("%d hits are of a descriptor, want all %d", next, len(c.result.Hits))
	}
	if enforced && !c.result.Denied {
		t.Error("the request is admitted, though an enforced limit is over")
	}
}

// hitsEnd returns where the hits of a descriptor end that begin at next: each limit
// of its rule has one at most, in order.
func hitsEnd(c *call, s *plan.Status, next int) int {
	limits := []*limiter.Limit{s.Limit} // of an override
	if s.Rule != nil {
		limits = s.Rule.Limits
	}
	for _, l := range limits {
		if next < len(c.result.Hits) && c.result.Hits[next].Limit == l {
			next++
		}
	}
	return next
}

// longestWait is in whole seconds, 0 if no waiting helps.
func longestWait(denied []limiter.Decision) (longest time.Duration) {
	for _, decision := range denied {
		if decision.RetryAfter == limiter.Never {
			return 0
		}
		longest = max(longest, plan.RoundUp(decision.RetryAfter, time.Second))
	}
	return longest
}
