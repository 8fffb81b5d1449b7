package limiter

import (
	"fmt"
	"testing"
	"time"
)

// onCounters returns n hits, in turn on so many counters.
func onCounters(n, counters int, l *Limit) []Hit {
	hits := make([]Hit, n)
	for i := range hits {
		hits[i] = Hit{Limit: l, Key: fmt.Appendf(nil, "w1|api|user=%07d|60", i%counters), Cost: 1}
	}
	return hits
}

func TestFirsts(t *testing.T) {
	l := must(Spec{RequestsPerUnit: 1, Unit: Minute})
	for _, n := range []int{1, few, few + 1, 1000} {
		for _, counters := range []int{1, 2, 5, n} {
			for i, got := range Firsts(onCounters(n, counters, l), nil) {
				if want := i % counters; got != want {
					t.Fatalf("%d hits on %d counters: the first on that of hit %d is %d, want %d", n, counters, i, got, want)
				}
			}
		}
	}
}

// What a denied request must wait for is the same however many hits it has
// beside, and whichever way they are summed up.
func TestDescribeManyHits(t *testing.T) {
	l := must(Spec{RequestsPerUnit: 60, Unit: Minute, Algorithm: TokenBucket})
	for _, beside := range []int{0, few - 3, few - 2, 1000} {
		hits := onCounters(3, 1, l)
		for i := range beside {
			hits = append(hits, Hit{Limit: l, Key: fmt.Append(nil, i), Cost: 1})
		}
		states, out := make([]State, len(hits)), make([]Decision, len(hits))
		for i := range states {
			states[i], out[i] = State{At: at(0), Used: 60}, Decision{Over: true}
		}
		Describe(hits, states, at(0), out)
		for i, d := range out {
			want := time.Second
			if i < 3 { // three units for the three of them
				want = 3 * time.Second
			}
			if d.RetryAfter != want {
				t.Fatalf("%d hits: hit %d is to wait %v, want %v", len(hits), i, d.RetryAfter, want)
			}
		}
	}
}
