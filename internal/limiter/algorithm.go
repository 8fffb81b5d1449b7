package limiter

import (
	"fmt"
	"math/bits"
	"time"
)

// Algorithm says how a limit counts.
type Algorithm uint8

const (
	// FixedWindow admits the amount in each window of one period.
	FixedWindow Algorithm = iota
	// SlidingWindow admits the amount in about any span of one period: it
	// estimates the span's use from the current window and a share of the
	// previous one.
	SlidingWindow
	// TokenBucket admits bursts up to the bucket's size and refills it at the
	// amount per period (GCRA, the generic cell rate algorithm).
	TokenBucket
)

// State is what a store keeps of a counter. Its zero value is an unused one, as
// good as none at all. What the numbers mean is the algorithm's; none exceeds
// MaxExact or is negative. It does not depend on the limit's amount, so that a
// changed amount keeps what is used.
type State struct {
	At   int64 // which window it is, or when the bucket was like this
	Used int64 // units used in the window, or in the bucket
	Prev int64 // units used in the previous window, or the parts of one more unit in the bucket
}

// unused tells whether s holds nothing, whatever its time.
func (s State) unused() bool { return s.Used == 0 && s.Prev == 0 }

// MaxExact is the largest range in which Lua's numbers count exactly. A store
// that counts in Lua must be able to stay below it, see NewLimit.
const MaxExact = 1 << 53

// second is the number of microseconds in a second.
const second = 1_000_000

// meter is an algorithm with the numbers of one limit. It is pure; now and all
// spans are in microseconds, now since the epoch. Costs are at least 0 and at
// most what meter.most tells.
type meter interface {
	// roll brings a state up to now, or back to now. The other functions take
	// rolled states only.
	roll(s State, now int64) State
	// back is roll of a used state from after now, which a clock that then stepped
	// back has left. All that it holds counts as used now: so the step costs no more
	// than any use now would, and loses none of it. Whoever keeps the state must keep
	// what back returns, even of a denied request: else time would not pass for it.
	back(s State, now int64) State
	// fits tells whether cost more units stay within the limit.
	fits(s State, now, cost int64) bool
	// take uses cost units, whether they fit or not.
	take(s State, cost int64) State
	// give gives cost units back, down to an unused state.
	give(s State, cost int64) State
	// left tells what is used, what is free, and how long until all is.
	left(s State, now int64) (used, free, whole int64)
	// wait is how long until cost units fit if nothing else happens, 0 if they
	// do, never if no waiting helps. cost may be above most.
	wait(s State, now, cost int64) int64
	// queue is where cost more units, which fit a while from now, come after all that
	// was promised before them. ahead is how long after that while the last of these
	// come, below 0 if they do before; units is what comes together with it. It
	// returns the same with the cost.
	queue(ahead, units, cost int64) (int64, int64)
	// expiry is when the state will be as good as unused, 0 if it is. It takes
	// any state.
	expiry(s State) int64
	// most is the largest cost that is told apart from larger ones.
	most() int64
	// ample is the use below which one unit more fits, whatever the rest of the state.
	ample() int64
	// numbers are the algorithm's constants.
	numbers() (Kind, [4]int64)
}

const never = -1

// newMeter builds the meter of a limit. All times are in microseconds, whose
// products with large amounts exceed 2^53. Lua multiplies the seconds of a time
// and what is left of it one after the other, so that only the products with
// whole seconds must be exact: limits of which even those are too large are
// refused.
func newMeter(s *Spec) (m meter, err error) {
	period, amount, burst := s.Period().Microseconds(), int64(s.RequestsPerUnit), int64(s.Size())
	what := fmt.Sprintf("%d per %s", amount, s.per())
	if s.Algorithm == TokenBucket {
		what = fmt.Sprintf("a bucket of %d that refills at %s", burst, what)
		if refillsTooSlowly(s) {
			return nil, fmt.Errorf("%s takes too long, at most 100 years are allowed", what)
		}
	}
	var exact bool
	switch s.Algorithm {
	case SlidingWindow:
		m, exact = newSlidingWindow(period, amount)
	case TokenBucket:
		m, exact = newTokenBucket(period, amount, burst)
	default:
		m, exact = newFixedWindow(period, amount, s.Anchor), true
	}
	if exact {
		return m, nil
	}
	return nil, fmt.Errorf("%s needs numbers above 2^53, which cannot be counted exactly; a smaller amount, a shorter period or a fixed window can", what)
}

// refillsTooSlowly tells whether an empty bucket needs more than MaxPeriod to
// be whole again. With a period's amount of debt it needs twice that at most,
// which a Duration can tell.
func refillsTooSlowly(s *Spec) bool {
	const longest = uint64(MaxPeriod / time.Second)
	return uint64(s.Size())*uint64(s.Period()/time.Second) > uint64(s.RequestsPerUnit)*longest
}

// Expiry is when the counter in state s will be as good as unused, in
// microseconds since the epoch; 0 if it is.
func (l *Limit) Expiry(s State) int64 { return l.meter.expiry(s) }

// DeniesUntil is until when a counter in state s denies one more unit if it is
// left alone, in microseconds since the epoch; 0 if it does not at now. It is 0,
// too, if an unused counter would deny as well: then the state changes nothing.
func (l *Limit) DeniesUntil(s State, now int64) int64 {
	if s.Used < l.ample {
		return 0 // as most do, and cheaper than to ask the meter
	}
	return l.deniesUntil(s, now)
}

func (l *Limit) deniesUntil(s State, now int64) int64 {
	if wait := l.meter.wait(l.meter.roll(s, now), now, 1); wait > 0 {
		return now + wait
	}
	return 0
}

// Numbers are the constants of a limit's algorithm, for a store that counts
// elsewhere.
type Numbers struct {
	Kind Kind
	Of   [4]int64 // see the constants of Kind; unused ones are 0
}

// Kind tells algorithms apart by how their states are read.
type Kind int64

// The kinds, and what Numbers.Of holds for each.
const (
	KindFixedWindow   Kind = iota // period, amount, grid
	KindSlidingWindow             // period, amount, simple
	KindTokenBucket               // period, amount, burst, divisor
)

// Numbers returns the constants of the limit's algorithm.
func (l *Limit) Numbers() Numbers {
	kind, of := l.meter.numbers()
	return Numbers{kind, of}
}

// mulDiv is a*b/c rounded down, and the remainder, for numbers of which none is
// negative and a quotient below 2^63. The product may be larger.
func mulDiv(a, b, c int64) (quotient, remainder int64) {
	high, low := bits.Mul64(uint64(a), uint64(b))
	q, r := bits.Div64(high, low, uint64(c))
	return int64(q), int64(r)
}

// ceilDiv is a/b rounded up, for a >= 0 and b > 0.
func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
