package storetest

import (
	"time"

	"weir/internal/limiter"
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
		{at: 0, hits: request(take("a", ofDay, 3)), want: decisions(left(midnight, charged(3, 0)))},
		{at: midnight - micro, hits: request(take("a", ofDay, 1)), want: decisions(left(micro, over(3, 0))), denied: true},
		{at: midnight, hits: request(take("a", ofDay, 1)), want: decisions(left(day, charged(1, 2)))},
		{at: midnight + 10*second, hits: request(refund("a", ofDay, 1), peek("a", ofDay)), want: decisions(left(day-10*second, charged(0, 3)), left(day-10*second, spared(0, 3)))},
	}},
	{"calendar: a day of 23 hours, and one of 25", []step{
		{at: spring, hits: request(take("a", ofDay, 3)), want: decisions(left(23*time.Hour, charged(3, 0)))},
		{at: spring + 22*time.Hour, hits: request(take("a", ofDay, 1)), want: decisions(left(time.Hour, over(3, 0))), denied: true},
		{at: spring + 23*time.Hour, hits: request(take("a", ofDay, 1)), want: decisions(left(day, charged(1, 2)))},
		{at: autumn + second, hits: request(take("a", ofDay, 3)), want: decisions(left(25*time.Hour-second, charged(3, 0)))},
		{at: autumn + 24*time.Hour, hits: request(take("a", ofDay, 1)), want: decisions(left(time.Hour, over(3, 0))), denied: true},
	}},
	{"calendar: a week ends on Sunday, a month on its last day", []step{
		{at: 0, hits: request(take("w", ofWeek, 3), take("m", ofMonth, 2)), want: decisions(left(monday, charged(3, 0)), left(february, charged(2, 1)))},
		{at: monday - 20*second, hits: request(take("w", ofWeek, 1)), want: decisions(left(20*second, over(3, 0))), denied: true},
		{at: monday, hits: request(take("w", ofWeek, 1), take("m", ofMonth, 1)), want: decisions(left(7*day, charged(1, 2)), left(february-monday, charged(3, 0)))},
		{at: february, hits: request(take("m", ofMonth, 3)), want: decisions(left(28*day, charged(3, 0)))},
		{at: february + 28*day, hits: request(take("m", ofMonth, 3)), want: decisions(left(31*day, charged(3, 0)))},
	}},
	{"calendar: hours of a zone that is three quarters of one away", []step{
		{at: 0, hits: request(take("a", ofHour, 3)), want: decisions(left(10*time.Minute+minuteLeft, charged(3, 0)))},
		{at: 10*time.Minute + minuteLeft, hits: request(take("a", ofHour, 3)), want: decisions(left(time.Hour, charged(3, 0)))},
	}},
	{"calendar: beside other limits, all or nothing", []step{
		{at: 0, hits: request(take("a", ofDay, 2), take("b", three, 3)), want: decisions(left(midnight, charged(2, 1)), charged(3, 0))},
		{at: second, hits: request(take("a", ofDay, 1), take("b", three, 1)), want: decisions(left(midnight-second, spared(2, 1)), left(minuteLeft-second, over(3, 0))), denied: true},
		{at: 2 * second, hits: request(always("a", ofDay, 4), take("b", twenty, 1)), want: decisions(left(midnight-2*second, never(overCharged(6, 0))), left(30*second, spared(0, 20))), denied: true},
	}},
	{"calendar: the clock steps back, and is ahead for a moment", []step{
		{at: midnight, hits: request(take("a", ofDay, 2)), want: decisions(left(day, charged(2, 1)))},
		{at: 0, hits: request(take("a", ofDay, 1)), want: decisions(left(midnight, charged(3, 0)))},
		{at: 10 * second, hits: request(take("a", ofDay, 1)), want: decisions(left(midnight-10*second, over(3, 0))), denied: true},
		{at: 40 * day, hits: request(take("a", ofDay, 3)), want: decisions(left(midnight, charged(3, 0)))},
		{at: 20 * second, hits: request(take("a", ofDay, 1)), want: decisions(left(midnight-20*second, over(3, 0))), denied: true},
		{at: midnight, hits: request(take("a", ofDay, 1)), want: decisions(left(day, charged(1, 2)))},
	}},
}
