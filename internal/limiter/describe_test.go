package limiter

import (
	"testing"
	"time"
)

// at returns a time in microseconds: d after noon of a day whose minutes, hours
// and half days start windows.
func at(d time.Duration) int64 {
	return time.Date(2026, time.January, 2, 12, 0, 0, 0, time.UTC).Add(d).UnixMicro()
}

func TestExpiry(t *testing.T) {
	minute := must(Spec{Unit: Minute})
	twoDays := must(Spec{Unit: Day, UnitMultiplier: 2})
	firstHit := must(Spec{Unit: Minute, Algorithm: FirstHit})
	sliding := must(Spec{Unit: Minute, RequestsPerUnit: 7, Algorithm: SlidingWindow})
	bucket := must(Spec{Unit: Minute, RequestsPerUnit: 7, Algorithm: TokenBucket}) // 60e6 / 7 microseconds for a unit
	number := at(0) / 60e6
	for _, tc := range []struct {
		name  string
		limit *Limit
		state State
		want  int64
	}{
		{"unused", minute, State{}, 0},
		{"unused since", minute, State{At: number}, 0},
		{"the window of noon", minute, State{At: number, Used: 5}, at(time.Minute)},
		{"two days", twoDays, State{At: at(0) / 172800e6, Used: 1}, at(12 * time.Hour)},
		{"from the first hit", firstHit, State{At: at(5), Used: 1}, at(5 + time.Minute)},
		{"unused from no hit", firstHit, State{At: at(5)}, 0},
		{"sliding", sliding, State{At: number, Used: 1}, at(2 * time.Minute)},
		{"sliding out", sliding, State{At: number, Prev: 1}, at(time.Minute)},
		{"sliding and unused", sliding, State{At: number}, 0},
		{"a bucket with a unit", bucket, State{At: at(0), Used: 1}, at(8_571_429 * time.Microsecond)},
		{"a bucket with the rest of one", bucket, State{At: at(0), Prev: 8}, at(2 * time.Microsecond)},
		{"an empty bucket", bucket, State{At: at(0)}, 0},
	} {
		if got := tc.limit.Expiry(tc.state); got != tc.want {
			t.Errorf("%s: expires at %d, want %d", tc.name, got, tc.want)
		}
	}
}

// A store may describe a state it read earlier, or none.
func TestDescribe(t *testing.T) {
	limit := must(Spec{RequestsPerUnit: 5, Unit: Minute})
	window := at(0) / 60e6
	for _, tc := range []struct {
		name  string
		cost  uint64
		over  bool
		state State
		want  Decision
	}{
		{"unused", 1, false, State{}, Decision{Remaining: 5, ResetAfter: time.Minute}},
		{"used", 1, false, State{At: window, Used: 2}, Decision{Used: 2, Remaining: 3, ResetAfter: time.Minute}},
		{"over", 1, true, State{At: window, Used: 5}, Decision{Over: true, Used: 5, ResetAfter: time.Minute, RetryAfter: time.Minute}},
		{"in debt", 1, true, State{At: window, Used: 9}, Decision{Over: true, Used: 9, ResetAfter: time.Minute, RetryAfter: time.Minute}},
		{"cost of the limit", 5, true, State{At: window, Used: 1}, Decision{Over: true, Used: 1, Remaining: 4, ResetAfter: time.Minute, RetryAfter: time.Minute}},
		{"cost above the limit", 6, true, State{}, Decision{Over: true, Remaining: 5, ResetAfter: time.Minute, RetryAfter: Never}},
		{"room again", 5, true, State{}, Decision{Over: true, Remaining: 5, ResetAfter: time.Minute}},
		{"earlier window", 1, false, State{At: window - 1, Used: 5}, Decision{Remaining: 5, ResetAfter: time.Minute}},
		{"later window", 1, true, State{At: window + 100, Used: 5}, Decision{Over: true, Used: 5, ResetAfter: time.Minute, RetryAfter: time.Minute}},
	} {
		out := []Decision{{Over: tc.over}}
		Describe([]Hit{{Limit: limit, Cost: tc.cost}}, []State{tc.state}, at(0), out)
		if got := out[0]; got != tc.want {
			t.Errorf("%s:\n got %+v\nwant %+v", tc.name, got, tc.want)
		}
	}
}
