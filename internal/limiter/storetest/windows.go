package storetest

import (
	"fmt"
	"math"
	"time"

	"weir/internal/limiter"
)

// windowCases are lives of one counter through several windows.
var windowCases = []tableCase{
	{"a window ends with its last microsecond", []step{
		admits(0, request(take("a", three, 3)), charged(3, 0)),
		denies(minuteLeft-time.Microsecond, request(take("a", three, 1)), left(time.Microsecond, over(3, 0))),
		admits(minuteLeft, request(take("a", three, 1)), left(time.Minute, charged(1, 2))),
		admits(minuteLeft+time.Minute-time.Microsecond, request(take("a", three, 2)), left(time.Microsecond, charged(3, 0))),
		admits(minuteLeft+time.Minute, request(take("a", three, 3)), left(time.Minute, charged(3, 0))),
	}},
	{"a window is forgotten however many pass", []step{
		admits(0, request(take("a", three, 3)), charged(3, 0)),
		admits(minuteLeft+1000*time.Hour, request(take("a", three, 1)), left(time.Minute, charged(1, 2))),
	}},
}

// periodCases are every unit, and multiples of some, with the end of the window
// that start lies in. A week starts on a Thursday, as the epoch did; months of 30
// days and years of 365 have left the calendar since.
func periodCases() []tableCase {
	var cases []tableCase
	for _, p := range []struct {
		multiplier uint32
		unit       limiter.Unit
		end        time.Time
		period     time.Duration
	}{
		{0, limiter.Second, date(2026, 1, 2, 3, 4, 6), time.Second},
		{0, limiter.Minute, date(2026, 1, 2, 3, 5, 0), time.Minute},
		{0, limiter.Hour, date(2026, 1, 2, 4, 0, 0), time.Hour},
		{0, limiter.Day, date(2026, 1, 3, 0, 0, 0), 24 * time.Hour},
		{0, limiter.Week, date(2026, 1, 8, 0, 0, 0), 168 * time.Hour},
		{0, limiter.Month, date(2026, 1, 7, 0, 0, 0), 720 * time.Hour},
		{0, limiter.Year, date(2026, 12, 18, 0, 0, 0), 8760 * time.Hour},
		{1, limiter.Hour, date(2026, 1, 2, 4, 0, 0), time.Hour},
		{5, limiter.Second, date(2026, 1, 2, 3, 4, 10), 5 * time.Second},
		{10, limiter.Minute, date(2026, 1, 2, 3, 10, 0), 10 * time.Minute},
		{12, limiter.Hour, date(2026, 1, 2, 12, 0, 0), 12 * time.Hour},
		{2, limiter.Week, date(2026, 1, 15, 0, 0, 0), 336 * time.Hour},
		{100, limiter.Year, date(2069, 12, 7, 0, 0, 0), 876000 * time.Hour},
	} {
		spec := limiter.Spec{RequestsPerUnit: 3, Unit: p.unit, UnitMultiplier: p.multiplier}
		rest, name := p.end.Sub(start), fmt.Sprintf("a period of %d %ss", p.multiplier, p.unit)
		l := Must(spec)
		cases = append(cases, tableCase{name, []step{
			admits(0, request(take("a", l, 2)), left(rest, charged(2, 1))),
			admits(rest, request(take("a", l, 3)), left(p.period, charged(3, 0))),
		}})
		if p.period < 5*second { // too short for the following
			continue
		}
		spec.Algorithm = limiter.SlidingWindow
		s := Must(spec)
		spec.Algorithm = limiter.TokenBucket
		b := Must(spec)
		spec.Algorithm, spec.Anchor = limiter.FixedWindow, limiter.FirstHit
		f := Must(spec)
		third := (p.period/3 + micro - 1).Truncate(micro)
		cases = append(cases, tableCase{name + ", by every algorithm", []step{
			admits(0, request(take("s", s, 2)), told(rest+p.period, 0, charged(2, 1))),
			admits(0, request(take("b", b, 3)), told(p.period, 0, charged(3, 0))),
			denies(0, request(take("b", b, 1)), told(p.period, third, over(3, 0))),
			admits(0, request(take("f", f, 3)), told(p.period, 0, charged(3, 0))),
			admits(third, request(take("b", b, 1)), told(p.period, 0, charged(3, 0))),
			denies(third, request(take("f", f, 1)), told(p.period-third, p.period-third, over(3, 0))),
			admits(rest, request(take("s", s, 1)), told(2*p.period, 0, charged(3, 0))),
		}})
	}
	return cases
}

