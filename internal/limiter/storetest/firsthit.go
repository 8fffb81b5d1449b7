package storetest

import (
	"time"

	"weir/internal/limiter"
)

// twenty admits 20 in 30 seconds from the first hit.
var twenty = Must(limiter.Spec{RequestsPerUnit: 20, Unit: limiter.Second, UnitMultiplier: 30, Anchor: limiter.FirstHit})

// firstHitCases are lives of a counter whose windows start with their first hit.
var firstHitCases = []tableCase{
	{"first hit: the window starts with it and is not extended", []step{
		{at: 0, hits: request(take("a", twenty, 1)), want: decisions(left(30*second, charged(1, 19)))},
		{at: 10 * second, hits: request(take("a", twenty, 19)), want: decisions(left(20*second, charged(20, 0)))},
		{at: 10 * second, hits: request(take("a", twenty, 1)), want: decisions(left(20*second, over(20, 0))), denied: true},
		{at: 29 * second, hits: request(take("a", twenty, 1)), want: decisions(left(second, over(20, 0))), denied: true},
		{at: 30*second - micro, hits: request(peek("a", twenty)), want: decisions(left(micro, over(20, 0))), denied: true},
		{at: 30 * second, hits: request(take("a", twenty, 1)), want: decisions(left(30*second, charged(1, 19)))},
		{at: 45 * second, hits: request(peek("a", twenty)), want: decisions(left(15*second, spared(1, 19)))},
	}},
	{"first hit: the next window waits for the next hit", []step{
		{at: 0, hits: request(take("a", twenty, 20)), want: decisions(left(30*second, charged(20, 0)))},
		{at: 100 * second, hits: request(peek("a", twenty)), want: decisions(left(30*second, spared(0, 20)))},
		{at: 107 * second, hits: request(take("a", twenty, 5)), want: decisions(left(30*second, charged(5, 15)))},
		{at: 120 * second, hits: request(peek("a", twenty)), want: decisions(left(17*second, spared(5, 15)))},
	}},
	{"first hit: what takes nothing starts no window", []step{
		{at: 0, hits: request(peek("a", twenty)), want: decisions(left(30*second, spared(0, 20)))},
		{at: 1 * second, hits: request(take("a", twenty, 21)), want: decisions(never(left(30*second, over(0, 20)))), denied: true},
		{at: 2 * second, hits: request(refund("a", twenty, 3)), want: decisions(left(30*second, charged(0, 20)))},
		{
			at: 3 * second, hits: request(take("a", twenty, 1), take("b", enforced(0), 1)), denied: true,
			want: decisions(left(30*second, spared(0, 20)), never(left(minuteLeft-3*second, over(0, 0)))),
		},
		{at: 4 * second, hits: request(take("a", twenty, 2)), want: decisions(left(30*second, charged(2, 18)))},
		{at: 5 * second, hits: request(peek("a", twenty)), want: decisions(left(29*second, spared(2, 18)))},
	}},
	{"first hit: a refund of everything takes the window back", []step{
		{at: 0, hits: request(take("a", twenty, 2)), want: decisions(left(30*second, charged(2, 18)))},
		{at: 5 * second, hits: request(refund("a", twenty, 1)), want: decisions(left(25*second, charged(1, 19)))},
		{at: 6 * second, hits: request(refund("a", twenty, 1)), want: decisions(left(30*second, charged(0, 20)))},
		{at: 10 * second, hits: request(take("a", twenty, 20)), want: decisions(left(30*second, charged(20, 0)))},
		{at: 31 * second, hits: request(peek("a", twenty)), want: decisions(left(9*second, over(20, 0))), denied: true},
	}},
	{"first hit: a charge that does not fit starts one", []step{
		{at: 0, hits: request(always("a", twenty, 25)), want: decisions(never(left(30*second, overCharged(25, 0)))), denied: true},
		{at: 10 * second, hits: request(always("a", twenty, 1)), want: decisions(left(20*second, overCharged(26, 0))), denied: true},
		{at: 30 * second, hits: request(always("a", twenty, 1)), want: decisions(left(30*second, charged(1, 19)))},
	}},
	{"first hit: a changed amount keeps the count", []step{
		{at: 0, hits: request(take("a", twenty, 15)), want: decisions(left(30*second, charged(15, 5)))},
		{at: second, hits: request(peek("a", firstHit(10))), want: decisions(left(29*second, over(15, 0))), denied: true},
		{at: second, hits: request(take("a", firstHit(30), 15)), want: decisions(left(29*second, charged(30, 0)))},
	}},
}

func firstHit(amount uint64) *limiter.Limit {
	return Must(limiter.Spec{RequestsPerUnit: amount, Unit: limiter.Second, UnitMultiplier: 30, Anchor: limiter.FirstHit})
}

const (
	second = time.Second
	micro  = time.Microsecond
)
