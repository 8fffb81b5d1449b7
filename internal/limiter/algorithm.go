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
	// FixedWindow admits the amount in each window of one period. Windows follow each
	// other from 1970-01-01 00:00 UTC: full seconds, full minutes.
	FixedWindow Algorithm = iota
	// FirstHit is the same with windows that begin with the first hit after the last one
	// ended, so that clients do not all return at the full minute.
	FirstHit
	// ByCalendar is the same with the windows of a Calendar.
	ByCalendar
	// SlidingWindow admits the amount in about any span of one period: it estimates the span's
	// use from the current window and a share of the previous one.
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
	letter  string                        // in keys; a fixed window has none, a calendar an @
	options []Option                      // that it takes
	returns returning                     // when those who are denied can come back, see RetrySpread
	new     func(*Spec) (counting, error) // how it counts, and gives back
}{
	FixedWindow:   {"fixed_window", "", []Option{ChargeOption, DenyForOption}, byWindow, newFixedWindow},
	FirstHit:      {"first_hit", "f", []Option{ChargeOption, DenyForOption}, byWindow, newFirstHit},
	ByCalendar:    {"calendar", "", []Option{TimeZoneOption, ChargeOption, DenyForOption}, byWindow, newCalendarWindow},
	SlidingWindow: {"sliding_window", "s", []Option{ChargeOption, DenyForOption}, evenly, newSlidingWindow},
	TokenBucket:   {"token_bucket", "b", []Option{BurstOption, ChargeOption, DenyForOption}, evenly, newTokenBucket},
	Concurrency:   {"concurrency", "c", []Option{HoldOption}, atOnce, newConcurrency},
}

// AlgorithmNames lists the words that rules have for algorithms, in the order of the constants.
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
	BurstOption    Option = "burst"
	TimeZoneOption Option = "time_zone"
	ChargeOption   Option = "charge"
	DenyForOption  Option = "deny_for"
	HoldOption     Option = "hold"
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
	At    int64 // which window it is, or when the bucket was like this
	Used  int64 // units used in the window, or in the bucket
	Prev  int64 // units used in the previous window, or the parts of one more unit in the bucket
	Until int64 // when the ban of the counter ends, in microseconds since the epoch; 0: there is none
}

// unused reports whether s holds nothing but a ban, whatever its time.
func (s State) unused() bool { return s.Used == 0 && s.Prev == 0 }

// MaxExact is the largest range in which Lua's numbers count exactly. A store
// that counts in Lua must be able to stay below it, see NewLimit.
const MaxExact = 1 << 53

// second is the number of microseconds in a second.
const second = 1_000_000

// counting is an algorithm with the numbers of one limit. It is pure, and knows nothing of
// bans: add and giveBack keep State.Until, and what roll leaves in it is void, because
// Limit.roll sets it. now and all spans are in microseconds, now since the epoch. Costs are
// at most the most of numbers.
//
// The rest of the package counts on three things: an unused state has used nothing and
// fits any cost up to Limit.Size; costs that are taken one after the other use what
// their sum would; a denied request leaves no trace in a state but a ban.
type counting interface {
	// roll brings a state up to now. If the clock stepped back, a state may be from the future.
	// What it holds counts as used now: so the step costs no more than any use now would, and
	// loses none of it. The other functions take rolled states only.
	roll(s State, now int64) State
	// wait is how long until cost more units are within the limit if nothing else happens: 0 if
	// they are now, never if they are too many. Where nobody can know, it is when to try again.
	wait(s State, now, cost int64) int64
	// add uses cost units, whether they fit or not. Below 0 it gives so many back, down to
	// an unused state.
	add(s State, cost int64) State
	// giveBack gives back the part of a cost that was charged earlier that would still
	// count in s if nothing else had come since. charged is the state that the charge
	// left, then is charged as it was at that time, not rolled.
	giveBack(s, charged, then State, cost int64) State
	// usage returns what is used, and how long until the whole limit is free. The second
	// is right for states that are not rolled, too, at any time.
	usage(s State, now int64) (used, whole int64)
	// numbers returns the largest cost that is distinguished from larger ones, and what the
	// function limit of the algorithm's script takes.
	numbers() (most int64, constants [4]int64)
}

const never = -1

// inexact is the error of a limit that needs too large numbers. The products of microseconds
// with large amounts exceed 2^53. Lua multiplies the seconds of a time and what is left of it
// one after the other, so that only the products with whole seconds must be exact: limits of
// which even those are too large are refused.
func inexact(limit string) error {
	return fmt.Errorf("%s needs numbers above 2^53, which cannot be counted exactly; use a smaller amount, a shorter period or a fixed window", limit)
}

// roll is counting.roll, with the ban that applies to l. It keeps one that is in force. A ban
// that would outlast a new one is shortened: the clock has stepped back, or the limit had
// longer bans.
func (l *Limit) roll(s State, now int64) State {
	rolled := l.counting.roll(s, now)
	rolled.Until = 0
	if l.DenyFor > 0 && s.Until > now {
		rolled.Until = min(s.Until, now+l.DenyFor.Microseconds())
	}
	return rolled
}

// leaveBan returns s, a rolled state that is to be written, with the ban that the counter has
// until a time, if that is in force and does not apply to a limit without bans.
func (s State) leaveBan(until, now int64) State {
	if s.Until == 0 && until > now {
		s.Until = until
	}
	return s
}

// wait is counting.wait, of a state that may be banned.
func (l *Limit) wait(s State, now, cost int64) int64 {
	wait := l.counting.wait(s, now, cost)
	if s.Until > 0 && wait != never {
		wait = max(wait, s.Until-now)
	}
	return wait
}

// Expiry is when the counter in state s will be as good as unused, in
// microseconds since the epoch; 0 if it is.
func (l *Limit) Expiry(s State) int64 {
	if s.unused() {
		return s.Until
	}
	_, whole := l.counting.usage(s, 0)
	return max(whole, s.Until)
}

// GiveBack takes a charge back from a counter in state s, as if it had never been made: for
// a store that learns only after a charge that the request is denied. charged is the state
// that the charge of cost left when it was made.
//
// What of the charge would still count, if nothing else had come since, is given back. So one
// that comes back late never takes anything from others. It is exact for windows; from a
// bucket that ran dry meanwhile it may give back less, by what drained since the charge, but
// never more. Nothing is given back to a state from after now, or of such a charge: the clock
// stepped back, and nobody knows how long ago it was. A ban stays.
func (l *Limit) GiveBack(s, charged State, cost, now int64) State {
	rolled, remains := l.roll(s, now), l.roll(charged, now)
	if rolled.At < s.At || remains.At < charged.At {
		return s
	}
	return l.counting.giveBack(rolled.leaveBan(s.Until, now), remains, charged, cost)
}

// Constants returns the numbers of the limit's algorithm, for a store that counts
// elsewhere. To those of a limit with a Calendar belong the windows around now.
func (l *Limit) Constants() [4]int64 {
	_, constants := l.counting.numbers()
	return constants
}

// Calendar returns the calendar of the windows, nil if they follow from the constants.
func (l *Limit) Calendar() *Calendar {
	w, _ := l.counting.(fixedWindow)
	return w.calendar
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
