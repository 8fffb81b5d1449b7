package limiter

import (
	"testing"
	"time"
)

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
