package limiter

import (
	"fmt"
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
// 2^53 or is negative.
type State struct {
	At   int64 // which window it is, or when the bucket was like this
	Used int64 // units used in the window, or in the bucket
	Prev int64 // units used in the previous window, or the part of one more unit in the bucket
}

// unused tells whether s holds nothing, whatever its time.
func (s State) unused() bool { return s.Used == 0 && s.Prev == 0 }

// maxExact is the largest range in which Lua's numbers count exactly. No
// product or sum of an algorithm exceeds it.
const maxExact = 1 << 53

// meter is an algorithm with the numbers of one limit. It is pure; now and all
// spans are in ticks of the limit, now since the epoch. Costs are at least 0
// and at most what meter.most tells.
type meter interface {
	// roll brings a state up to now. The other functions take rolled states only.
	// Time never goes back for a used counter: when the clock does, the newest
	// time known stays.
	roll(s State, now int64) State
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
	// expiry is when the state will be as good as unused, 0 if it is. It takes
	// any state.
	expiry(s State) int64
	// most is the largest cost that is told apart from larger ones.
	most() int64
	// numbers are the algorithm's constants.
	numbers() (Kind, [4]int64)
}

const never = -1

// ticks are the units of time that limits count in, in microseconds, the finest first.
var ticks = [...]int64{1, 1000, 1_000_000}

// newMeter builds the meter of a limit in the finest tick in which all its
// products are exact.
func newMeter(s *Spec) (m meter, tick int64, err error) {
	amount, burst := int64(s.RequestsPerUnit), int64(s.Size())
	what := fmt.Sprintf("%d per %s", amount, s.per())
	if s.Algorithm == TokenBucket {
		what = fmt.Sprintf("a bucket of %d that refills at %s", burst, what)
		if refillsTooSlowly(s) {
			return nil, 0, fmt.Errorf("%s takes too long, at most 100 years are allowed", what)
		}
	}
	for _, tick = range ticks {
		period := s.Period().Microseconds() / tick
		var ok bool
		switch s.Algorithm {
		case SlidingWindow:
			m, ok = newSlidingWindow(period, amount)
		case TokenBucket:
			m, ok = newTokenBucket(period, amount, burst)
		default:
			m, ok = newFixedWindow(period, amount, s.Anchor), true
		}
		if ok {
			return m, tick, nil
		}
	}
	return nil, 0, fmt.Errorf("%s needs numbers above 2^53, which cannot be counted exactly; a smaller amount, a shorter period or a fixed window can", what)
}

// refillsTooSlowly tells whether an empty bucket needs more than MaxPeriod to
// be whole again. With a period's amount of debt it needs twice that at most,
// which a Duration can tell.
func refillsTooSlowly(s *Spec) bool {
	const longest = uint64(MaxPeriod / time.Second)
	return uint64(s.Size())*uint64(s.Period()/time.Second) > uint64(s.RequestsPerUnit)*longest
}

// roll brings s up to now, in microseconds since the epoch.
func (l *Limit) roll(s State, now int64) State { return l.meter.roll(s, now/l.tick) }

// Expiry is when the counter in state s will be as good as unused, in
// microseconds since the epoch; 0 if it is.
func (l *Limit) Expiry(s State) int64 { return l.meter.expiry(s) * l.tick }

// Numbers are the constants of a limit's algorithm, for a store that counts
// elsewhere.
type Numbers struct {
	Kind Kind
	Tick int64    // in microseconds; all other times are in ticks
	Of   [4]int64 // see the constants of Kind; unused ones are 0
}

// Kind tells algorithms apart by how their states are read.
type Kind int64

// The kinds, and what Numbers.Of holds for each.
const (
	KindFixedWindow   Kind = iota // period, amount, grid, most
	KindSlidingWindow             // period, amount, most
	KindTokenBucket               // price, drain, amount, burst
)

// Numbers returns the constants of the limit's algorithm.
func (l *Limit) Numbers() Numbers {
	kind, of := l.meter.numbers()
	return Numbers{kind, l.tick, of}
}

// ceilDiv is a/b rounded up, for a >= 0 and b > 0.
func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
