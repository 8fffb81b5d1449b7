package limiter

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// Algorithm says how a limit counts. It is the number of a row of algorithms.
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
	// Concurrency admits the amount at once: each request takes a hold and gives it back
	// when it ends, or after a period by itself.
	Concurrency
)

// algorithms has a row for each algorithm. What else belongs to one has the name of
// its word, and tests fail that miss it: the script redis/lua/<word>.lua, a row
// in storetest, the exact counter of the judge in the tests here, a paragraph in docs.
var algorithms = [...]struct {
	word    string                        // in rules
	letter  string                        // in keys; one algorithm has none
	options []Option                      // that it takes
	new     func(*Spec) (counting, error) // how it counts, and gives back
}{
	FixedWindow:   {"fixed_window", "", []Option{AnchorOption, ChargeOption, DenyForOption}, newFixedWindow},
	SlidingWindow: {"sliding_window", "s", []Option{ChargeOption, DenyForOption}, newSlidingWindow},
	TokenBucket:   {"token_bucket", "b", []Option{BurstOption, ChargeOption, DenyForOption}, newTokenBucket},
	Concurrency:   {"concurrency", "c", []Option{HoldOption}, newConcurrency},
}

// AlgorithmNames lists the words that rules have for algorithms, in the order of the
// constants.
func AlgorithmNames() []string {
	var names []string
	for a := range algorithms {
		names = append(names, algorithms[a].word)
	}
	return names
}

// String returns the word for a in rules.
func (a Algorithm) String() string { return algorithms[a].word }

// Takes reports whether limits that count by a may have the option. Of an algorithm
// that is undefined nothing is wrong with its options.
func (a Algorithm) Takes(o Option) bool {
	return int(a) >= len(algorithms) || slices.Contains(algorithms[a].options, o)
}

// Option is a field of Spec that only some algorithms take, by its name in rules.
type Option string

// The options.
const (
	BurstOption   Option = "burst"
	AnchorOption  Option = "anchor"
	ChargeOption  Option = "charge"
	DenyForOption Option = "deny_for"
	HoldOption    Option = "hold"
)

// Algorithms returns the words for those that take the option.
func (o Option) Algorithms() string {
	var names []string
	for a := range algorithms {
		if Algorithm(a).Takes(o) {
			names = append(names, algorithms[a].word)
		}
	}
	return strings.Join(names, ", ")
}

// State is what a store keeps of a counter. Its zero value is an unused one, as
// good as none at all. What the numbers but the last mean is the algorithm's; none
// exceeds MaxExact or is negative. It does not depend on the limit's amount, so that a
// changed amount keeps what is used.
type State struct {
	At   int64 // which window it is, or when the bucket was like this
	Used int64 // units used in the window, or in the bucket
	Prev int64 // units used in the previous window, or the parts of one more unit in the bucket

	Until int64 // when the ban of the counter ends, in microseconds since the epoch; 0: there is none
}

// unused reports whether s holds nothing but a ban, whatever its time.
func (s State) unused() bool { return s.Used == 0 && s.Prev == 0 }

// MaxExact is the largest range in which Lua's numbers count exactly. A store
// that counts in Lua must be able to stay below it, see NewLimit.
const MaxExact = 1 << 53

// second is the number of microseconds in a second.
const second = 1_000_000

// counting is an algorithm with the numbers of one limit. It is pure; now and all
// spans are in microseconds, now since the epoch. Costs are at least 0 and at
// most what most returns.
//
// The rest of the package counts on three things: an unused state has used nothing and
// fits any cost up to Limit.Size; costs that are taken one after the other use what
// their sum would; a denied request leaves no trace in a state but a ban.
type counting interface {
	// roll brings a state up to now, or back to now, without its ban unless this is
	// banning. Where nothing else is said, the other functions take rolled states only.
	roll(s State, now int64) State
	// back is roll of a used state from after now, which a clock that then stepped
	// back has left. All that it holds counts as used now: so the step costs no more
	// than any use now would, and loses none of it. A store must keep what back
	// returns, even of a denied request: else time would not pass for it.
	back(s State, now int64) State
	// fits reports whether cost more units stay within the limit. It takes any state,
	// but of one that is not rolled it may report false although they do.
	fits(s State, now, cost int64) bool
	// take uses cost units, whether they fit or not.
	take(s State, cost int64) State
	// give gives cost units back, down to an unused state.
	give(s State, cost int64) State
	// giveBack gives back the part of a cost that was charged earlier that would still
	// count in s if nothing else had come since. charged is the state that the charge
	// left, then is charged as it was at that time, not rolled. It returns false if
	// nothing is left of it.
	giveBack(s, charged, then State, cost int64) (State, bool)
	// left returns what is used, and how long until the whole limit is free.
	left(s State, now int64) (used, whole int64)
	// wait is how long until cost units fit, which they do not now but in an unused
	// state, if nothing else happens; or, if nobody can know, when to try again.
	wait(s State, now, cost int64) int64
	// returnAfter puts a denied cost, which fits a while from now, behind all costs that
	// were denied earlier with a time to come back (see RetrySpread). ahead is how long after that
	// while the last of these come, below 0 if they come before; together is what comes
	// at the same time as the last. It returns the same with the cost.
	returnAfter(ahead, together, cost int64) (int64, int64)
	// expiry is when the state will be as good as unused, 0 if it is. It takes
	// any state.
	expiry(s State) int64
	// most is the largest cost that is distinguished from larger ones.
	most() int64
	// ample is the use below which one unit more fits, whatever the rest of the state.
	ample() int64
	// constants are what the function limit of the algorithm's script takes.
	constants() [4]int64
}

