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
		admits(window1, request(take("a", sliding(10), 10)), told(120*second, 0, charged(10, 0))),
		// The tenth part of it is out of sight 6 s after the window's end.
		denies(window1, request(take("a", sliding(10), 1)), told(120*second, 66*second, over(10, 0))),
		denies(window1+30*second, request(take("a", sliding(10), 1)), told(90*second, 36*second, over(10, 0))),
		denies(window2, request(take("a", sliding(10), 1)), told(60*second, 6*second, over(10, 0))),
		denies(window2+6*second-micro, request(take("a", sliding(10), 1)), told(54*second+micro, micro, over(10, 0))),
		admits(window2+6*second, request(take("a", sliding(10), 1)), told(114*second, 0, charged(10, 0))),
		denies(window2+6*second, request(take("a", sliding(10), 1)), told(114*second, 6*second, over(10, 0))),
		// Half of the 10, and 1.
		admits(window2+30*second, request(peek("a", sliding(10))), told(90*second, 0, spared(6, 4))),
		denies(window2+30*second, request(take("a", sliding(10), 5)), told(90*second, 6*second, over(6, 4))),
		admits(window2+30*second, request(take("a", sliding(10), 4)), told(90*second, 0, charged(10, 0))),
		// 5 are in sight, then 4 of them, then none.
		admits(window3, request(peek("a", sliding(10))), told(60*second, 0, spared(5, 5))),
		admits(window3+12*second-micro, request(peek("a", sliding(10))), told(48*second+micro, 0, spared(5, 5))),
		admits(window3+12*second, request(peek("a", sliding(10))), told(48*second, 0, spared(4, 6))),
		admits(window4-micro, request(peek("a", sliding(10))), told(micro, 0, spared(1, 9))),
		admits(window4, request(peek("a", sliding(10))), told(0, 0, spared(0, 10))),
	}},
	{"sliding: unused, peeked at and asked for too much", []step{
		admits(0, request(peek("a", sliding(3))), told(0, 0, spared(0, 3))),
		denies(0, request(take("a", sliding(3), 4)), told(0, limiter.Never, over(0, 3))),
		denies(0, request(take("b", sliding(0), 1)), told(0, limiter.Never, over(0, 0))),
		admits(0, request(take("a", sliding(3), 3)), told(minuteLeft+time.Minute, 0, charged(3, 0))),
		denies(0, request(peek("a", sliding(3))), told(minuteLeft+time.Minute, minuteLeft+20*second, over(3, 0))),
	}},
	{"sliding: a long pause forgets both windows", []step{
		admits(window1, request(take("a", sliding(10), 10)), told(120*second, 0, charged(10, 0))),
		admits(window3, request(take("a", sliding(10), 10)), told(120*second, 0, charged(10, 0))),
		admits(window3+1000*time.Hour, request(take("a", sliding(10), 10)), told(120*second, 0, charged(10, 0))),
	}},
	{"sliding: debt goes out of sight, too", []step{
		denies(window1, request(always("a", sliding(10), 25)), told(120*second, limiter.Never, overCharged(25, 0))),
		denies(window1, request(take("a", sliding(10), 1)), told(120*second, 98_400*time.Millisecond, over(25, 0))),
		denies(window2, request(take("a", sliding(10), 1)), told(60*second, 38_400*time.Millisecond, over(25, 0))),
		admits(window2+38_400*time.Millisecond, request(take("a", sliding(10), 1)), told(81_600*time.Millisecond, 0, charged(10, 0))),
	}},
	{"sliding: a refund reaches only the current window", []step{
		admits(window1, request(take("a", sliding(10), 6)), told(120*second, 0, charged(6, 4))),
		admits(window1, request(refund("a", sliding(10), 2)), told(120*second, 0, charged(4, 6))),
		admits(window2, request(refund("a", sliding(10), 2)), told(60*second, 0, charged(4, 6))),
		admits(window2, request(take("a", sliding(10), 2)), told(120*second, 0, charged(6, 4))),
		admits(window2, request(refund("a", sliding(10), 9)), told(60*second, 0, charged(4, 6))),
		admits(window3, request(refund("a", sliding(10), 9)), told(0, 0, charged(0, 10))),
	}},
	{"sliding: a changed amount keeps the count", []step{
		admits(window1, request(take("a", sliding(10), 8)), told(120*second, 0, charged(8, 2))),
		admits(window1, request(take("a", sliding(20), 8)), told(120*second, 0, charged(16, 4))),
		denies(window2, request(take("a", sliding(10), 1)), told(60*second, 26_250*time.Millisecond, over(16, 0))),
	}},
	{"sliding: costs and counters saturate", []step{
		denies(window1, request(take("a", sliding(10), math.MaxUint64)), told(0, limiter.Never, over(0, 10))),
		denies(window1, request(always("a", sliding(10), 1<<63)), told(120*second, limiter.Never, overCharged(maxCount, 0))),
		denies(window1, request(always("a", sliding(10), math.MaxUint64)), told(120*second, limiter.Never, overCharged(maxCount, 0))),
		admits(window1, request(refund("a", sliding(10), maxCount-4)), told(120*second, 0, charged(4, 6))),
		admits(window1, request(refund("a", sliding(10), math.MaxUint64)), told(0, 0, charged(0, 10))),
	}},
}
