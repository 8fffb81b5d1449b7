package limiter

import (
	"math"
	"testing"
	"time"
)

// at returns a time in microseconds: d after noon of a day whose minutes, hours
// and half days start windows.
func at(d time.Duration) int64 {
	return time.Date(2026, time.January, 2, 12, 0, 0, 0, time.UTC).Add(d).UnixMicro()
}

// One counter through requests of one hit.
func TestFixedWindow(t *testing.T) {
	const second, micro = time.Second, time.Microsecond
	const most = 1 << 52 // which counters and costs do not exceed
	type step struct {
		at   time.Duration
		hit  Hit // of the table's limit
		want Decision
	}
	cost := func(n uint64) Hit { return Hit{Cost: n} }
	refund := func(n uint64) Hit { return Hit{Cost: n, Refund: true} }
	always := func(n uint64) Hit { return Hit{Cost: n, Always: true} }
	for _, tc := range []struct {
		name  string
		limit *Limit
		steps []step
	}{
		{"a minute", must(Spec{RequestsPerUnit: 3, Unit: Minute}), []step{
			{0, cost(2), Decision{Charged: true, Used: 2, Remaining: 1, ResetAfter: 60 * second}},
			{10 * second, cost(2), Decision{Over: true, Used: 2, Remaining: 1, ResetAfter: 50 * second, RetryAfter: 50 * second}},
			{20 * second, cost(1), Decision{Charged: true, Used: 3, ResetAfter: 40 * second}},
			{60*second - micro, cost(1), Decision{Over: true, Used: 3, ResetAfter: micro, RetryAfter: micro}},
			{60 * second, cost(1), Decision{Charged: true, Used: 1, Remaining: 2, ResetAfter: 60 * second}},
			{60*second + micro, cost(4), Decision{Over: true, Used: 1, Remaining: 2, ResetAfter: 60*second - micro, RetryAfter: Never}},
		}},
		{"twelve hours", must(Spec{RequestsPerUnit: 1, Unit: Hour, UnitMultiplier: 12}), []step{
			{-micro, cost(1), Decision{Charged: true, Used: 1, ResetAfter: micro}},
			{0, cost(1), Decision{Charged: true, Used: 1, ResetAfter: 12 * time.Hour}},
			{11 * time.Hour, cost(1), Decision{Over: true, Used: 1, ResetAfter: time.Hour, RetryAfter: time.Hour}},
		}},
		{"peeks", must(Spec{RequestsPerUnit: 1, Unit: Minute}), []step{
			{0, cost(0), Decision{Remaining: 1, ResetAfter: 60 * second}},
			{0, always(0), Decision{Remaining: 1, ResetAfter: 60 * second}},
			{0, cost(1), Decision{Charged: true, Used: 1, ResetAfter: 60 * second}},
			{0, cost(0), Decision{Over: true, Used: 1, ResetAfter: 60 * second, RetryAfter: 60 * second}},
			{0, always(0), Decision{Used: 1, ResetAfter: 60 * second}},
			{0, always(1), Decision{Over: true, Charged: true, Used: 2, ResetAfter: 60 * second, RetryAfter: 60 * second}},
			{0, always(0), Decision{Over: true, Used: 2, ResetAfter: 60 * second, RetryAfter: 60 * second}},
		}},
		{"nothing allowed", must(Spec{Unit: Minute}), []step{
			{0, cost(1), Decision{Over: true, ResetAfter: 60 * second, RetryAfter: Never}},
			{0, cost(0), Decision{Over: true, ResetAfter: 60 * second, RetryAfter: Never}},
			{0, always(2), Decision{Over: true, Charged: true, Used: 2, ResetAfter: 60 * second, RetryAfter: Never}},
			{0, refund(1), Decision{Charged: true, Used: 1, ResetAfter: 60 * second}},
		}},
		{"the clock steps back", must(Spec{RequestsPerUnit: 2, Unit: Minute}), []step{
			{60 * second, cost(1), Decision{Charged: true, Used: 1, Remaining: 1, ResetAfter: 60 * second}},
			{59 * second, cost(1), Decision{Charged: true, Used: 2, ResetAfter: second}},
			{20 * second, cost(1), Decision{Over: true, Used: 2, ResetAfter: 40 * second, RetryAfter: 40 * second}},
			{-time.Hour, cost(1), Decision{Over: true, Used: 2, ResetAfter: 60 * second, RetryAfter: 60 * second}},
			{-time.Hour, refund(1), Decision{Charged: true, Used: 1, Remaining: 1, ResetAfter: 60 * second}},
			{60*second - time.Hour, cost(2), Decision{Charged: true, Used: 2, ResetAfter: 60 * second}},
		}},
		{"refunds", must(Spec{RequestsPerUnit: 3, Unit: Minute}), []step{
			{0, refund(1), Decision{Charged: true, Remaining: 3, ResetAfter: 60 * second}},
			{0, cost(3), Decision{Charged: true, Used: 3, ResetAfter: 60 * second}},
			{0, refund(2), Decision{Charged: true, Used: 1, Remaining: 2, ResetAfter: 60 * second}},
			{0, refund(0), Decision{Charged: true, Used: 1, Remaining: 2, ResetAfter: 60 * second}},
			{60 * second, refund(1), Decision{Charged: true, Remaining: 3, ResetAfter: 60 * second}},
			{60 * second, cost(3), Decision{Charged: true, Used: 3, ResetAfter: 60 * second}},
		}},
		{"saturation", must(Spec{RequestsPerUnit: math.MaxUint32, Unit: Minute}), []step{
			{0, cost(math.MaxUint32), Decision{Charged: true, Used: math.MaxUint32, ResetAfter: 60 * second}},
			{0, cost(1 << 63), Decision{Over: true, Used: math.MaxUint32, ResetAfter: 60 * second, RetryAfter: Never}},
			{0, always(math.MaxUint64), Decision{Over: true, Charged: true, Used: most, ResetAfter: 60 * second, RetryAfter: Never}},
			{0, always(math.MaxUint64), Decision{Over: true, Charged: true, Used: most, ResetAfter: 60 * second, RetryAfter: Never}},
			{0, refund(1), Decision{Charged: true, Used: most - 1, ResetAfter: 60 * second}},
			{0, refund(math.MaxUint64), Decision{Charged: true, Remaining: math.MaxUint32, ResetAfter: 60 * second}},
		}},
		{"a hundred years", must(Spec{RequestsPerUnit: 1, Unit: Year, UnitMultiplier: 100}), []step{
			{0, cost(1), Decision{Charged: true, Used: 1, ResetAfter: time.Date(2069, 12, 7, 0, 0, 0, 0, time.UTC).Sub(time.UnixMicro(at(0)))}},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var s State
			for i, step := range tc.steps {
				h := step.hit
				h.Limit = tc.limit
				out := make([]Decision, 1)
				denied := Decide([]Hit{h}, []*State{&s}, at(step.at), out)
				if out[0] != step.want {
					t.Errorf("step %d at %v:\n got %+v\nwant %+v", i, step.at, out[0], step.want)
				}
				if denied != step.want.Over {
					t.Errorf("step %d at %v: denied is %v", i, step.at, denied)
				}
			}
		})
	}
}

func TestExpiry(t *testing.T) {
	minute := must(Spec{Unit: Minute})
	twoDays := must(Spec{Unit: Day, UnitMultiplier: 2})
	firstHit := must(Spec{Unit: Minute, Anchor: FirstHit})
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
