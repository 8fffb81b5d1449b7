package limiter

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// Algorithm is the method by which a limit counts. It is an index into algorithms.
type Algorithm uint8

const (
	// FixedWindow admits the amount in each window of one period. Windows follow each other from
	// 1970-01-01 00:00 UTC, so a window of one minute is a minute of the clock.
	FixedWindow Algorithm = iota
	// FirstHit is FixedWindow with windows that begin with the first hit after the last window
	// ended, so that clients do not all retry at the start of a minute.
	FirstHit
	// ByCalendar is FixedWindow with the windows of a Calendar.
	ByCalendar
	// SlidingWindow admits about the amount in any span of one period. It estimates the use of a
	// span from the current window and a share of the previous one.
	SlidingWindow
	// TokenBucket admits bursts up to the bucket's size. In each period, it refills by the
	// limit's amount (GCRA, the generic cell rate algorithm).
	TokenBucket
	// Concurrency limits the number of requests in flight. Each request takes a hold, which is
	// released when the request ends. A hold expires after one period.
	Concurrency
	// SlidingLog admits the amount in any span of one period. It keeps the time of each used unit.
	SlidingLog
)

// algorithms has a row for each algorithm. Tests fail if another part of an algorithm is missing:
// the script redis/wire/lua/<word>.lua, a row in storetest, an exact counter in the tests of this
// package, or a paragraph in docs.
var algorithms = [...]struct {
	word    string                        // name in rules
	letter  string                        // letter in keys; a fixed window has none, and a calendar has @
	options []Option                      // allowed options
	spacing spacing                       // spaces the retry times of denied requests, see RetrySpread
	new     func(*Spec) (counting, error) // returns the counting of a limit
}{
	FixedWindow:   {"fixed_window", "", []Option{ChargeOption, DenyForOption, NotifyOption, SettleOption}, byWindow, newFixedWindow},
	FirstHit:      {"first_hit", "f", []Option{ChargeOption, DenyForOption, NotifyOption, SettleOption}, byWindow, newFirstHit},
	ByCalendar:    {"calendar", "", []Option{TimeZoneOption, ChargeOption, DenyForOption, NotifyOption, SettleOption}, byWindow, newCalendarWindow},
	SlidingWindow: {"sliding_window", "s", []Option{ChargeOption, DenyForOption, SettleOption}, evenly, newSlidingWindow},
	TokenBucket:   {"token_bucket", "b", []Option{BurstOption, ChargeOption, DenyForOption, SettleOption}, evenly, newTokenBucket},
	Concurrency:   {"concurrency", "c", []Option{HoldOption}, atOnce, newConcurrency},
	SlidingLog:    {"sliding_log", "l", []Option{ChargeOption, DenyForOption}, evenly, newSlidingLog},
}

// AlgorithmNames lists the words for algorithms in rules, in the order of the constants.
func AlgorithmNames() []string {
	var names []string
	for a := range algorithms {
		names = append(names, algorithms[a].word)
	}
	return names
}

// String returns the word for a in rules.
func (a Algorithm) String() string { return algorithms[a].word }

// Takes reports whether limits that count by a may have the option. An undefined algorithm takes
// all options, so that only the algorithm is reported, not each option as well.
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
	NotifyOption   Option = "notify"
	SettleOption   Option = "settle"
)

// Algorithms returns the words of the algorithms that take the option, separated by commas.
func (o Option) Algorithms() string {
	var names []string
	for a := range algorithms {
		if Algorithm(a).Takes(o) {
			names = append(names, algorithms[a].word)
		}
	}
	return strings.Join(names, ", ")
}

// State is the stored state of a counter. Its zero value is an unused counter, which a store need
// not keep. The algorithm defines the meaning of each number except Until; all four are from 0 to
// MaxExact. The numbers do not depend on the limit's amount, so a counter keeps its use when the
// amount changes.
type State struct {
	At    int64 // number or start of the window, or the time of the bucket's level
	Used  int64 // units used in the window, or in the bucket
	Prev  int64 // units used in the previous window, or the fraction of a unit in the bucket
	Until int64 // end of the counter's ban in microseconds since the epoch, or 0 if it has none
}

// unused reports whether s has no use, not even expired use. An unused state may have a ban.
func (s State) unused() bool { return s.Used == 0 && s.Prev == 0 }

// MaxExact is the largest number up to which Lua represents all integers exactly. No number that a
// store computes in Lua may exceed MaxExact, see NewLimit.
const MaxExact = 1 << 53

// second is a second in microseconds.
const second = 1_000_000

