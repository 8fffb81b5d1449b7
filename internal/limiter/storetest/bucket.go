package storetest

import (
	"math"
	"time"

	"weir/internal/limiter"
)

// bucket refills at an amount per minute; its size is burst, or the amount if
// that is 0.
func bucket(amount, burst uint64) *limiter.Limit {
	return Must(limiter.Spec{RequestsPerUnit: amount, Unit: limiter.Minute, Algorithm: limiter.TokenBucket, Burst: burst})
}

// ten admits ten at once, and one more every 6 seconds.
var ten = bucket(10, 0)

// bucketCases are lives of a bucket.
var bucketCases = []tableCase{
	{"bucket: ten at once, the eleventh after 6 s", []step{
		admits(0, request(take("a", ten, 10)), told(60*second, 0, charged(10, 0))),
		denies(0, request(take("a", ten, 1)), told(60*second, 6*second, over(10, 0))),
		denies(0, request(take("a", ten, 3)), told(60*second, 18*second, over(10, 0))),
		denies(6*second-micro, request(take("a", ten, 1)), told(54*second+micro, micro, over(10, 0))),
		admits(6*second, request(take("a", ten, 1)), told(60*second, 0, charged(10, 0))),
		denies(6*second, request(take("a", ten, 1)), told(60*second, 6*second, over(10, 0))),
		admits(21*second, request(peek("a", ten)), told(45*second, 0, spared(8, 2))), // 7.5
		admits(21*second, request(take("a", ten, 2)), told(57*second, 0, charged(10, 0))),
		denies(21*second, request(take("a", ten, 1)), told(57*second, 3*second, over(10, 0))),
		admits(78*second-micro, request(peek("a", ten)), told(micro, 0, spared(1, 9))),
		admits(78*second, request(peek("a", ten)), told(0, 0, spared(0, 10))),
	}},
	{"bucket: one by one", []step{
		admits(0, request(take("a", ten, 1)), told(6*second, 0, charged(1, 9))),
		admits(3*second, request(take("a", ten, 1)), told(9*second, 0, charged(2, 8))),
		admits(9*second, request(take("a", ten, 1)), told(9*second, 0, charged(2, 8))),
	}},
	{"bucket: a burst smaller than the amount", []step{
		denies(0, request(take("a", bucket(10, 3), 4)), told(0, limiter.Never, over(0, 3))),
		admits(0, request(take("a", bucket(10, 3), 3)), told(18*second, 0, charged(3, 0))),
		denies(0, request(take("a", bucket(10, 3), 1)), told(18*second, 6*second, over(3, 0))),
		admits(12*second, request(take("a", bucket(10, 3), 2)), told(18*second, 0, charged(3, 0))),
	}},
	{"bucket: a burst larger than the amount", []step{
		admits(0, request(take("a", bucket(1, 5), 5)), told(300*second, 0, charged(5, 0))),
		denies(30*second, request(take("a", bucket(1, 5), 2)), told(270*second, 90*second, over(5, 0))),
		admits(120*second, request(take("a", bucket(1, 5), 2)), told(300*second, 0, charged(5, 0))),
	}},
	{"bucket: an amount that does not divide the period", []step{
		// A unit takes 8.571428 s and 4/7 of a microsecond.
		admits(0, request(take("a", bucket(7, 0), 7)), told(60*second, 0, charged(7, 0))),
		denies(0, request(take("a", bucket(7, 0), 1)), told(60*second, 8_571_429*micro, over(7, 0))),
		denies(8_571_428*micro, request(take("a", bucket(7, 0), 1)), told(51_428_572*micro, micro, over(7, 0))),
		admits(8_571_429*micro, request(take("a", bucket(7, 0), 1)), told(60*second, 0, charged(7, 0))),
		// What was too long by a part of a microsecond is not lost: the third one comes
		// 25.714285 s and 5/7 after the first.
		denies(17_142_857*micro, request(take("a", bucket(7, 0), 1)), told(51_428_572*micro, micro, over(7, 0))),
		admits(17_142_858*micro, request(take("a", bucket(7, 0), 1)), told(60*second, 0, charged(7, 0))),
		admits(25_714_286*micro, request(take("a", bucket(7, 0), 1)), told(60*second, 0, charged(7, 0))),
	}},
	{"bucket: a limit of 0 never admits", []step{
		denies(0, request(take("a", bucket(0, 0), 1)), told(0, limiter.Never, over(0, 0))),
		denies(0, request(take("a", bucket(0, 5), 1)), told(0, limiter.Never, over(0, 0))),
		denies(0, request(peek("a", bucket(0, 5))), told(0, limiter.Never, over(0, 0))),
		denies(0, request(always("a", bucket(0, 5), 9)), told(60*second, limiter.Never, overCharged(1, 0))),
		admits(0, request(refund("a", bucket(0, 5), 9)), told(0, 0, charged(0, 0))),
	}},
	{"bucket: debt, up to the amount of a period", []step{
		admits(0, request(always("a", ten, 8)), told(48*second, 0, charged(8, 2))),
		denies(0, request(always("a", ten, 7)), told(90*second, 72*second, overCharged(15, 0))),
		denies(0, request(take("a", ten, 1)), told(90*second, 36*second, over(15, 0))),
		denies(30*second, request(take("a", ten, 1)), told(60*second, 6*second, over(10, 0))),
		denies(30*second, request(always("a", ten, 1000)), told(120*second, limiter.Never, overCharged(20, 0))),
		denies(30*second, request(always("a", ten, math.MaxUint64)), told(120*second, limiter.Never, overCharged(20, 0))),
		denies(96*second-micro, request(take("a", ten, 1)), told(54*second+micro, micro, over(10, 0))),
		admits(96*second, request(take("a", ten, 1)), told(60*second, 0, charged(10, 0))),
	}},
	{"bucket: a refund gives back, not above full", []step{
		admits(0, request(take("a", ten, 5)), told(30*second, 0, charged(5, 5))),
		admits(0, request(refund("a", ten, 2)), told(18*second, 0, charged(3, 7))),
		admits(1500*time.Millisecond, request(refund("a", ten, 1)), told(10_500*time.Millisecond, 0, charged(2, 8))), // 1.75
		admits(1500*time.Millisecond, request(refund("a", ten, 2)), told(0, 0, charged(0, 10))),
		admits(1500*time.Millisecond, request(take("a", ten, 10)), told(60*second, 0, charged(10, 0))),
		admits(1500*time.Millisecond, request(refund("a", ten, math.MaxUint64)), told(0, 0, charged(0, 10))),
	}},
	{"bucket: costs saturate", []step{
		denies(0, request(take("a", ten, 1<<63)), told(0, limiter.Never, over(0, 10))),
		denies(0, request(take("a", ten, math.MaxUint64)), told(0, limiter.Never, over(0, 10))),
		admits(0, request(take("a", ten, 10)), told(60*second, 0, charged(10, 0))),
	}},
	{"bucket: a changed amount keeps the count", []step{
		admits(0, request(take("a", ten, 6)), told(36*second, 0, charged(6, 4))),
		admits(0, request(take("a", bucket(20, 0), 1)), told(21*second, 0, charged(7, 13))),
		denies(0, request(take("a", bucket(5, 0), 1)), told(84*second, 36*second, over(7, 0))),
		admits(0, request(take("a", bucket(5, 30), 1)), told(96*second, 0, charged(8, 22))),
	}},
	{"bucket: a lowered limit bounds the debt", []step{
		admits(0, request(take("a", bucket(100, 0), 90)), told(54*second, 0, charged(90, 10))),
		admits(0, request(refund("a", bucket(1, 1), 1)), told(60*second, 0, charged(1, 0))),
		admits(0, request(take("a", bucket(100, 0), 99)), told(60*second, 0, charged(100, 0))),
		denies(6*second, request(take("a", bucket(5, 2), 1)), told(78*second, 66*second, over(7, 0))),
	}},
	{"bucket: a peek with another amount leaves it alone", []step{
		admits(0, request(take("a", bucket(100, 0), 90)), told(54*second, 0, charged(90, 10))),
		denies(0, request(peek("a", bucket(1, 1))), told(120*second, 120*second, over(2, 0))),
		admits(0, request(peek("a", bucket(100, 0))), told(54*second, 0, spared(90, 10))),
	}},
}
