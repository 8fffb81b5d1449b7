package limiter

import (
	"slices"
	"testing"
	"time"
)

// The tables of storetest say what Decide decides; here is what it
// leaves in the states, down to the last bit.
func TestDecideStates(t *testing.T) {
	three := must(Spec{RequestsPerUnit: 3, Unit: Minute})
	shadow := must(Spec{RequestsPerUnit: 3, Unit: Minute, Mode: Shadow})
	quota := must(Spec{RequestsPerUnit: 3, Unit: Minute, Mode: Quota})
	now := at(0) / 60e6 // the window of the request
	type hit struct {
		counter int
		hit     Hit
	}
	take := func(counter int, l *Limit, cost uint64) hit { return hit{counter, Hit{Limit: l, Cost: cost}} }
	refund := func(counter int, cost uint64) hit { return hit{counter, Hit{Limit: three, Cost: cost, Refund: true}} }
	always := func(counter int, cost uint64) hit { return hit{counter, Hit{Limit: three, Cost: cost, Always: true}} }

	for _, tc := range []struct {
		name   string
		before []State
		hits   []hit
		after  []State
		denied bool
	}{
		{"admitted", []State{{}, {At: now, Used: 1}}, []hit{take(0, three, 1), take(1, three, 2)}, []State{{At: now, Used: 1}, {At: now, Used: 3}}, false},
		{"admitted in a new window", []State{{At: now - 1, Used: 3}}, []hit{take(0, three, 1)}, []State{{At: now, Used: 1}}, false},
		{"admitted after the clock stepped back", []State{{At: now + 7, Used: 1}}, []hit{take(0, three, 1)}, []State{{At: now, Used: 2}}, false},
		{"denied after the clock stepped back", []State{{At: now + 7, Used: 2}, {At: now - 1, Used: 1}}, []hit{take(0, three, 2), take(1, three, 1)}, []State{{At: now, Used: 2}, {At: now - 1, Used: 1}}, true},
		{"peeked at after the clock stepped back", []State{{At: now + 7, Used: 2}}, []hit{take(0, three, 0)}, []State{{At: now, Used: 2}}, false},
		{
			"denied by the last",
			[]State{{}, {At: now, Used: 1}, {At: now, Used: 3}},
			[]hit{take(0, three, 1), take(1, three, 1), take(2, three, 1)},
			[]State{{}, {At: now, Used: 1}, {At: now, Used: 3}},
			true,
		},
		{
			"denied in a new window",
			[]State{{At: now - 1, Used: 2}, {At: now - 7, Used: 3}},
			[]hit{take(0, three, 1), take(1, three, 4)},
			[]State{{At: now - 1, Used: 2}, {At: now - 7, Used: 3}},
			true,
		},
		{
			"denied on one counter",
			[]State{{At: now - 1, Used: 2}},
			[]hit{take(0, three, 1), take(0, three, 1), take(0, three, 2)},
			[]State{{At: now - 1, Used: 2}},
			true,
		},
		{"a shadow over", []State{{At: now, Used: 3}, {}}, []hit{take(0, shadow, 1), take(1, three, 1)}, []State{{At: now, Used: 3}, {At: now, Used: 1}}, false},
		{"one quota of two over", []State{{At: now, Used: 3}, {}}, []hit{take(0, quota, 1), take(1, quota, 1)}, []State{{At: now, Used: 3}, {At: now, Used: 1}}, false},
		{
			"both quotas over",
			[]State{{At: now, Used: 3}, {At: now, Used: 2}, {At: now, Used: 1}},
			[]hit{take(0, quota, 1), take(1, quota, 2), take(2, shadow, 1)},
			[]State{{At: now, Used: 3}, {At: now, Used: 2}, {At: now, Used: 1}},
			true,
		},
		{
			"always and refund beside a denial",
			[]State{{At: now, Used: 3}, {At: now - 1, Used: 3}, {At: now, Used: 2}},
			[]hit{take(0, three, 1), always(1, 2), refund(2, 1)},
			[]State{{At: now, Used: 3}, {At: now, Used: 2}, {At: now, Used: 1}},
			true,
		},
		{
			"a peek charged always beside a denial in a new window",
			[]State{{At: now - 1, Used: 3}, {At: now, Used: 3}},
			[]hit{always(0, 0), take(1, three, 1)},
			[]State{{At: now - 1, Used: 3}, {At: now, Used: 3}},
			true,
		},
		{
			"always, take and refund of one counter denied",
			[]State{{At: now, Used: 1}},
			[]hit{take(0, three, 2), refund(0, 1), always(0, 5), take(0, three, 1)},
			[]State{{At: now, Used: 5}},
			true,
		},
		{"refund after the clock stepped back", []State{{At: now + 1, Used: 2}}, []hit{refund(0, 5)}, []State{{At: now, Used: 0}}, false},
		{
			"refund beside a denial in a new window",
			[]State{{At: now - 1, Used: 3}, {At: now, Used: 3}},
			[]hit{refund(0, 1), take(1, three, 1)},
			[]State{{At: now, Used: 0}, {At: now, Used: 3}},
			true,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			after := slices.Clone(tc.before)
			var hits []Hit
			var states []*State
			for _, h := range tc.hits {
				hits = append(hits, h.hit)
				states = append(states, &after[h.counter])
			}
			if denied := Decide(hits, states, nil, at(0), make([]Decision, len(hits))); denied != tc.denied {
				t.Errorf("denied is %v, want %v", denied, tc.denied)
			}
			if !slices.Equal(after, tc.after) {
				t.Errorf("states are %v, want %v", after, tc.after)
			}
		})
	}
}

// Decide fills out whatever it held before.
func TestDecideOverwritesDecisions(t *testing.T) {
	out := []Decision{{Over: true, Charged: true, Used: 9, Remaining: 9, ResetAfter: 9, RetryAfter: 9}}
	denied := Decide([]Hit{{Limit: must(Spec{RequestsPerUnit: 1, Unit: Minute})}}, []*State{new(State)}, nil, at(0), out)
	if want := (Decision{Remaining: 1, ResetAfter: time.Minute}); denied || out[0] != want {
		t.Errorf("denied is %v, got %+v, want %+v", denied, out[0], want)
	}
}

func TestDecideAllocatesNothing(t *testing.T) {
	for _, n := range []int{1, 16} {
		hits, states, out := make([]Hit, n), make([]*State, n), make([]Decision, n)
		for i := range hits {
			hits[i] = Hit{Limit: must(Spec{RequestsPerUnit: 50, Unit: Minute}), Cost: 1}
			states[i] = new(State)
		}
		denials := 0
		allocs := testing.AllocsPerRun(100, func() {
			if Decide(hits, states, nil, at(0), out) {
				denials++
			}
		})
		if allocs != 0 || denials == 0 {
			t.Errorf("%d hits: %v allocations and %d denials, want none and some", n, allocs, denials)
		}
	}
}