func date(year int, month time.Month, day, hour, minute, second int) time.Time {
	return time.Date(year, month, day, hour, minute, second, 0, time.UTC)
}

// amountCases are lives of one counter within one window.
var amountCases = []tableCase{
	{"used and remaining follow every hit", []step{
		admits(0, request(take("a", three, 1)), charged(1, 2)),
		admits(0, request(take("a", three, 1)), charged(2, 1)),
		admits(0, request(take("a", three, 1)), charged(3, 0)),
		denies(0, request(take("a", three, 1)), over(3, 0)),
		admits(0, request(take("b", three, 1)), charged(1, 2)),
	}},
	{"a limit of 0 never admits", []step{
		denies(0, request(take("a", enforced(0), 1)), never(over(0, 0))),
		denies(0, request(peek("a", enforced(0))), never(over(0, 0))),
	}},
	{"a cost above the limit never fits", []step{
		denies(0, request(take("a", three, 4)), never(over(0, 3))),
		admits(0, request(take("a", three, 1)), charged(1, 2)),
		denies(0, request(take("a", three, 4)), never(over(1, 2))),
	}},
	{"a cost of exactly the limit fits once", []step{
		admits(0, request(take("a", three, 3)), charged(3, 0)),
		denies(0, request(take("a", three, 3)), over(3, 0)),
	}},
	{"a cost above what remains takes nothing", []step{
		admits(0, request(take("a", three, 2)), charged(2, 1)),
		denies(0, request(take("a", three, 2)), over(2, 1)),
		admits(0, request(take("a", three, 1)), charged(3, 0)),
	}},
	{"a changed amount keeps the count", []step{
		admits(0, request(take("a", three, 3)), charged(3, 0)),
		admits(0, request(take("a", enforced(5), 1)), charged(4, 1)),
		denies(0, request(take("a", enforced(2), 1)), over(4, 0)),
	}},
}

// most is the largest limit. Costs and counters of windows end at
// maxCount, far above it.
var most = enforced(limiter.MaxAmount)

const maxCount = 1 << 52

var saturationCases = []tableCase{
	{"a large amount is counted to the last unit", []step{
		admits(0, request(take("a", most, limiter.MaxAmount-1)), charged(limiter.MaxAmount-1, 1)),
		denies(0, request(take("a", most, 2)), over(limiter.MaxAmount-1, 1)),
		admits(0, request(peek("a", most)), spared(limiter.MaxAmount-1, 1)),
		admits(0, request(take("a", most, 1)), charged(limiter.MaxAmount, 0)),
		denies(0, request(peek("a", most)), over(limiter.MaxAmount, 0)),
		admits(0, request(refund("a", most, 1<<49)), charged(1<<49, 1<<49)),
		admits(0, request(take("a", most, 1<<48), take("a", most, 1<<48)), charged(limiter.MaxAmount, 0), charged(limiter.MaxAmount, 0)),
		denies(0, request(take("a", enforced(1000), 1)), over(limiter.MaxAmount, 0)),
	}},
	{"costs and counters saturate", []step{
		admits(0, request(take("a", most, limiter.MaxAmount)), charged(limiter.MaxAmount, 0)),
		denies(0, request(take("a", most, 1<<63)), never(over(limiter.MaxAmount, 0))),
		denies(0, request(take("a", most, math.MaxUint64)), never(over(limiter.MaxAmount, 0))),
		denies(0, request(always("a", most, maxCount-1)), never(overCharged(maxCount, 0))),
		denies(0, request(always("a", most, 1)), overCharged(maxCount, 0)),
		denies(0, request(always("a", most, 1<<63), always("a", most, math.MaxUint64)), never(overCharged(maxCount, 0)), never(overCharged(maxCount, 0))),
		admits(0, request(refund("a", most, maxCount-5)), charged(5, limiter.MaxAmount-5)),
		admits(0, request(refund("a", most, math.MaxUint64)), charged(0, limiter.MaxAmount)),
		denies(0, request(always("a", most, maxCount-1)), never(overCharged(maxCount-1, 0))),
		denies(0, request(always("a", most, 2)), overCharged(maxCount, 0)),
	}},
}

