package limiter

import (
	"fmt"
	"math/big"
	"time"
)

// tokenBucket is the generic cell rate algorithm (GCRA, ITU-T I.371): a bucket
// that hits fill and time drains, at the amount per period. A hit is admitted
// if the bucket does not overflow with it. So a burst is at most the bucket's
// size, and what is admitted in any span t is at most burst + amount*t/period.
//
// A hit that is charged although it does not fit raises the level above the
// size, up to the brim: a period's amount of debt.
//
// State: At is when the bucket was seen last, in microseconds since the epoch,
// Used the units that it held then and Prev the parts of one more. A unit has as
// many parts as the period has microseconds, so that one microsecond drains as
// many parts as the amount is: all is in whole numbers, whatever the amount.
type tokenBucket struct {
	period, amount, burst int64
	divisor               int64 // the largest that the amount and the period's seconds have in common
}

// newTokenBucket fails unless all products can be exact. One is what a bucket at the
// brim loses until it is empty, in units times seconds, with amount and period divided
// by their divisor. The other is that of the amount and the microseconds of one second,
// to which a remainder below the period is added.
func newTokenBucket(s *Spec) (counting, error) {
	seconds := int64(s.Period() / time.Second)
	amount := int64(max(s.RequestsPerUnit, 1)) // without it, burst is 0 as well: nothing fits, but debt drains
	b := tokenBucket{period: seconds * second, amount: amount, burst: int64(s.Size())}
	rate := big.NewRat(amount, seconds)
	b.divisor = amount / rate.Num().Int64()
	what := func() string { return fmt.Sprintf("a bucket of %d that refills at %s", b.burst, s.Rate()) }
	// A Duration can hold twice MaxPeriod, in which the debt of a period refills, too.
	if rate.Cmp(big.NewRat(b.burst, int64(MaxPeriod/time.Second))) < 0 {
		return nil, fmt.Errorf("%s takes too long to refill, at most 100 years are allowed", what())
	}
	if b.brim() > MaxExact/(seconds/b.divisor) || amount > (MaxExact-b.period)/second {
		return nil, inexact(what())
	}
	return b, nil
}

// brim is the highest level that is counted, in units.
func (b tokenBucket) brim() int64 { return b.burst + b.amount }

// clamp lowers a level to the brim, above which only a larger amount can have left it.
func (b tokenBucket) clamp(s State) State {
	if s.Used >= b.brim() {
		s.Used, s.Prev = b.brim(), 0
	}
	return s
}

// level is in units, rounded up.
func (b tokenBucket) level(s State) int64 {
	if s.Prev > 0 {
		return s.Used + 1
	}
	return s.Used
}

// drainTime is how long it takes to lose units and some parts of one more. They
// are at most the brim.
func (b tokenBucket) drainTime(units, parts int64) int64 {
	time, rest := mulDiv(units, b.period, b.amount)
	return time + ceilDiv(rest+parts, b.amount)
}

// roll lets what is in a bucket from after now drain from now on. It does not lower that
// to the brim, which a limit of a larger amount may count on.
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

// without takes units and parts of one more off the level, down to an empty bucket.
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

// giveBack takes off the level that the charge has left, of which there is no whole
// cost any more where some has drained.
func (b tokenBucket) giveBack(s, charged, _ State, cost int64) State {
	if charged.Used >= cost {
		return b.add(s, -cost)
	}
	return b.without(s, charged.Used, charged.Prev)
}

func (b tokenBucket) usage(s State, now int64) (used, whole int64) {
	s = b.clamp(s)
	return b.level(s), max(s.At+b.drainTime(s.Used, s.Prev)-now, 0)
}

// numbers: the most fills the emptiest bucket to the brim, empties the fullest, and fits none.
func (b tokenBucket) numbers() (int64, [4]int64) {
	return b.brim(), [4]int64{b.period, b.amount, b.burst, b.divisor}
}
