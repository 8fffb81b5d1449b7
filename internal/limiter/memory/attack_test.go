package memory_test

import (
	"fmt"
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/limiter/memory"
	"weir/internal/limiter/storetest"
)

// An attack on a store of so many counters, here a hundredth of the default: a
// client that has used up its limit of 5 sends other values, to have its counter
// given up and start anew.
const (
	kept   = memory.DefaultMaxCounters / 100
	values = 5 * kept
)

// exhausted are limits of 5 per hour, by every algorithm.
var exhausted = map[string]limiter.Spec{
	"fixed window":   {},
	"first hit":      {Anchor: limiter.FirstHit},
	"sliding window": {Algorithm: limiter.SlidingWindow},
	"token bucket":   {Algorithm: limiter.TokenBucket},
}

// onExhausted calls attack for each algorithm, with a store on which the client
// has used up its limit, and with what it asks.
func onExhausted(t *testing.T, attack func(f *fixture, client limiter.Hit)) {
	for name, spec := range exhausted {
		spec.RequestsPerUnit, spec.Unit = 5, limiter.Hour
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, kept)
			f.set(10 * time.Minute)
			client := hit(storetest.Must(spec), 1, "client")
			for range 5 {
				f.ask(client, false)
			}
			f.ask(client, true)
			attack(f, client)
		})
	}
}

// ask asks and expects to be over the limit or not.
func (f *fixture) ask(h limiter.Hit, over bool) {
	f.Helper()
	if d := f.decide(h); d.Over != over {
		f.Fatalf("%s: over is %v, want %v: %+v", h.Key, d.Over, over, d)
	}
}

// However many distinct values are sent, an exhausted counter is not given up for
// counters that do not deny, whether their limit is of a longer period or of a
// shorter or the same one.
func TestDistinctValuesDoNotReset(t *testing.T) {
	for _, unit := range []limiter.Unit{limiter.Minute, limiter.Hour, limiter.Day} {
		t.Run(unit.String(), func(t *testing.T) {
			onExhausted(t, func(f *fixture, client limiter.Hit) {
				other := storetest.Must(limiter.Spec{RequestsPerUnit: 10, Unit: unit})
				for i := range values {
					f.decide(hit(other, 1, "value ", i))
				}
				f.ask(client, true)
			})
		})
	}
}

// Nor for counters that deny as it does but were asked for less often: those of a
// limit of 1 deny after a single request, and so do those of which a client asks
// for all units at once.
func TestValuesOverTheirLimitDoNotReset(t *testing.T) {
	for cost, amount := range map[uint64]uint64{1: 1, 1000: 1000} {
		t.Run(fmt.Sprint("of ", amount), func(t *testing.T) {
			onExhausted(t, func(f *fixture, client limiter.Hit) {
				other := storetest.Must(limiter.Spec{RequestsPerUnit: amount, Unit: limiter.Day})
				for i := range values {
					f.decide(hit(other, cost, "value ", i))
				}
				f.ask(client, true)
			})
		})
	}
}

// TestWhatAResetCosts is the attack that works, as docs/operations.md says: as
// many values as there are counters, each used up and asked for as often as the
// client's, by powers of two: 4 times for its 6.
func TestWhatAResetCosts(t *testing.T) {
	const each = 4
	for requests, over := range map[int]bool{each * kept * 9 / 10: true, each * kept * 2: false} {
		t.Run(fmt.Sprint("requests=", requests), func(t *testing.T) {
			onExhausted(t, func(f *fixture, client limiter.Hit) {
				other := storetest.Must(limiter.Spec{RequestsPerUnit: 1, Unit: limiter.Day})
				for i := range requests {
					f.decide(hit(other, 1, "value ", i/each))
				}
				f.ask(client, over)
			})
		})
	}
}

// Nor does a client keep its counter from being used up by values that it sends
// between its requests, once it was asked for twice.
func TestValuesBetweenRequests(t *testing.T) {
	for name, spec := range exhausted {
		for _, unit := range []limiter.Unit{limiter.Minute, limiter.Hour, limiter.Day} {
			t.Run(fmt.Sprint(name, " and per ", unit), func(t *testing.T) {
				spec.RequestsPerUnit, spec.Unit = 5, limiter.Hour
				f := newFixture(t, kept)
				f.set(10 * time.Minute)
				client, other := hit(storetest.Must(spec), 1, "client"), storetest.Must(limiter.Spec{RequestsPerUnit: 10, Unit: unit})
				f.ask(client, false)
				for i := range 4 {
					f.ask(client, false)
					for j := range 2 * kept {
						f.decide(hit(other, 1, "value ", i, " ", j))
					}
				}
				f.ask(client, true)
			})
		}
	}
}
