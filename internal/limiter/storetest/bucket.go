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
		{at: 0, hits: request(take("a", ten, 10)), want: decisions(told(60*second, 0, charged(10, 0)))},
		{at: 0, hits: request(take("a", ten, 1)), want: decisions(told(60*second, 6*second, over(10, 0))), denied: true},
		{at: 0, hits: request(take("a", ten, 3)), want: decisions(told(60*second, 18*second, over(10, 0))), denied: true},
		{at: 6*second - micro, hits: request(take("a", ten, 1)), want: decisions(told(54*second+micro, micro, over(10, 0))), denied: true},
		{at: 6 * second, hits: request(take("a", ten, 1)), want: decisions(told(60*second, 0, charged(10, 0)))},
		{at: 6 * second, hits: request(take("a", ten, 1)), want: decisions(told(60*second, 6*second, over(10, 0))), denied: true},
		{at: 21 * second, hits: request(peek("a", ten)), want: decisions(told(45*second, 0, spared(8, 2)))}, // 7.5
		{at: 21 * second, hits: request(take("a", ten, 2)), want: decisions(told(57*second, 0, charged(10, 0)))},
		{at: 21 * second, hits: request(take("a", ten, 1)), want: decisions(told(57*second, 3*second, over(10, 0))), denied: true},
		{at: 78*second - micro, hits: request(peek("a", ten)), want: decisions(told(micro, 0, spared(1, 9)))},
		{at: 78 * second, hits: request(peek("a", ten)), want: decisions(told(0, 0, spared(0, 10)))},
	}},
	{"bucket: one by one", []step{
		{at: 0, hits: request(take("a", ten, 1)), want: decisions(told(6*second, 0, charged(1, 9)))},
		{at: 3 * second, hits: request(take("a", ten, 1)), want: decisions(told(9*second, 0, charged(2, 8)))},
		{at: 9 * second, hits: request(take("a", ten, 1)), want: decisions(told(9*second, 0, charged(2, 8)))},
	}},
	{"bucket: a burst smaller than the amount", []step{
		{at: 0, hits: request(take("a", bucket(10, 3), 4)), want: decisions(told(0, limiter.Never, over(0, 3))), denied: true},
		{at: 0, hits: request(take("a", bucket(10, 3), 3)), want: decisions(told(18*second, 0, charged(3, 0)))},
		{at: 0, hits: request(take("a", bucket(10, 3), 1)), want: decisions(told(18*second, 6*second, over(3, 0))), denied: true},
		{at: 12 * second, hits: request(take("a", bucket(10, 3), 2)), want: decisions(told(18*second, 0, charged(3, 0)))},
	}},
	{"bucket: a burst larger than the amount", []step{
		{at: 0, hits: request(take("a", bucket(1, 5), 5)), want: decisions(told(300*second, 0, charged(5, 0)))},
		{at: 30 * second, hits: request(take("a", bucket(1, 5), 2)), want: decisions(told(270*second, 90*second, over(5, 0))), denied: true},
		{at: 120 * second, hits: request(take("a", bucket(1, 5), 2)), want: decisions(told(300*second, 0, charged(5, 0)))},
	}},
	{"bucket: an amount that does not divide the period", []step{
		// A unit takes 8.571428 s and 4/7 of a microsecond.
		{at: 0, hits: request(take("a", bucket(7, 0), 7)), want: decisions(told(60*second, 0, charged(7, 0)))},
		{at: 0, hits: request(take("a", bucket(7, 0), 1)), want: decisions(told(60*second, 8_571_429*micro, over(7, 0))), denied: true},
		{at: 8_571_428 * micro, hits: request(take("a", bucket(7, 0), 1)), want: decisions(told(51_428_572*micro, micro, over(7, 0))), denied: true},
		{at: 8_571_429 * micro, hits: request(take("a", bucket(7, 0), 1)), want: decisions(told(60*second, 0, charged(7, 0)))},
		// What was too long by a part of a microsecond is not lost: the third one comes
		// 25.714285 s and 5/7 after the first.
		{at: 17_142_857 * micro, hits: request(take("a", bucket(7, 0), 1)), want: decisions(told(51_428_572*micro, micro, over(7, 0))), denied: true},
		{at: 17_142_858 * micro, hits: request(take("a", bucket(7, 0), 1)), want: decisions(told(60*second, 0, charged(7, 0)))},
		{at: 25_714_286 * micro, hits: request(take("a", bucket(7, 0), 1)), want: decisions(told(60*second, 0, charged(7, 0)))},
	}},
	{"bucket: a limit of 0 never admits", []step{
		{at: 0, hits: request(take("a", bucket(0, 0), 1)), want: decisions(told(0, limiter.Never, over(0, 0))), denied: true},
		{at: 0, hits: request(take("a", bucket(0, 5), 1)), want: decisions(told(0, limiter.Never, over(0, 0))), denied: true},
		{at: 0, hits: request(peek("a", bucket(0, 5))), want: decisions(told(0, limiter.Never, over(0, 0))), denied: true},
		{at: 0, hits: request(always("a", bucket(0, 5), 9)), want: decisions(told(60*second, limiter.Never, overCharged(1, 0))), denied: true},
		{at: 0, hits: request(refund("a", bucket(0, 5), 9)), want: decisions(told(0, 0, charged(0, 0)))},
	}},
	{"bucket: debt, up to the amount of a period", []step{
		{at: 0, hits: request(always("a", ten, 8)), want: decisions(told(48*second, 0, charged(8, 2)))},
		{at: 0, hits: request(always("a", ten, 7)), want: decisions(told(90*second, 72*second, overCharged(15, 0))), denied: true},
		{at: 0, hits: request(take("a", ten, 1)), want: decisions(told(90*second, 36*second, over(15, 0))), denied: true},
		{at: 30 * second, hits: request(take("a", ten, 1)), want: decisions(told(60*second, 6*second, over(10, 0))), denied: true},
		{at: 30 * second, hits: request(always("a", ten, 1000)), want: decisions(told(120*second, limiter.Never, overCharged(20, 0))), denied: true},
		{at: 30 * second, hits: request(always("a", ten, math.MaxUint64)), want: decisions(told(120*second, limiter.Never, overCharged(20, 0))), denied: true},
		{at: 96*second - micro, hits: request(take("a", ten, 1)), want: decisions(told(54*second+micro, micro, over(10, 0))), denied: true},
		{at: 96 * second, hits: request(take("a", ten, 1)), want: decisions(told(60*second, 0, charged(10, 0)))},
	}},
	{"bucket: a refund gives back, not above full", []step{
		{at: 0, hits: request(take("a", ten, 5)), want: decisions(told(30*second, 0, charged(5, 5)))},
		{at: 0, hits: request(refund("a", ten, 2)), want: decisions(told(18*second, 0, charged(3, 7)))},
		{at: 1500 * time.Millisecond, hits: request(refund("a", ten, 1)), want: decisions(told(10_500*time.Millisecond, 0, charged(2, 8)))}, // 1.75
		{at: 1500 * time.Millisecond, hits: request(refund("a", ten, 2)), want: decisions(told(0, 0, charged(0, 10)))},
		{at: 1500 * time.Millisecond, hits: request(take("a", ten, 10)), want: decisions(told(60*second, 0, charged(10, 0)))},
		{at: 1500 * time.Millisecond, hits: request(refund("a", ten, math.MaxUint64)), want: decisions(told(0, 0, charged(0, 10)))},
	}},
	{"bucket: costs saturate", []step{
		{at: 0, hits: request(take("a", ten, 1<<63)), want: decisions(told(0, limiter.Never, over(0, 10))), denied: true},
		{at: 0, hits: request(take("a", ten, math.MaxUint64)), want: decisions(told(0, limiter.Never, over(0, 10))), denied: true},
		{at: 0, hits: request(take("a", ten, 10)), want: decisions(told(60*second, 0, charged(10, 0)))},
	}},
	{"bucket: a changed amount keeps the count", []step{
		{at: 0, hits: request(take("a", ten, 6)), want: decisions(told(36*second, 0, charged(6, 4)))},
		{at: 0, hits: request(take("a", bucket(20, 0), 1)), want: decisions(told(21*second, 0, charged(7, 13)))},
		{at: 0, hits: request(take("a", bucket(5, 0), 1)), want: decisions(told(84*second, 36*second, over(7, 0))), denied: true},
		{at: 0, hits: request(take("a", bucket(5, 30), 1)), want: decisions(told(96*second, 0, charged(8, 22)))},
	}},
	{"bucket: a lowered limit bounds the debt", []step{
		{at: 0, hits: request(take("a", bucket(100, 0), 90)), want: decisions(told(54*second, 0, charged(90, 10)))},
		{at: 0, hits: request(refund("a", bucket(1, 1), 1)), want: decisions(told(60*second, 0, charged(1, 0)))},
		{at: 0, hits: request(take("a", bucket(100, 0), 99)), want: decisions(told(60*second, 0, charged(100, 0)))},
		{at: 6 * second, hits: request(take("a", bucket(5, 2), 1)), want: decisions(told(78*second, 66*second, over(7, 0))), denied: true},
	}},
	{"bucket: a peek with another amount leaves it alone", []step{
		{at: 0, hits: request(take("a", bucket(100, 0), 90)), want: decisions(told(54*second, 0, charged(90, 10)))},
		{at: 0, hits: request(peek("a", bucket(1, 1))), want: decisions(told(120*second, 120*second, over(2, 0))), denied: true},
		{at: 0, hits: request(peek("a", bucket(100, 0))), want: decisions(told(54*second, 0, spared(90, 10)))},
	}},
}