// counting is an algorithm together with the numbers of one limit. Its methods are pure and ignore
// bans: add and giveBack keep State.Until, and Limit.roll overwrites the Until that roll returns.
// All times are in microseconds; now is since the epoch. Costs are at most maxCost, see numbers.
//
// The package relies on three properties: an unused state has room for any cost up to Limit.Size;
// costs added one after the other use as much as their sum; a hit that does not fit leaves nothing
// in a state except a ban, unless the hit is always charged.
type counting interface {
	// roll returns s as it is at now. If the clock stepped back, s may be later than now. The use
	// in s then counts as use at now: none of it is lost, and none lasts longer than new use would.
	// The other methods take rolled states, unless stated otherwise.
	roll(s State, now int64) State
	// wait returns the time until cost fits if nothing else happens: 0 if cost fits now, never (-1)
	// if cost exceeds the limit, or a time to try again if the true time is unknown.
	wait(s State, now, cost int64) int64
	// add adds cost to the use, whether it fits or not. A negative cost is a refund, which never
	// lowers the use below 0.
	add(s State, cost int64) State
	// giveBack reverses the part of an earlier charge of cost that would still count in s if
	// nothing else had happened since. A negative cost adds to the charge. charged is the state
	// just after that charge, and remains is the state charged, rolled to now.
	giveBack(s, remains, charged State, cost int64) State
	// usage returns the used units, and the time from now until none is used. reset is also correct
	// if s is not rolled, and for any now.
	usage(s State, now int64) (used, reset int64)
	// numbers returns maxCost, which replaces all larger costs, and the arguments of the function
	// limit in the algorithm's Lua script.
	numbers() (maxCost int64, constants [4]int64)
}

const never = -1

// inexact returns the error for a limit that needs numbers above 2^53. The product of a time in
// microseconds and a large amount would exceed that, so Lua multiplies the whole seconds and the
// rest of the time separately. Limits are refused if even these products are too large.
func inexact(limit string) error {
	return fmt.Errorf("%s needs numbers above 2^53, which cannot be counted exactly; use a smaller amount, a shorter period or a fixed window", limit)
}

// roll is counting.roll, but sets Until to the end of the ban that applies to l. A ban in force
// stays. If the rest of a ban is longer than a new ban, because the clock stepped back or the limit
// had longer bans, roll shortens it to the length of a new ban.
func (l *Limit) roll(s State, now int64) State {
	rolled := l.counting.roll(s, now)
	rolled.Until = 0
	if l.DenyFor > 0 && s.Until > now {
		rolled.Until = min(s.Until, now+l.DenyFor.Microseconds())
	}
	return rolled
}

// leaveBan returns s, a rolled state that is about to be written, with the stored ban that ends at
// until, if that ban is in force. Otherwise a limit without bans would remove the ban.
func (s State) leaveBan(until, now int64) State {
	if s.Until == 0 && until > now {
		s.Until = until
	}
	return s
}

// wait is counting.wait, but also waits for the end of a ban.
func (l *Limit) wait(s State, now, cost int64) int64 {
	wait := l.counting.wait(s, now, cost)
	if s.Until > 0 && wait != never {
		wait = max(wait, s.Until-now)
	}
	return wait
}

// Expiry returns the time at which a counter in state s becomes unused, in microseconds since the
// epoch, or 0 if the counter is unused.
func (l *Limit) Expiry(s State) int64 {
	if s.unused() {
		return s.Until
	}
	_, reset := l.counting.usage(s, 0)
	return max(reset, s.Until)
}

// GiveBack reverses a charge of cost on a counter in state s, for a store that learns only after
// the charge that the request is denied. charged is the state just after the charge.
//
// It removes the part of the charge that would still count if nothing else had happened since, so a
// late call never removes the use of other requests. This is exact for windows. If a bucket was
// empty between the charge and now, GiveBack may remove too little, by the units that drained since
// the charge, but never too much. If s or charged is later than now, GiveBack returns s: the clock
// stepped back, and the age of the charge is unknown. A ban stays.
func (l *Limit) GiveBack(s, charged State, cost, now int64) State {
	rolled, remains := l.roll(s, now), l.roll(charged, now)
	if rolled.At < s.At || remains.At < charged.At {
		return s
	}
	return l.counting.giveBack(rolled.leaveBan(s.Until, now), remains, charged, cost)
}

// settle replaces the reserved units in record by cost, in the reservation's window or, in a
// bucket, at now. s must be rolled. If record is later than now, settle changes no use, like
// GiveBack.
func (l *Limit) settle(s, record State, cost, now int64) State {
	remains := l.Record().roll(record, now)
	if remains.At < record.At {
		return l.counting.add(s, 0)
	}
	return l.counting.giveBack(s, remains, record, record.Used-cost)
}

// Record returns the limit that determines when the records of reservations expire. It is l itself,
// so a record lasts as long as its window, unless l is a bucket. A bucket may drain before an
// answer ends, so its records last at least an hour.
func (l *Limit) Record() *Limit { return cmp.Or(l.record, l) }

// Constants returns the constants of the limit, for a store that counts in Lua. For a limit with a
// Calendar, the store also needs the windows around now.
func (l *Limit) Constants() [4]int64 {
	_, constants := l.counting.numbers()
	return constants
}

// Calendar returns the calendar of the windows, or nil if the constants determine the windows.
func (l *Limit) Calendar() *Calendar {
	w, _ := l.counting.(fixedWindow)
	return w.calendar
}

// mulDiv returns a*b/c rounded down, and the remainder. No argument may be negative, and the
// quotient must be below 2^63; the product may be larger.
func mulDiv(a, b, c int64) (quotient, remainder int64) {
	high, low := bits.Mul64(uint64(a), uint64(b))
	q, r := bits.Div64(high, low, uint64(c))
	return int64(q), int64(r)
}

// ceilDiv returns a/b rounded up, for a >= 0 and b > 0.
func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