const never = -1

// inexact is the error of a limit that needs too large numbers. All times are in
// microseconds, whose products with large amounts exceed 2^53. Lua multiplies the
// seconds of a time and what is left of it one after the other, so that only the
// products with whole seconds must be exact: limits of which even those are too large
// are refused.
func inexact(limit string) error {
	return fmt.Errorf("%s needs numbers above 2^53, which cannot be counted exactly; a smaller amount, a shorter period or a fixed window can", limit)
}

// Expiry is when the counter in state s will be as good as unused, in
// microseconds since the epoch; 0 if it is.
func (l *Limit) Expiry(s State) int64 { return max(l.counting.expiry(s), s.Until) }

// DeniesUntil is until when a counter in state s denies one more unit if it is
// left alone, in microseconds since the epoch; 0 if it does not at now. It is 0,
// too, if an unused counter would deny as well: then the state changes nothing.
func (l *Limit) DeniesUntil(s State, now int64) int64 {
	if s.Used < l.ample {
		return 0 // as most do, and cheaper than to ask the algorithm
	}
	return l.deniesUntil(s, now)
}

func (l *Limit) deniesUntil(s State, now int64) int64 {
	if wait := l.wait(l.counting.roll(s, now), now, 1); wait > 0 {
		return now + wait
	}
	return 0
}

// wait is how long until cost units fit in a rolled state if nothing else happens, 0 if
// they do, never if no waiting helps.
func (l *Limit) wait(s State, now, cost int64) int64 {
	switch {
	case cost > int64(l.Size()):
		return never
	case l.counting.fits(s, now, cost):
		return 0
	default:
		return l.counting.wait(s, now, cost)
	}
}

// GiveBack takes a charge back from a counter, as if it had never been made: for
// a store that learns only after a charge that the request is denied.
//
// s is the state of the counter, now the time in microseconds since the epoch.
// charged is the state that the charge of cost left when it was made. What of
// it would still count, if nothing else had come since, is given back: nothing
// once its window is over, from the previous window where a sliding window has
// moved on, of a bucket what it could not have drained. So a charge that comes
// back late never takes anything from others. It is exact for windows; from a
// bucket that ran dry meanwhile it may give back less, by what drained since the
// charge, but never more. Nothing is given back to a state from after now, or of such
// a charge: the clock stepped back, and nobody knows how long ago it was. A ban stays.
func (l *Limit) GiveBack(s, charged State, cost, now int64) State {
	rolled, left := l.counting.roll(s, now), l.counting.roll(charged, now)
	if rolled.At < s.At || left.At < charged.At {
		return s
	}
	if after, some := l.counting.giveBack(rolled, left, charged, cost); some {
		return after
	}
	return s
}

// Constants returns the numbers of the limit's algorithm, for a store that counts
// elsewhere. To those of a limit with a Calendar belong the windows around now.
func (l *Limit) Constants() [4]int64 { return l.counting.constants() }

// Calendar returns the calendar whose windows the limit has, nil if they follow from its
// constants.
func (l *Limit) Calendar() *Calendar { return l.calendar }

// mulDiv is a*b/c rounded down, and the remainder, for numbers of which none is
// negative and a quotient below 2^63. The product may be larger.
func mulDiv(a, b, c int64) (quotient, remainder int64) {
	high, low := bits.Mul64(uint64(a), uint64(b))
	q, r := bits.Div64(high, low, uint64(c))
	return int64(q), int64(r)
}

// ceilDiv is a/b rounded up, for a >= 0 and b > 0.
func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

// returnEvenly is returnAfter of what drains at the amount per period.
func returnEvenly(ahead, cost, period, amount int64) (int64, int64) {
	time, rest := mulDiv(cost, period, amount)
	time += min(rest, 1)
	if ahead < -max(time/2, clockTolerance) {
		return 0, 0 // all have come
	}
	return max(ahead, 0) + time, 0
}

// clockTolerance is by how much two readings of the same time may differ, in
// microseconds: the store and RetrySpread read their clocks one after the other.
const clockTolerance = 1000
