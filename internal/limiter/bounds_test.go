package limiter

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// bounded are limits whose bounds are tested: amounts that have no divisor in
// common with their period, some that refill in less than a microsecond.
var bounded = []Spec{
	{Unit: Minute, RequestsPerUnit: 7},
	{Unit: Month, RequestsPerUnit: 50_000_017},
	{Unit: Second, RequestsPerUnit: math.MaxUint32 - 4},
	{Unit: Month, RequestsPerUnit: MaxAmount - 27},
	{Unit: Minute, RequestsPerUnit: 7, Algorithm: FirstHit},
	{Unit: Minute, RequestsPerUnit: MaxAmount, Algorithm: FirstHit},
	{Unit: Month, RequestsPerUnit: 50_000_017, Algorithm: FirstHit},
	{Unit: Day, RequestsPerUnit: 7, Algorithm: ByCalendar, TimeZone: "Europe/Berlin"},
	{Unit: Month, RequestsPerUnit: 50_000_017, Algorithm: ByCalendar},
	{Unit: Year, RequestsPerUnit: 7, Algorithm: ByCalendar, TimeZone: "America/New_York"},
	{Unit: Minute, RequestsPerUnit: 7, Algorithm: SlidingWindow},
	{Unit: Day, RequestsPerUnit: 999_983, Algorithm: SlidingWindow},
	{Unit: Month, RequestsPerUnit: 50_000_017, Algorithm: SlidingWindow},
	{Unit: Second, RequestsPerUnit: math.MaxUint32 - 4, Algorithm: SlidingWindow},
	{Unit: Minute, RequestsPerUnit: 7, Algorithm: TokenBucket},
	{Unit: Month, RequestsPerUnit: 1001, Algorithm: TokenBucket},
	{Unit: Month, RequestsPerUnit: 50_000_017, Algorithm: TokenBucket, Burst: 10},
	{Unit: Year, RequestsPerUnit: 71_000_003, Algorithm: TokenBucket, Burst: 5},
	{Unit: Year, UnitMultiplier: 100, RequestsPerUnit: 999_983, Algorithm: TokenBucket},
	{Unit: Day, RequestsPerUnit: math.MaxUint32 - 4, Algorithm: TokenBucket, Burst: 3},
	{Unit: Second, RequestsPerUnit: math.MaxUint32 - 4, Algorithm: TokenBucket, Burst: 1},
	{Unit: Second, RequestsPerUnit: 9_007_199_253, Algorithm: TokenBucket, Burst: MaxAmount},
}

// TestBounds asks limits as greedily as it can, in bursts and at odd times, and
// holds what they admit in every span against what docs/algorithms.md promises,
// in exact numbers and to the microsecond.
func TestBounds(t *testing.T) {
	for _, spec := range bounded {
		t.Run(fmt.Sprintf("%s %d per %s burst %d", spec.Algorithm, spec.RequestsPerUnit, spec.Per(), spec.Burst), func(t *testing.T) {
			l := must(spec)
			for seed := range uint64(3) {
				checkBound(t, newRule(l), greedy(l, rand.New(rand.NewPCG(seed, 0))))
			}
		})
	}
}

// admission is what a limit admitted at a time.
type admission struct{ at, units int64 }

// greedy asks a fresh counter of l for some, for all that is free, or for more,
// again and again, and waits as long as it is told, for a moment, or for a while.
func greedy(l *Limit, r *rand.Rand) (admitted []admission) {
	s, now, out := new(State), at(0)+r.Int64N(l.Period().Microseconds()), make([]Decision, 1)
	ask := func(cost int64) Decision {
		Decide([]Hit{{Limit: l, Cost: uint64(cost)}}, []*State{s}, nil, now, out)
		if out[0].Charged {
			admitted = append(admitted, admission{now, cost})
		}
		return out[0]
	}
	for len(admitted) < 120 {
		free := ask(0).Remaining
		ask([]int64{1, free, free + 1, 1 + r.Int64N(free+1)}[r.IntN(4)])
		now += []int64{
			ask(0).RetryAfter.Microseconds(), ask(0).RetryAfter.Microseconds(), 1, r.Int64N(1000),
			r.Int64N(l.Period().Microseconds()), 0,
		}[r.IntN(6)]
	}
	return admitted
}

// checkBound checks the sum of every run of admissions.
func checkBound(t *testing.T, r *rule, admitted []admission) {
	t.Helper()
	for i := range admitted {
		units := new(big.Rat)
		for _, a := range admitted[i:] {
			span := a.at - admitted[i].at
			units = sum(units, rat(uint64(a.units)))
			if bound := r.bound(span); bound != nil && units.Cmp(bound) > 0 {
				t.Fatalf("%s units are admitted within %d µs, want at most %s", units.FloatString(0), span, bound.FloatString(3))
			}
		}
	}
}

// bound is the most that the documents allow within span, nil if they have none.
func (r *rule) bound(span int64) *big.Rat {
	refill := new(big.Rat).Mul(r.amount, big.NewRat(span, r.period))
	switch {
	case r.limit.Algorithm == TokenBucket:
		return sum(r.size, refill)
	case r.limit.Algorithm == SlidingWindow && span <= r.period:
		return sum(r.amount, refill)
	case r.limit.Algorithm == FirstHit && span < r.period:
		return difference(sum(r.amount, r.amount), rat(1))
	case (r.limit.Algorithm == FixedWindow || r.limit.Algorithm == ByCalendar) && span < r.period:
		return sum(r.amount, r.amount)
	}
	return nil
}

// A client that takes what is free as soon as it may gets just what a bucket
// promises: not a unit less, at any time.
func TestBucketsAdmitAllTheyPromise(t *testing.T) {
	for _, spec := range bounded {
		if spec.Algorithm != TokenBucket || spec.Burst == 1 { // which is whole again within a microsecond
			continue
		}
		l := must(spec)
		r, s, out := newRule(l), new(State), make([]Decision, 1)
		admitted, start := rat(0), at(0)
		for now, n := start, 0; n < 1000; n++ {
			Decide([]Hit{{Limit: l}}, []*State{s}, nil, now, out)
			free := uint64(out[0].Remaining)
			Decide([]Hit{{Limit: l, Cost: free}}, []*State{s}, nil, now, out)
			admitted = sum(admitted, rat(free))
			if want := floor(r.bound(now - start)); floor(admitted).Cmp(want) != 0 {
				t.Fatalf("%+v: %s units are admitted within %d µs, want %s", spec, floor(admitted), now-start, want)
			}
			Decide([]Hit{{Limit: l}}, []*State{s}, nil, now, out)
			now += out[0].RetryAfter.Microseconds()
		}
	}
}
