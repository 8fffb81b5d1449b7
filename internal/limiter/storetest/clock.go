package storetest

import (
	"time"
)

// clockCases are lives of counters while the clock steps back, or forward for a
// moment and back again. What is used then is used now, and time passes for it
// although all that comes is denied.
var clockCases = []tableCase{
	{"the clock steps back: what is used counts in the current window", []step{
		{at: minuteLeft, hits: request(take("a", three, 2)), want: decisions(left(time.Minute, charged(2, 1)))},
		{at: 0, hits: request(take("a", three, 1)), want: decisions(charged(3, 0))},
		{at: 10 * second, hits: request(take("a", three, 1)), want: decisions(left(minuteLeft-10*second, over(3, 0))), denied: true},
		{at: -time.Hour, hits: request(take("a", three, 1)), want: decisions(over(3, 0)), denied: true},
		{at: minuteLeft - time.Hour, hits: request(take("a", three, 1)), want: decisions(left(time.Minute, charged(1, 2)))},
	}},
	{"the clock steps back: a full window ends although all are denied", []step{
		{at: 25 * time.Minute, hits: request(take("a", three, 3)), want: decisions(charged(3, 0))},
		{at: 0, hits: request(take("a", three, 1)), want: decisions(over(3, 0)), denied: true},
		{at: 5 * second, hits: request(peek("a", three)), want: decisions(left(minuteLeft-5*second, over(3, 0))), denied: true},
		{at: minuteLeft, hits: request(take("a", three, 3)), want: decisions(left(time.Minute, charged(3, 0)))},
	}},
	{"the clock steps back within a window", []step{
		{at: 20 * second, hits: request(take("a", three, 1)), want: decisions(left(minuteLeft-20*second, charged(1, 2)))},
		{at: 10 * second, hits: request(take("a", three, 1)), want: decisions(left(minuteLeft-10*second, charged(2, 1)))},
		{at: 30 * second, hits: request(take("a", three, 2)), want: decisions(left(minuteLeft-30*second, over(2, 1))), denied: true},
		{at: minuteLeft, hits: request(take("a", three, 3)), want: decisions(left(time.Minute, charged(3, 0)))},
	}},
	{"the clock is ahead for a moment", []step{
		{at: 0, hits: request(take("a", three, 3)), want: decisions(charged(3, 0))},
		{at: 2 * time.Hour, hits: request(take("a", three, 3)), want: decisions(charged(3, 0))},
		{at: second, hits: request(take("a", three, 1)), want: decisions(left(minuteLeft-second, over(3, 0))), denied: true},
		{at: 2*time.Hour + second, hits: request(take("a", three, 2)), want: decisions(left(minuteLeft-second, charged(2, 1)))},
		{at: 2 * second, hits: request(refund("a", three, 1)), want: decisions(left(minuteLeft-2*second, charged(1, 2)))},
		{at: minuteLeft, hits: request(take("a", three, 3)), want: decisions(left(time.Minute, charged(3, 0)))},
	}},
	{"the clock steps back: a window from the first hit starts anew", []step{
		{at: 40 * second, hits: request(take("a", twenty, 5)), want: decisions(left(30*second, charged(5, 15)))},
		{at: 39 * second, hits: request(take("a", twenty, 5)), want: decisions(left(30*second, charged(10, 10)))},
		{at: 0, hits: request(take("a", twenty, 11)), want: decisions(left(30*second, over(10, 10))), denied: true},
		{at: 10 * second, hits: request(take("a", twenty, 10)), want: decisions(left(20*second, charged(20, 0)))},
		{at: 20 * second, hits: request(take("a", twenty, 1)), want: decisions(left(10*second, over(20, 0))), denied: true},
		{at: 30 * second, hits: request(take("a", twenty, 1)), want: decisions(left(30*second, charged(1, 19)))},
	}},
	{"the clock steps back: both windows of a sliding one count in the current window", []step{
		{at: window1, hits: request(take("a", sliding(10), 4)), want: decisions(told(120*second, 0, charged(4, 6)))},
		{at: window2 + 30*second, hits: request(take("a", sliding(10), 4)), want: decisions(told(90*second, 0, charged(6, 4)))},
		{at: window2 + 15*second, hits: request(peek("a", sliding(10))), want: decisions(told(105*second, 0, spared(7, 3)))},
		{at: window1, hits: request(peek("a", sliding(10))), want: decisions(told(120*second, 0, spared(8, 2)))},
		{at: window1, hits: request(take("a", sliding(10), 3)), want: decisions(told(120*second, 67_500*time.Millisecond, over(8, 2))), denied: true},
		{at: window2 + 7500*time.Millisecond, hits: request(take("a", sliding(10), 3)), want: decisions(told(112_500*time.Millisecond, 0, charged(10, 0)))},
	}},
	{"the clock is ahead of a sliding window for a moment", []step{
		{at: window1, hits: request(take("a", sliding(10), 10)), want: decisions(told(120*second, 0, charged(10, 0)))},
		{at: window1 + 2*time.Hour, hits: request(take("a", sliding(10), 10)), want: decisions(told(120*second, 0, charged(10, 0)))},
		{at: window1 + second, hits: request(take("a", sliding(10), 1)), want: decisions(told(119*second, 65*second, over(10, 0))), denied: true},
		{at: window2 + 6*second, hits: request(take("a", sliding(10), 1)), want: decisions(told(114*second, 0, charged(10, 0)))},
	}},
	{"the clock steps back: a bucket drains on", []step{
		{at: 0, hits: request(take("a", ten, 4)), want: decisions(told(24*second, 0, charged(4, 6)))},
		{at: -10 * second, hits: request(take("a", ten, 1)), want: decisions(told(30*second, 0, charged(5, 5)))},
		{at: -time.Hour, hits: request(take("a", ten, 6)), want: decisions(told(30*second, 6*second, over(5, 5))), denied: true},
		{at: 6*second - time.Hour, hits: request(take("a", ten, 6)), want: decisions(told(60*second, 0, charged(10, 0)))},
	}},
	{"the clock steps back: a full bucket drains although all are denied", []step{
		{at: 25 * time.Minute, hits: request(take("a", ten, 10)), want: decisions(told(60*second, 0, charged(10, 0)))},
		{at: 0, hits: request(take("a", ten, 1)), want: decisions(told(60*second, 6*second, over(10, 0))), denied: true},
		{at: 3 * second, hits: request(peek("a", ten)), want: decisions(told(57*second, 3*second, over(10, 0))), denied: true},
		{at: 6 * second, hits: request(take("a", ten, 1)), want: decisions(told(60*second, 0, charged(10, 0)))},
	}},
	{"the clock steps back: time passes for what a denied request only met", []step{
		{
			at:   window1 + time.Hour,
			hits: request(take("w", enforced(5), 2), take("s", sliding(10), 2), take("b", bucket(10, 3), 2), take("f", twenty, 2)),
			want: decisions(
				left(60*second, charged(2, 3)), told(120*second, 0, charged(2, 8)),
				told(12*second, 0, charged(2, 1)), left(30*second, charged(2, 18)),
			),
		},
		{
			at:   window1,
			hits: request(take("z", enforced(0), 1), take("w", enforced(5), 1), take("s", sliding(10), 1), take("b", bucket(10, 3), 1), take("f", twenty, 1)),
			want: decisions(
				never(left(60*second, over(0, 0))), left(60*second, spared(2, 3)), told(120*second, 0, spared(2, 8)),
				told(12*second, 0, spared(2, 1)), left(30*second, spared(2, 18)),
			),
			denied: true,
		},
		{
			at:   window1 + 6*second,
			hits: request(peek("w", enforced(5)), peek("s", sliding(10)), peek("b", bucket(10, 3)), peek("f", twenty)),
			want: decisions(
				left(54*second, spared(2, 3)), told(114*second, 0, spared(2, 8)),
				told(6*second, 0, spared(1, 2)), left(24*second, spared(2, 18)),
			),
		},
	}},
	{"the clock steps back: the same counter twice", []step{
		{at: time.Hour, hits: request(take("a", three, 1), take("b", ten, 4)), want: decisions(charged(1, 2), told(24*second, 0, charged(4, 6)))},
		{
			at: 0, hits: request(take("a", three, 1), take("b", ten, 3), take("a", three, 1), take("b", ten, 3)),
			want: decisions(charged(3, 0), told(60*second, 0, charged(10, 0)), charged(3, 0), told(60*second, 0, charged(10, 0))),
		},
		{
			at: -time.Hour, hits: request(refund("a", three, 2), take("a", three, 3), refund("b", ten, 4)), denied: true,
			want: decisions(charged(1, 2), over(1, 2), told(36*second, 0, charged(6, 4))),
		},
		{at: minuteLeft - time.Hour, hits: request(peek("a", three), peek("b", ten)), want: decisions(left(time.Minute, spared(0, 3)), told(0, 0, spared(0, 10)))},
	}},
}
