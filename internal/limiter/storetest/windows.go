package storetest

import (
	"fmt"
	"time"

	"weir/internal/limiter"
)

// windowCases are lives of one counter through several windows.
var windowCases = []tableCase{
	{"a window ends with its last microsecond", []step{
		{at: 0, hits: request(take("a", three, 3)), want: decisions(charged(3, 0))},
		{
			at: minuteLeft - time.Microsecond, hits: request(take("a", three, 1)), denied: true,
			want: decisions(left(time.Microsecond, over(3, 0))),
		},
		{
			at: minuteLeft, hits: request(take("a", three, 1)),
			want: decisions(left(time.Minute, charged(1, 2))),
		},
		{
			at: minuteLeft + time.Minute - time.Microsecond, hits: request(take("a", three, 2)),
			want: decisions(left(time.Microsecond, charged(3, 0))),
		},
		{
			at: minuteLeft + time.Minute, hits: request(take("a", three, 3)),
			want: decisions(left(time.Minute, charged(3, 0))),
		},
	}},
	{"a window is forgotten however many pass", []step{
		{at: 0, hits: request(take("a", three, 3)), want: decisions(charged(3, 0))},
		{
			at: minuteLeft + 1000*time.Hour, hits: request(take("a", three, 1)),
			want: decisions(left(time.Minute, charged(1, 2))),
		},
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
			{at: 0, hits: request(take("a", l, 2)), want: decisions(left(rest, charged(2, 1)))},
			{at: rest, hits: request(take("a", l, 3)), want: decisions(left(p.period, charged(3, 0)))},
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
			{at: 0, hits: request(take("s", s, 2)), want: decisions(told(rest+p.period, 0, charged(2, 1)))},
			{at: 0, hits: request(take("b", b, 3)), want: decisions(told(p.period, 0, charged(3, 0)))},
			{at: 0, hits: request(take("b", b, 1)), want: decisions(told(p.period, third, over(3, 0))), denied: true},
			{at: 0, hits: request(take("f", f, 3)), want: decisions(told(p.period, 0, charged(3, 0)))},
			{at: third, hits: request(take("b", b, 1)), want: decisions(told(p.period, 0, charged(3, 0)))},
			{at: third, hits: request(take("f", f, 1)), want: decisions(told(p.period-third, p.period-third, over(3, 0))), denied: true},
			{at: rest, hits: request(take("s", s, 1)), want: decisions(told(2*p.period, 0, charged(3, 0)))},
		}})
	}
	return cases
}

func date(year int, month time.Month, day, hour, minute, second int) time.Time {
	return time.Date(year, month, day, hour, minute, second, 0, time.UTC)
}
