package limiter

import (
	"math"
	"math/big"
	"testing"
	"time"
)

// extremes are limits of the smallest and largest numbers, and some between.
func extremes() []Spec {
	const prime = math.MaxUint32 - 4 // has no divisor in common with any period
	var specs []Spec
	for unit := Second; unit <= Year; unit++ {
		for _, multiplier := range []uint32{1, 7, uint32(MaxPeriod / unit.Duration())} {
			for _, amount := range []uint32{0, 1, 7, 1000, 1_000_000, 25_000_000, prime, math.MaxUint32} {
				s := Spec{RequestsPerUnit: amount, Unit: unit, UnitMultiplier: multiplier}
				specs = append(specs, s)
				s.Anchor = FirstHit
				specs = append(specs, s)
				s.Anchor, s.Algorithm = Epoch, SlidingWindow
				specs = append(specs, s)
				s.Algorithm = TokenBucket
				for _, burst := range []uint32{0, 1, 1000, prime, math.MaxUint32} {
					s.Burst = burst
					specs = append(specs, s)
				}
			}
		}
	}
	return specs
}

// No number that an algorithm comes to exceeds 2^53: up to there those of Lua
// are exact. Of the ticks in which that holds, a limit has the finest; it is
// refused only if there is none, or if a Duration could not tell its times.
func TestNumbersAreExact(t *testing.T) {
	accepted := map[int64]int{} // by tick
	for _, s := range extremes() {
		l, err := NewLimit(s)
		want := int64(0)
		for _, tick := range []int64{1_000_000, 1000, 1} {
			if largest(&s, tick).Cmp(big.NewInt(1<<53)) <= 0 && refill(&s) <= MaxPeriod {
				want = tick
			}
		}
		switch {
		case err != nil && want != 0:
			t.Errorf("%+v: %v, want it counted in %d µs", s, err, want)
		case err == nil && l.Numbers().Tick != want:
			t.Errorf("%+v: counted in %d µs, want %d (0: refused)", s, l.Numbers().Tick, want)
		case err == nil:
			accepted[want]++
			checkEnd(t, l)
		}
	}
	if len(accepted) != 3 {
		t.Errorf("limits are counted in %v, want some in each tick", accepted)
	}
}

// largest is the largest number that the limit comes to within a tick so long.
func largest(s *Spec, tick int64) *big.Int {
	product := func(a int64, bs ...int64) *big.Int {
		p := big.NewInt(a)
		for _, b := range bs {
			p.Mul(p, big.NewInt(b))
		}
		return p
	}
	period := s.Period().Microseconds() / tick
	amount := max(int64(s.RequestsPerUnit), 1)
	switch s.Algorithm {
	case SlidingWindow:
		// All counts up to twice the amount, and one, in the previous window, in the
		// current one and as a cost.
		return product(3, 2*amount+1, period)
	case TokenBucket:
		// The level at the brim, and a cost that is larger than it.
		divisor := new(big.Int).GCD(nil, nil, big.NewInt(amount), big.NewInt(period)).Int64()
		brim := int64(s.Size()) + amount
		return product(brim+brim+1, period/divisor)
	default:
		return product(2, 1<<52) // two counts
	}
}

// refill is how long an empty bucket refills.
func refill(s *Spec) time.Duration {
	if s.Algorithm != TokenBucket || s.RequestsPerUnit == 0 {
		return 0
	}
	micros := new(big.Int).Mul(big.NewInt(int64(s.Size())), big.NewInt(s.Period().Microseconds()))
	micros = ceil(new(big.Rat).SetFrac(micros, big.NewInt(int64(s.RequestsPerUnit))))
	if !micros.IsInt64() || micros.Int64() > math.MaxInt64/1000 {
		return math.MaxInt64
	}
	return time.Duration(micros.Int64()) * time.Microsecond
}

// checkEnd checks that a counter that holds all it can, for generations to
// come, ends at a time that Lua and a Duration can tell.
func checkEnd(t *testing.T, l *Limit) {
	t.Helper()
	now := time.Date(2110, time.January, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	full := l.meter.take(l.roll(State{}, now), l.meter.most())
	end := l.meter.expiry(full)
	if end >= 1<<53 || full.Used > 1<<53 || full.Prev > 1<<53 || full.Used < int64(l.Size()) {
		t.Errorf("%+v: %+v ends at tick %d", l.Spec, full, end)
	}
	var d Decision
	Describe([]Hit{{Limit: l, Cost: 1}}, 0, full, now, &d)
	if left := (l.Expiry(full) - now) * 1000; d.ResetAfter <= 0 || int64(d.ResetAfter) != left || d.ResetAfter > 2*MaxPeriod {
		t.Errorf("%+v: %+v is whole after %v, %d ns", l.Spec, full, d.ResetAfter, left)
	}
}

func TestTicks(t *testing.T) {
	for _, tc := range []struct {
		spec Spec
		want int64 // microseconds
	}{
		{Spec{Unit: Year, UnitMultiplier: 100, RequestsPerUnit: math.MaxUint32}, 1},
		{Spec{Unit: Minute, RequestsPerUnit: 25_019_997, Algorithm: SlidingWindow}, 1},
		{Spec{Unit: Minute, RequestsPerUnit: 25_019_998, Algorithm: SlidingWindow}, 1000},
		{Spec{Unit: Second, RequestsPerUnit: math.MaxUint32, Algorithm: SlidingWindow}, 1000},
		{Spec{Unit: Day, RequestsPerUnit: 1_000_000, Algorithm: SlidingWindow}, 1000},
		{Spec{Unit: Month, RequestsPerUnit: 1_000_000, Algorithm: SlidingWindow}, 1_000_000},
		{Spec{Unit: Minute, RequestsPerUnit: 10, Algorithm: TokenBucket}, 1},
		{Spec{Unit: Day, RequestsPerUnit: 1_000_000, Algorithm: TokenBucket}, 1}, // a unit in 86.4 ms
		{Spec{Unit: Day, RequestsPerUnit: 999_999, Algorithm: TokenBucket}, 1000},
		{Spec{Unit: Second, RequestsPerUnit: math.MaxUint32, Algorithm: TokenBucket}, 1},
		{Spec{Unit: Year, RequestsPerUnit: 70_000_001, Algorithm: TokenBucket}, 1_000_000},
	} {
		l, err := NewLimit(tc.spec)
		if err != nil {
			t.Errorf("%+v: %v", tc.spec, err)
		} else if got := l.Numbers().Tick; got != tc.want {
			t.Errorf("%+v: counted in %d µs, want %d", tc.spec, got, tc.want)
		}
	}
}
