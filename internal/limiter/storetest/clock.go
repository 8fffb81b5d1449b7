package storetest

import (
	"time"
)

// clockCases are lives of counters while the clock steps back, or forward for a
// moment and back again. What is used then is used now, and time passes for it
// although all that comes is denied.
var clockCases = []tableCase{
	{"the clock steps back: what is used counts in the current window", []step{
		admits(minuteLeft, request(take("a", three, 2)), left(time.Minute, charged(2, 1))),
		admits(0, request(take("a", three, 1)), charged(3, 0)),
		denies(10*second, request(take("a", three, 1)), left(minuteLeft-10*second, over(3, 0))),
		denies(-time.Hour, request(take("a", three, 1)), over(3, 0)),
		admits(minuteLeft-time.Hour, request(take("a", three, 1)), left(time.Minute, charged(1, 2))),
	}},
	{"the clock steps back: a full window ends although all are denied", []step{
		admits(25*time.Minute, request(take("a", three, 3)), charged(3, 0)),
		denies(0, request(take("a", three, 1)), over(3, 0)),
		denies(5*second, request(peek("a", three)), left(minuteLeft-5*second, over(3, 0))),
		admits(minuteLeft, request(take("a", three, 3)), left(time.Minute, charged(3, 0))),
	}},
	{"the clock steps back within a window", []step{
		admits(20*second, request(take("a", three, 1)), left(minuteLeft-20*second, charged(1, 2))),
		admits(10*second, request(take("a", three, 1)), left(minuteLeft-10*second, charged(2, 1))),
		denies(30*second, request(take("a", three, 2)), left(minuteLeft-30*second, over(2, 1))),
		admits(minuteLeft, request(take("a", three, 3)), left(time.Minute, charged(3, 0))),
	}},
	{"the clock is ahead for a moment", []step{
		admits(0, request(take("a", three, 3)), charged(3, 0)),
		admits(2*time.Hour, request(take("a", three, 3)), charged(3, 0)),
		denies(second, request(take("a", three, 1)), left(minuteLeft-second, over(3, 0))),
		admits(2*time.Hour+second, request(take("a", three, 2)), left(minuteLeft-second, charged(2, 1))),
		admits(2*second, request(refund("a", three, 1)), left(minuteLeft-2*second, charged(1, 2))),
		admits(minuteLeft, request(take("a", three, 3)), left(time.Minute, charged(3, 0))),
	}},
	{"the clock steps back: a window from the first hit starts anew", []step{
		admits(40*second, request(take("a", twenty, 5)), left(30*second, charged(5, 15))),
		admits(39*second, request(take("a", twenty, 5)), left(30*second, charged(10, 10))),
		denies(0, request(take("a", twenty, 11)), left(30*second, over(10, 10))),
		admits(10*second, request(take("a", twenty, 10)), left(20*second, charged(20, 0))),
		denies(20*second, request(take("a", twenty, 1)), left(10*second, over(20, 0))),
		admits(30*second, request(take("a", twenty, 1)), left(30*second, charged(1, 19))),
	}},
	{"the clock steps back: both windows of a sliding one count in the current window", []step{
		admits(window1, request(take("a", sliding(10), 4)), told(120*second, 0, charged(4, 6))),
		admits(window2+30*second, request(take("a", sliding(10), 4)), told(90*second, 0, charged(6, 4))),
		admits(window2+15*second, request(peek("a", sliding(10))), told(105*second, 0, spared(7, 3))),
		admits(window1, request(peek("a", sliding(10))), told(120*second, 0, spared(8, 2))),
		denies(window1, request(take("a", sliding(10), 3)), told(120*second, 67_500*time.Millisecond, over(8, 2))),
		admits(window2+7500*time.Millisecond, request(take("a", sliding(10), 3)), told(112_500*time.Millisecond, 0, charged(10, 0))),
	}},
	{"the clock is ahead of a sliding window for a moment", []step{
		admits(window1, request(take("a", sliding(10), 10)), told(120*second, 0, charged(10, 0))),
		admits(window1+2*time.Hour, request(take("a", sliding(10), 10)), told(120*second, 0, charged(10, 0))),
		denies(window1+second, request(take("a", sliding(10), 1)), told(119*second, 65*second, over(10, 0))),
		admits(window2+6*second, request(take("a", sliding(10), 1)), told(114*second, 0, charged(10, 0))),
	}},
	{"the clock steps back: a bucket drains on", []step{
		admits(0, request(take("a", ten, 4)), told(24*second, 0, charged(4, 6))),
		admits(-10*second, request(take("a", ten, 1)), told(30*second, 0, charged(5, 5))),
		denies(-time.Hour, request(take("a", ten, 6)), told(30*second, 6*second, over(5, 5))),
		admits(6*second-time.Hour, request(take("a", ten, 6)), told(60*second, 0, charged(10, 0))),
	}},
	{"the clock steps back: a full bucket drains although all are denied", []step{
		admits(25*time.Minute, request(take("a", ten, 10)), told(60*second, 0, charged(10, 0))),
		denies(0, request(take("a", ten, 1)), told(60*second, 6*second, over(10, 0))),
		denies(3*second, request(peek("a", ten)), told(57*second, 3*second, over(10, 0))),
		admits(6*second, request(take("a", ten, 1)), told(60*second, 0, charged(10, 0))),
	}},
	{"the clock steps back: time passes for what a denied request only met", []step{
		admits(window1+time.Hour, request(take("w", enforced(5), 2), take("s", sliding(10), 2), take("b", bucket(10, 3), 2), take("f", twenty, 2)),
			left(60*second, charged(2, 3)), told(120*second, 0, charged(2, 8)), told(12*second, 0, charged(2, 1)), left(30*second, charged(2, 18))),
		denies(window1, request(take("z", enforced(0), 1), take("w", enforced(5), 1), take("s", sliding(10), 1), take("b", bucket(10, 3), 1), take("f", twenty, 1)),
			never(left(60*second, over(0, 0))), left(60*second, spared(2, 3)), told(120*second, 0, spared(2, 8)), told(12*second, 0, spared(2, 1)), left(30*second, spared(2, 18))),
		admits(window1+6*second, request(peek("w", enforced(5)), peek("s", sliding(10)), peek("b", bucket(10, 3)), peek("f", twenty)),
			left(54*second, spared(2, 3)), told(114*second, 0, spared(2, 8)), told(6*second, 0, spared(1, 2)), left(24*second, spared(2, 18))),
	}},
	{"the clock steps back: the same counter twice", []step{
		admits(time.Hour, request(take("a", three, 1), take("b", ten, 4)), charged(1, 2), told(24*second, 0, charged(4, 6))),
		admits(0, request(take("a", three, 1), take("b", ten, 3), take("a", three, 1), take("b", ten, 3)),
			charged(3, 0), told(60*second, 0, charged(10, 0)), charged(3, 0), told(60*second, 0, charged(10, 0))),
		denies(-time.Hour, request(refund("a", three, 2), take("a", three, 3), refund("b", ten, 4)), charged(1, 2), over(1, 2), told(36*second, 0, charged(6, 4))),
		admits(minuteLeft-time.Hour, request(peek("a", three), peek("b", ten)), left(time.Minute, spared(0, 3)), told(0, 0, spared(0, 10))),
	}},
}
