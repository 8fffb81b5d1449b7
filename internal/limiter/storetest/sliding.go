package storetest

import (
	"math"
	"time"

	"weir/internal/limiter"
)

// sliding admits an amount in about any minute.
func sliding(amount uint64) *limiter.Limit {
	return Must(limiter.Spec{RequestsPerUnit: amount, Unit: limiter.Minute, Algorithm: limiter.SlidingWindow})
}

// Windows of a minute, the first full one after start and those that follow.
const (
	window1 = minuteLeft
	window2 = window1 + time.Minute
	window3 = window2 + time.Minute
	window4 = window3 + time.Minute
)

// slidingCases are lives of a counter whose previous window counts by the share
// of it that a minute up to now still covers.
var slidingCases = []tableCase{
	{"sliding: through two windows", []step{
		{at: window1, hits: request(take("a", sliding(10), 10)), want: decisions(told(120*second, 0, charged(10, 0)))},
		// The tenth part of it is out of sight 6 s after the window's end.
		{at: window1, hits: request(take("a", sliding(10), 1)), want: decisions(told(120*second, 66*second, over(10, 0))), denied: true},
		{at: window1 + 30*second, hits: request(take("a", sliding(10), 1)), want: decisions(told(90*second, 36*second, over(10, 0))), denied: true},
		{at: window2, hits: request(take("a", sliding(10), 1)), want: decisions(told(60*second, 6*second, over(10, 0))), denied: true},
		{at: window2 + 6*second - micro, hits: request(take("a", sliding(10), 1)), want: decisions(told(54*second+micro, micro, over(10, 0))), denied: true},
		{at: window2 + 6*second, hits: request(take("a", sliding(10), 1)), want: decisions(told(114*second, 0, charged(10, 0)))},
		{at: window2 + 6*second, hits: request(take("a", sliding(10), 1)), want: decisions(told(114*second, 6*second, over(10, 0))), denied: true},
		// Half of the 10, and 1.
		{at: window2 + 30*second, hits: request(peek("a", sliding(10))), want: decisions(told(90*second, 0, spared(6, 4)))},
		{at: window2 + 30*second, hits: request(take("a", sliding(10), 5)), want: decisions(told(90*second, 6*second, over(6, 4))), denied: true},
		{at: window2 + 30*second, hits: request(take("a", sliding(10), 4)), want: decisions(told(90*second, 0, charged(10, 0)))},
		// 5 are in sight, then 4 of them, then none.
		{at: window3, hits: request(peek("a", sliding(10))), want: decisions(told(60*second, 0, spared(5, 5)))},
		{at: window3 + 12*second - micro, hits: request(peek("a", sliding(10))), want: decisions(told(48*second+micro, 0, spared(5, 5)))},
		{at: window3 + 12*second, hits: request(peek("a", sliding(10))), want: decisions(told(48*second, 0, spared(4, 6)))},
		{at: window4 - micro, hits: request(peek("a", sliding(10))), want: decisions(told(micro, 0, spared(1, 9)))},
		{at: window4, hits: request(peek("a", sliding(10))), want: decisions(told(0, 0, spared(0, 10)))},
	}},
	{"sliding: unused, peeked at and asked for too much", []step{
		{at: 0, hits: request(peek("a", sliding(3))), want: decisions(told(0, 0, spared(0, 3)))},
		{at: 0, hits: request(take("a", sliding(3), 4)), want: decisions(told(0, limiter.Never, over(0, 3))), denied: true},
		{at: 0, hits: request(take("b", sliding(0), 1)), want: decisions(told(0, limiter.Never, over(0, 0))), denied: true},
		{at: 0, hits: request(take("a", sliding(3), 3)), want: decisions(told(minuteLeft+time.Minute, 0, charged(3, 0)))},
		{at: 0, hits: request(peek("a", sliding(3))), want: decisions(told(minuteLeft+time.Minute, minuteLeft+20*second, over(3, 0))), denied: true},
	}},
	{"sliding: a long pause forgets both windows", []step{
		{at: window1, hits: request(take("a", sliding(10), 10)), want: decisions(told(120*second, 0, charged(10, 0)))},
		{at: window3, hits: request(take("a", sliding(10), 10)), want: decisions(told(120*second, 0, charged(10, 0)))},
		{at: window3 + 1000*time.Hour, hits: request(take("a", sliding(10), 10)), want: decisions(told(120*second, 0, charged(10, 0)))},
	}},
	{"sliding: debt goes out of sight, too", []step{
		{at: window1, hits: request(always("a", sliding(10), 25)), want: decisions(told(120*second, limiter.Never, overCharged(25, 0))), denied: true},
		{at: window1, hits: request(take("a", sliding(10), 1)), want: decisions(told(120*second, 98_400*time.Millisecond, over(25, 0))), denied: true},
		{at: window2, hits: request(take("a", sliding(10), 1)), want: decisions(told(60*second, 38_400*time.Millisecond, over(25, 0))), denied: true},
		{at: window2 + 38_400*time.Millisecond, hits: request(take("a", sliding(10), 1)), want: decisions(told(81_600*time.Millisecond, 0, charged(10, 0)))},
	}},
	{"sliding: a refund reaches only the current window", []step{
		{at: window1, hits: request(take("a", sliding(10), 6)), want: decisions(told(120*second, 0, charged(6, 4)))},
		{at: window1, hits: request(refund("a", sliding(10), 2)), want: decisions(told(120*second, 0, charged(4, 6)))},
		{at: window2, hits: request(refund("a", sliding(10), 2)), want: decisions(told(60*second, 0, charged(4, 6)))},
		{at: window2, hits: request(take("a", sliding(10), 2)), want: decisions(told(120*second, 0, charged(6, 4)))},
		{at: window2, hits: request(refund("a", sliding(10), 9)), want: decisions(told(60*second, 0, charged(4, 6)))},
		{at: window3, hits: request(refund("a", sliding(10), 9)), want: decisions(told(0, 0, charged(0, 10)))},
	}},
	{"sliding: a changed amount keeps the count", []step{
		{at: window1, hits: request(take("a", sliding(10), 8)), want: decisions(told(120*second, 0, charged(8, 2)))},
		{at: window1, hits: request(take("a", sliding(20), 8)), want: decisions(told(120*second, 0, charged(16, 4)))},
		{at: window2, hits: request(take("a", sliding(10), 1)), want: decisions(told(60*second, 26_250*time.Millisecond, over(16, 0))), denied: true},
	}},
	{"sliding: costs and counters saturate", []step{
		{at: window1, hits: request(take("a", sliding(10), math.MaxUint64)), want: decisions(told(0, limiter.Never, over(0, 10))), denied: true},
		{at: window1, hits: request(always("a", sliding(10), 1<<63)), want: decisions(told(120*second, limiter.Never, overCharged(maxCount, 0))), denied: true},
		{at: window1, hits: request(always("a", sliding(10), math.MaxUint64)), want: decisions(told(120*second, limiter.Never, overCharged(maxCount, 0))), denied: true},
		{at: window1, hits: request(refund("a", sliding(10), maxCount-4)), want: decisions(told(120*second, 0, charged(4, 6)))},
		{at: window1, hits: request(refund("a", sliding(10), math.MaxUint64)), want: decisions(told(0, 0, charged(0, 10)))},
	}},
}
