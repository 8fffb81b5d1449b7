package limiter

import (
	"fmt"
	"math/big"
	"time"
)

// tokenBucket is the generic cell rate algorithm (GCRA, ITU-T I.371) as a leaky bucket: hits fill
// the bucket, and it drains at the amount per period. A hit is admitted if it does not overflow the
// bucket. So at most burst + amount*t/period is admitted in any span t. With the emission interval
// T = period/amount, the theoretical arrival time is At + level*T.
//
// A hit that is charged although it does not fit raises the level above the burst, at most to
// the brim: burst plus amount.
//
// State: At is the time of the level, in microseconds since the epoch; Used is the level's whole units, and
// Prev the parts of one more unit. A unit has as many parts as the period has microseconds. So the number of
// parts that drain in a microsecond is the amount, and all numbers are whole, for any amount.
type tokenBucket struct {
	period, amount, burst int64
	divisor               int64 // greatest common divisor of the amount and the period's seconds
}

// newTokenBucket fails if a refill takes longer than MaxPeriod, or if one of Lua's two products is
// inexact. One is the brim times the period's seconds divided by the divisor. The other is the
// amount times the microseconds of a second, to which a remainder below the period is added.
func newTokenBucket(s *Spec) (counting, error) {
	seconds := int64(s.Period() / time.Second)
	amount := int64(max(s.RequestsPerUnit, 1)) // so that debt drains even if the limit is 0, which admits nothing because burst is 0, too
	b := tokenBucket{period: seconds * second, amount: amount, burst: int64(s.Size())}
	rate := big.NewRat(amount, seconds)
	b.divisor = amount / rate.Num().Int64()
	what := func() string { return fmt.Sprintf("a bucket of %d that refills at %s", b.burst, s.Rate()) }
	// With this check, even a bucket at the brim drains within twice MaxPeriod, which fits in a
	// Duration.
	if rate.Cmp(big.NewRat(b.burst, int64(MaxPeriod/time.Second))) < 0 {
		return nil, fmt.Errorf("%s takes too long to refill, at most 100 years are allowed", what())
	}
	if b.brim() > MaxExact/(seconds/b.divisor) || amount > (MaxExact-b.period)/second {
		return nil, inexact(what())
	}
	return b, nil
}

// brim returns the highest level, in units.
func (b tokenBucket) brim() int64 { return b.burst + b.amount }

// clamp lowers a level above the brim to the brim. Only a larger earlier amount can have left
// such a level.
func (b tokenBucket) clamp(s State) State {
	if s.Used >= b.brim() {
		s.Used, s.Prev = b.brim(), 0
	}
	return s
}

// level returns the level in units, rounded up.
func (b tokenBucket) level(s State) int64 {
	if s.Prev > 0 {
		return s.Used + 1
	}
	return s.Used
}

// drainTime returns the time in which units and parts of one more unit drain. Both together are
// at most the brim.
func (b tokenBucket) drainTime(units, parts int64) int64 {
	time, rest := mulDiv(units, b.period, b.amount)
	return time + ceilDiv(rest+parts, b.amount)
}

// roll makes the level of a state that is later than now drain from now on. It does not lower that
// level to the brim, because another limit on the counter may have a larger amount.
func (b tokenBucket) roll(s State, now int64) State {
	elapsed := now - s.At
	if s.At = now; elapsed < 0 {
		return s
	}
	s = b.clamp(s)
	if elapsed >= b.drainTime(s.Used, s.Prev) {
		return State{At: now}
	}
	units, parts := mulDiv(b.amount, elapsed, b.period)
	return b.without(s, units, parts)
}

// without returns s with the level lowered by units and parts of one more unit, but not below 0.
func (b tokenBucket) without(s State, units, parts int64) State {
	s.Used, s.Prev = s.Used-units, s.Prev-parts
	if s.Prev < 0 {
		s.Used, s.Prev = s.Used-1, s.Prev+b.period
	}
	if s.Used < 0 {
		s.Used, s.Prev = 0, 0
	}
	return s
}

func (b tokenBucket) wait(s State, _, cost int64) int64 {
	switch {
	case cost > b.burst:
		return never
	case b.level(s)+cost <= b.burst:
		return 0
	default:
		s = b.clamp(s)
		return b.drainTime(s.Used+cost-b.burst, s.Prev)
	}
}

func (b tokenBucket) add(s State, cost int64) State {
	return b.clamp(b.without(b.clamp(s), -cost, 0))
}

// giveBack lowers the level by the cost, or by the rest of the charge if part of it has drained.
func (b tokenBucket) giveBack(s, remains, _ State, cost int64) State {
	if remains.Used >= cost {
		return b.add(s, -cost)
	}
	return b.without(s, remains.Used, remains.Prev)
}

func (b tokenBucket) usage(s State, now int64) (used, reset int64) {
	s = b.clamp(s)
	return b.level(s), max(s.At+b.drainTime(s.Used, s.Prev)-now, 0)
}

// numbers returns the brim as maxCost: a cost of the brim never fits but fills any bucket, and a
// refund of the brim empties any bucket.
func (b tokenBucket) numbers() (int64, [4]int64) {
	return b.brim(), [4]int64{b.period, b.amount, b.burst, b.divisor}
}