// twenty admits 20 in 30 seconds from the first hit.
var twenty = Must(limiter.Spec{RequestsPerUnit: 20, Unit: limiter.Second, UnitMultiplier: 30, Anchor: limiter.FirstHit})

// firstHitCases are lives of a counter whose windows start with their first hit.
var firstHitCases = []tableCase{
	{"first hit: the window starts with it and is not extended", []step{
		admits(0, request(take("a", twenty, 1)), left(30*second, charged(1, 19))),
		admits(10*second, request(take("a", twenty, 19)), left(20*second, charged(20, 0))),
		denies(10*second, request(take("a", twenty, 1)), left(20*second, over(20, 0))),
		denies(29*second, request(take("a", twenty, 1)), left(second, over(20, 0))),
		denies(30*second-micro, request(peek("a", twenty)), left(micro, over(20, 0))),
		admits(30*second, request(take("a", twenty, 1)), left(30*second, charged(1, 19))),
		admits(45*second, request(peek("a", twenty)), left(15*second, spared(1, 19))),
	}},
	{"first hit: the next window waits for the next hit", []step{
		admits(0, request(take("a", twenty, 20)), left(30*second, charged(20, 0))),
		admits(100*second, request(peek("a", twenty)), left(30*second, spared(0, 20))),
		admits(107*second, request(take("a", twenty, 5)), left(30*second, charged(5, 15))),
		admits(120*second, request(peek("a", twenty)), left(17*second, spared(5, 15))),
	}},
	{"first hit: what takes nothing starts no window", []step{
		admits(0, request(peek("a", twenty)), left(30*second, spared(0, 20))),
		denies(1*second, request(take("a", twenty, 21)), never(left(30*second, over(0, 20)))),
		admits(2*second, request(refund("a", twenty, 3)), left(30*second, charged(0, 20))),
		denies(3*second, request(take("a", twenty, 1), take("b", enforced(0), 1)), left(30*second, spared(0, 20)), never(left(minuteLeft-3*second, over(0, 0)))),
		admits(4*second, request(take("a", twenty, 2)), left(30*second, charged(2, 18))),
		admits(5*second, request(peek("a", twenty)), left(29*second, spared(2, 18))),
	}},
	{"first hit: a refund of everything takes the window back", []step{
		admits(0, request(take("a", twenty, 2)), left(30*second, charged(2, 18))),
		admits(5*second, request(refund("a", twenty, 1)), left(25*second, charged(1, 19))),
		admits(6*second, request(refund("a", twenty, 1)), left(30*second, charged(0, 20))),
		admits(10*second, request(take("a", twenty, 20)), left(30*second, charged(20, 0))),
		denies(31*second, request(peek("a", twenty)), left(9*second, over(20, 0))),
	}},
	{"first hit: a charge that does not fit starts one", []step{
		denies(0, request(always("a", twenty, 25)), never(left(30*second, overCharged(25, 0)))),
		denies(10*second, request(always("a", twenty, 1)), left(20*second, overCharged(26, 0))),
		admits(30*second, request(always("a", twenty, 1)), left(30*second, charged(1, 19))),
	}},
	{"first hit: a changed amount keeps the count", []step{
		admits(0, request(take("a", twenty, 15)), left(30*second, charged(15, 5))),
		denies(second, request(peek("a", firstHit(10))), left(29*second, over(15, 0))),
		admits(second, request(take("a", firstHit(30), 15)), left(29*second, charged(30, 0))),
	}},
}

func firstHit(amount uint64) *limiter.Limit {
	return Must(limiter.Spec{RequestsPerUnit: amount, Unit: limiter.Second, UnitMultiplier: 30, Anchor: limiter.FirstHit})
}

const (
	second = time.Second
	micro  = time.Microsecond
)

// ofDay, ofWeek, ofMonth and ofHour admit three in windows of a calendar. The case starts on
// a Friday, 2026-01-02, at 04:04:05.678 in Berlin.
var (
	ofDay   = Must(limiter.Spec{RequestsPerUnit: 3, Unit: limiter.Day, Anchor: limiter.ByCalendar, TimeZone: "Europe/Berlin"})
	ofWeek  = Must(limiter.Spec{RequestsPerUnit: 3, Unit: limiter.Week, Anchor: limiter.ByCalendar, TimeZone: "Europe/Berlin"})
	ofMonth = Must(limiter.Spec{RequestsPerUnit: 3, Unit: limiter.Month, Anchor: limiter.ByCalendar})
	ofHour  = Must(limiter.Spec{RequestsPerUnit: 3, Unit: limiter.Hour, Anchor: limiter.ByCalendar, TimeZone: "Asia/Kathmandu"})
)

