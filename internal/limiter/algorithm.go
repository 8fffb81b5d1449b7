package limiter

import "fmt"

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

// State is what a store keeps of a counter. Its zero value is an unused one.
// What the numbers mean is the algorithm's; none exceeds 2^53 or is negative.
type State struct {
	At   int64 // start of the window, or when the bucket is full; in ticks since the epoch
	Used int64 // units used in the window, or the bucket's remainder
	Prev int64 // units used in the previous window
}

// maxExact is the largest range in which Lua's numbers count exactly. No
// product or sum of an algorithm exceeds it.
const maxExact = 1 << 53

// meter is an algorithm with the numbers of one limit. It is pure; now and all
// spans are in ticks of the limit, now since the epoch. Costs are at least 0
// and at most what meter.most tells.
type meter interface {
	// roll brings a state up to now. The other functions take rolled states only.
	// Stored time never goes back: when the clock does, the newest time known stays.
	roll(s State, now int64) State
	// fits tells whether cost more units stay within the limit.
	fits(s State, now, cost int64) bool
	// take uses cost units, whether they fit or not.
	take(s State, now, cost int64) State
	// give gives cost units back, down to an unused state.
	give(s State, now, cost int64) State
	// left tells what is used, what is free, and how long until all is.
	left(s State, now int64) (used, free, whole int64)
	// wait is how long until cost units fit if nothing else happens, 0 if they
	// do, never if no waiting helps.
	wait(s State, now, cost int64) int64
	// expiry is when the state will be as good as unused; not after now if it is.
	expiry(s State) int64
	// most is the largest cost, and the largest number of used units, that is
	// told apart from larger ones.
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
	for _, tick = range ticks {
		period := s.Period().Microseconds() / tick
		switch s.Algorithm {
		case FixedWindow:
			return fixedWindow{period: period, amount: int64(s.RequestsPerUnit), firstHit: s.Anchor == FirstHit}, tick, nil
		case SlidingWindow:
			if w, ok := newSlidingWindow(period, int64(s.RequestsPerUnit)); ok {
				return w, tick, nil
			}
		case TokenBucket:
			if b, ok := newTokenBucket(period, int64(s.RequestsPerUnit), int64(s.burst())); ok {
				return b, tick, nil
			}
		}
	}
	return nil, 0, fmt.Errorf("%d per %v needs numbers above 2^53, which Redis scripts cannot count exactly; use a smaller amount, a shorter period or a fixed window",
		s.RequestsPerUnit, s.Period())
}

// roll brings s up to now, in microseconds since the epoch.
func (l *Limit) roll(s State, now int64) State { return l.meter.roll(s, now/l.tick) }

// Expiry is when the counter in state s will be as good as unused, in
// microseconds since the epoch.
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
	KindFixedWindow    Kind = iota // period, amount, most
	KindFirstHitWindow             // period, amount, most
	KindSlidingWindow              // period, amount, most
	KindTokenBucket                // price, drain, full, brim
)

// Numbers returns the constants of the limit's algorithm.
func (l *Limit) Numbers() Numbers {
	kind, of := l.meter.numbers()
	return Numbers{kind, l.tick, of}
}
