package limiter

import (
	"fmt"
	"math/bits"
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
	b := tokenBucket{seconds * second, amount, int64(s.Size()), gcd(seconds, amount)}
	what := func() string { return fmt.Sprintf("a bucket of %d that refills at %s", b.burst, s.Rate()) }
	// A Duration can hold twice MaxPeriod, in which the debt of a period refills, too.
	if less(amount, int64(MaxPeriod/time.Second), b.burst, seconds) {
		return nil, fmt.Errorf("%s takes too long, at most 100 years are allowed", what())
	}
	if b.brim() > MaxExact/(seconds/b.divisor) || amount > (MaxExact-b.period)/second {
		return nil, inexact(what())
	}
	return b, nil
}

// less reports whether a*b < c*d, for numbers of which none is negative.
func less(a, b, c, d int64) bool {
	high, low := bits.Mul64(uint64(a), uint64(b))
	otherHigh, otherLow := bits.Mul64(uint64(c), uint64(d))
	return high < otherHigh || high == otherHigh && low < otherLow
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// brim is the highest level that is counted, in units.
func (b tokenBucket) brim() int64 { return b.burst + b.amount }

// clamp lowers a level to the brim, above which only a larger amount can have
// left it.
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

func (b tokenBucket) roll(s State, now int64) State {
	s = b.clamp(s)
	elapsed := max(now-s.At, 0) // 0 if the clock stepped back, see back
	if elapsed >= b.drainTime(s.Used, s.Prev) {
		return State{At: now}
	}
	units, parts := mulDiv(b.amount, elapsed, b.period)
	s = State{At: now, Used: s.Used - units, Prev: s.Prev - parts}
	if s.Prev < 0 {
		s.Used, s.Prev = s.Used-1, s.Prev+b.period
	}
	return s
}

// back lets what is in the bucket drain from now on.
func (b tokenBucket) back(s State, now int64) State {
	s.At = min(s.At, now)
	return s
}

func (b tokenBucket) fits(s State, _, cost int64) bool { return b.level(s)+cost <= b.burst }

func (b tokenBucket) take(s State, cost int64) State {
	s.Used += cost
	return b.clamp(s)
}

func (b tokenBucket) give(s State, cost int64) State {
	if cost > s.Used {
		return State{At: s.At}
	}
	s.Used -= cost
	return s
}

// giveBack takes off the level that the charge has left, of which there is no whole
// cost any more where some has drained.
func (b tokenBucket) giveBack(s, charged, _ State, cost int64) (State, bool) {
	if charged.Used >= cost {
		return b.give(s, cost), true
	}
	after := State{At: s.At, Used: s.Used - charged.Used, Prev: s.Prev - charged.Prev}
	if after.Prev < 0 {
		after.Used, after.Prev = after.Used-1, after.Prev+b.period
	}
	if after.Used < 0 {
		return State{At: s.At}, true
	}
	return after, true
}

func (b tokenBucket) left(s State, now int64) (used, whole int64) {
	return b.level(s), max(b.expiry(s)-now, 0)
}

func (b tokenBucket) wait(s State, _, cost int64) int64 {
	return b.drainTime(s.Used+cost-b.burst, s.Prev)
}

// returnAfter of a bucket: it drains at the amount per period.
func (b tokenBucket) returnAfter(ahead, _, cost int64) (int64, int64) {
	return returnEvenly(ahead, cost, b.period, b.amount)
}

func (b tokenBucket) expiry(s State) int64 {
	if s.unused() {
		return 0
	}
	s = b.clamp(s)
	return s.At + b.drainTime(s.Used, s.Prev)
}

// most fills the emptiest bucket to the brim, empties the fullest, and fits none.
func (b tokenBucket) most() int64 { return b.brim() }

func (b tokenBucket) ample() int64 { return b.burst - 1 } // a part of a unit counts as one

func (b tokenBucket) constants() [4]int64 {
	return [4]int64{b.period, b.amount, b.burst, b.divisor}
}
