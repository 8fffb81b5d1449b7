package storetest

import (
	"fmt"
	"math"
	"time"

	"weir/internal/limiter"
)

// windowCases are lives of one counter: windows, amounts, numbers.
func windowCases() []tableCase {
	three := enforced(3)
	cases := []tableCase{
		{"a window ends with its last microsecond", []step{
			{at: 0, hits: request(take("a", three, 3)), want: decisions(charged(3, 0))},
			{at: minuteLeft - time.Microsecond, hits: request(take("a", three, 1)), denied: true,
				want: decisions(left(time.Microsecond, over(3, 0)))},
			{at: minuteLeft, hits: request(take("a", three, 1)),
				want: decisions(left(time.Minute, charged(1, 2)))},
			{at: minuteLeft + time.Minute - time.Microsecond, hits: request(take("a", three, 2)),
				want: decisions(left(time.Microsecond, charged(3, 0)))},
			{at: minuteLeft + time.Minute, hits: request(take("a", three, 3)),
				want: decisions(left(time.Minute, charged(3, 0)))},
		}},
		{"a window is forgotten however many pass", []step{
			{at: 0, hits: request(take("a", three, 3)), want: decisions(charged(3, 0))},
			{at: minuteLeft + 1000*time.Hour, hits: request(take("a", three, 1)),
				want: decisions(left(time.Minute, charged(1, 2)))},
		}},
		{"a clock that steps back reopens no window", []step{
			{at: minuteLeft, hits: request(take("a", three, 2)),
				want: decisions(left(time.Minute, charged(2, 1)))},
			{at: 0, hits: request(take("a", three, 1)),
				want: decisions(left(minuteLeft+time.Minute, charged(3, 0)))},
			{at: -time.Hour, hits: request(take("a", three, 1)), denied: true,
				want: decisions(left(time.Hour+minuteLeft+time.Minute, over(3, 0)))},
			{at: minuteLeft + 10*time.Second, hits: request(take("a", three, 1)), denied: true,
				want: decisions(left(50*time.Second, over(3, 0)))},
			{at: minuteLeft + time.Minute, hits: request(take("a", three, 1)),
				want: decisions(left(time.Minute, charged(1, 2)))},
		}},
		{"used and remaining follow every hit", []step{
			{hits: request(take("a", three, 1)), want: decisions(charged(1, 2))},
			{hits: request(take("a", three, 1)), want: decisions(charged(2, 1))},
			{hits: request(take("a", three, 1)), want: decisions(charged(3, 0))},
			{hits: request(take("a", three, 1)), want: decisions(over(3, 0)), denied: true},
			{hits: request(take("b", three, 1)), want: decisions(charged(1, 2))},
		}},
		{"a limit of 0 never admits", []step{
			{hits: request(take("a", enforced(0), 1)), want: decisions(never(over(0, 0))), denied: true},
			{hits: request(peek("a", enforced(0))), want: decisions(never(over(0, 0))), denied: true},
		}},
		{"a cost above the limit never fits", []step{
			{hits: request(take("a", three, 4)), want: decisions(never(over(0, 3))), denied: true},
			{hits: request(take("a", three, 1)), want: decisions(charged(1, 2))},
			{hits: request(take("a", three, 4)), want: decisions(never(over(1, 2))), denied: true},
		}},
		{"a cost of exactly the limit fits once", []step{
			{hits: request(take("a", three, 3)), want: decisions(charged(3, 0))},
			{hits: request(take("a", three, 3)), want: decisions(over(3, 0)), denied: true},
		}},
		{"a cost above what remains takes nothing", []step{
			{hits: request(take("a", three, 2)), want: decisions(charged(2, 1))},
			{hits: request(take("a", three, 2)), want: decisions(over(2, 1)), denied: true},
			{hits: request(take("a", three, 1)), want: decisions(charged(3, 0))},
		}},
		{"a changed amount keeps the count", []step{
			{hits: request(take("a", three, 3)), want: decisions(charged(3, 0))},
			{hits: request(take("a", enforced(5), 1)), want: decisions(charged(4, 1))},
			{hits: request(take("a", enforced(2), 1)), want: decisions(over(4, 0)), denied: true},
		}},
		saturation(),
	}
	return append(cases, periods()...)
}

// saturation: costs and counters end at MaxCost, far above the largest limit.
func saturation() tableCase {
	most := enforced(math.MaxUint32)
	return tableCase{"costs and counters saturate", []step{
		{hits: request(take("a", most, math.MaxUint32)), want: decisions(charged(math.MaxUint32, 0))},
		{hits: request(take("a", most, 1<<63)), want: decisions(never(over(math.MaxUint32, 0))), denied: true},
		{hits: request(take("a", most, math.MaxUint64)), want: decisions(never(over(math.MaxUint32, 0))), denied: true},
		{hits: request(always("a", most, limiter.MaxCost-1)), want: decisions(never(overCharged(limiter.MaxCost, 0))), denied: true},
		{hits: request(always("a", most, 1)), want: decisions(overCharged(limiter.MaxCost, 0)), denied: true},
		{hits: request(always("a", most, 1<<63), always("a", most, math.MaxUint64)), denied: true,
			want: decisions(never(overCharged(limiter.MaxCost, 0)), never(overCharged(limiter.MaxCost, 0)))},
		{hits: request(refund("a", most, limiter.MaxCost-5)), want: decisions(charged(5, math.MaxUint32-5))},
		{hits: request(refund("a", most, math.MaxUint64)), want: decisions(charged(0, math.MaxUint32))},
		{hits: request(always("a", most, limiter.MaxCost-1)), want: decisions(never(overCharged(limiter.MaxCost-1, 0))), denied: true},
		{hits: request(always("a", most, 2)), want: decisions(overCharged(limiter.MaxCost, 0)), denied: true},
	}}
}

// periods: every unit, and multiples of some, with the end of the window that
// start lies in. A week starts on a Thursday, as the epoch did; months of 30
// days and years of 365 have left the calendar since.
func periods() []tableCase {
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
		l := &limiter.Limit{RequestsPerUnit: 3, Unit: p.unit, UnitMultiplier: p.multiplier}
		rest := p.end.Sub(start)
		cases = append(cases, tableCase{fmt.Sprintf("a period of %d %ss", p.multiplier, p.unit), []step{
			{at: 0, hits: request(take("a", l, 2)), want: decisions(left(rest, charged(2, 1)))},
			{at: rest, hits: request(take("a", l, 3)), want: decisions(left(p.period, charged(3, 0)))},
		}})
	}
	return cases
}

func date(year int, month time.Month, day, hour, minute, second int) time.Time {
	return time.Date(year, month, day, hour, minute, second, 0, time.UTC)
}
