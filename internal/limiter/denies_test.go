package limiter

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// DeniesUntil returns for any state, whatever amount it was counted with, what peeks
// return: over the limit until then, and not from then on.
func TestDeniesUntil(t *testing.T) {
	specs := []Spec{
		{Unit: Minute},
		{Unit: Minute, Anchor: FirstHit},
		{Unit: Minute, UnitMultiplier: 2, Anchor: ByCalendar, TimeZone: "Asia/Kathmandu"},
		{Unit: Minute, Algorithm: SlidingWindow},
		{Unit: Minute, Algorithm: TokenBucket},
		{Unit: Minute, Algorithm: TokenBucket, Burst: 3},
		{Unit: Minute, DenyFor: 90 * time.Second},
		{Unit: Minute, Algorithm: TokenBucket, DenyFor: 10 * time.Second},
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	peek := func(l *Limit, s State, now int64) Decision {
		out := make([]Decision, 1)
		Decide([]Hit{{Limit: l}}, []*State{&s}, now, out)
		return out[0]
	}
	for _, spec := range specs {
		denied := 0
		for range 2000 {
			spec.RequestsPerUnit = 1 + random.Uint64N(10)
			then := must(spec)
			spec.RequestsPerUnit = random.Uint64N(10)
			l, now := must(spec), at(time.Duration(random.Int64N(int64(10*time.Minute))))
			var s State
			for range random.IntN(4) { // some of them long ago
				h := Hit{Limit: then, Cost: random.Uint64N(8), Always: random.IntN(2) == 0}
				Decide([]Hit{h}, []*State{&s}, now-random.Int64N(3*60*second), make([]Decision, 1))
			}
			what := fmt.Sprintf("%+v after %+v at %d", s, spec, now)
			until, d := l.DeniesUntil(s, now), peek(l, s, now)
			switch {
			case spec.RequestsPerUnit == 0 || !d.Over:
				if until != 0 {
					t.Fatalf("%s: denies until %d, want that it does not: %+v", what, until, d)
				}
			case until <= now:
				t.Fatalf("%s: denies until %d, want later: %+v", what, until, d)
			case peek(l, s, until).Over || !peek(l, s, until-1).Over:
				t.Fatalf("%s: denies until %d: one unit is %+v then and %+v a microsecond before", what, until, peek(l, s, until), peek(l, s, until-1))
			default:
				denied++
			}
		}
		if denied == 0 {
			t.Errorf("%+v never denied", spec)
		}
	}
}