// after is how long after the start of a case a time is.
func after(t time.Time) time.Duration { return t.Sub(start) }

var (
	day      = 24 * time.Hour
	midnight = after(date(2026, 1, 2, 23, 0, 0)) // in Berlin
	monday   = after(date(2026, 1, 4, 23, 0, 0)) // in Berlin
	february = after(date(2026, 2, 1, 0, 0, 0))
	spring   = after(date(2026, 3, 28, 23, 0, 0)) // begin of the day of 23 hours in Berlin
	autumn   = after(date(2026, 10, 24, 22, 0, 0))
)

// calendarCases are lives of a counter through windows of a calendar.
var calendarCases = []tableCase{
	{"calendar: a day ends at midnight", []step{
		admits(0, request(take("a", ofDay, 3)), left(midnight, charged(3, 0))),
		denies(midnight-micro, request(take("a", ofDay, 1)), left(micro, over(3, 0))),
		admits(midnight, request(take("a", ofDay, 1)), left(day, charged(1, 2))),
		admits(midnight+10*second, request(refund("a", ofDay, 1), peek("a", ofDay)), left(day-10*second, charged(0, 3)), left(day-10*second, spared(0, 3))),
	}},
	{"calendar: a day of 23 hours, and one of 25", []step{
		admits(spring, request(take("a", ofDay, 3)), left(23*time.Hour, charged(3, 0))),
		denies(spring+22*time.Hour, request(take("a", ofDay, 1)), left(time.Hour, over(3, 0))),
		admits(spring+23*time.Hour, request(take("a", ofDay, 1)), left(day, charged(1, 2))),
		admits(autumn+second, request(take("a", ofDay, 3)), left(25*time.Hour-second, charged(3, 0))),
		denies(autumn+24*time.Hour, request(take("a", ofDay, 1)), left(time.Hour, over(3, 0))),
	}},
	{"calendar: a week ends on Sunday, a month on its last day", []step{
		admits(0, request(take("w", ofWeek, 3), take("m", ofMonth, 2)), left(monday, charged(3, 0)), left(february, charged(2, 1))),
		denies(monday-20*second, request(take("w", ofWeek, 1)), left(20*second, over(3, 0))),
		admits(monday, request(take("w", ofWeek, 1), take("m", ofMonth, 1)), left(7*day, charged(1, 2)), left(february-monday, charged(3, 0))),
		admits(february, request(take("m", ofMonth, 3)), left(28*day, charged(3, 0))),
		admits(february+28*day, request(take("m", ofMonth, 3)), left(31*day, charged(3, 0))),
	}},
	{"calendar: hours of a zone that is three quarters of one away", []step{
		admits(0, request(take("a", ofHour, 3)), left(10*time.Minute+minuteLeft, charged(3, 0))),
		admits(10*time.Minute+minuteLeft, request(take("a", ofHour, 3)), left(time.Hour, charged(3, 0))),
	}},
	{"calendar: beside other limits, all or nothing", []step{
		admits(0, request(take("a", ofDay, 2), take("b", three, 3)), left(midnight, charged(2, 1)), charged(3, 0)),
		denies(second, request(take("a", ofDay, 1), take("b", three, 1)), left(midnight-second, spared(2, 1)), left(minuteLeft-second, over(3, 0))),
		denies(2*second, request(always("a", ofDay, 4), take("b", twenty, 1)), left(midnight-2*second, never(overCharged(6, 0))), left(30*second, spared(0, 20))),
	}},
	{"calendar: the clock steps back, and is ahead for a moment", []step{
		admits(midnight, request(take("a", ofDay, 2)), left(day, charged(2, 1))),
		admits(0, request(take("a", ofDay, 1)), left(midnight, charged(3, 0))),
		denies(10*second, request(take("a", ofDay, 1)), left(midnight-10*second, over(3, 0))),
		admits(40*day, request(take("a", ofDay, 3)), left(midnight, charged(3, 0))),
		denies(20*second, request(take("a", ofDay, 1)), left(midnight-20*second, over(3, 0))),
		admits(midnight, request(take("a", ofDay, 1)), left(day, charged(1, 2))),
	}},
}
