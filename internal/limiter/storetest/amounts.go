package storetest

import (
	"math"

	"weir/internal/limiter"
)

// amountCases are lives of one counter within one window.
var amountCases = []tableCase{
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
}

// most is the largest limit. Costs and counters of windows end at
// maxCount, far above it.
var most = enforced(limiter.MaxAmount)

const maxCount = 1 << 52

var saturationCases = []tableCase{
	{"a large amount is counted to the last unit", []step{
		{hits: request(take("a", most, limiter.MaxAmount-1)), want: decisions(charged(limiter.MaxAmount-1, 1))},
		{hits: request(take("a", most, 2)), want: decisions(over(limiter.MaxAmount-1, 1)), denied: true},
		{hits: request(peek("a", most)), want: decisions(spared(limiter.MaxAmount-1, 1))},
		{hits: request(take("a", most, 1)), want: decisions(charged(limiter.MaxAmount, 0))},
		{hits: request(peek("a", most)), want: decisions(over(limiter.MaxAmount, 0)), denied: true},
		{hits: request(refund("a", most, 1<<49)), want: decisions(charged(1<<49, 1<<49))},
		{hits: request(take("a", most, 1<<48), take("a", most, 1<<48)), want: decisions(charged(limiter.MaxAmount, 0), charged(limiter.MaxAmount, 0))},
		{hits: request(take("a", enforced(1000), 1)), want: decisions(over(limiter.MaxAmount, 0)), denied: true},
	}},
	{"costs and counters saturate", []step{
		{hits: request(take("a", most, limiter.MaxAmount)), want: decisions(charged(limiter.MaxAmount, 0))},
		{hits: request(take("a", most, 1<<63)), want: decisions(never(over(limiter.MaxAmount, 0))), denied: true},
		{hits: request(take("a", most, math.MaxUint64)), want: decisions(never(over(limiter.MaxAmount, 0))), denied: true},
		{hits: request(always("a", most, maxCount-1)), want: decisions(never(overCharged(maxCount, 0))), denied: true},
		{hits: request(always("a", most, 1)), want: decisions(overCharged(maxCount, 0)), denied: true},
		{
			hits: request(always("a", most, 1<<63), always("a", most, math.MaxUint64)), denied: true,
			want: decisions(never(overCharged(maxCount, 0)), never(overCharged(maxCount, 0))),
		},
		{hits: request(refund("a", most, maxCount-5)), want: decisions(charged(5, limiter.MaxAmount-5))},
		{hits: request(refund("a", most, math.MaxUint64)), want: decisions(charged(0, limiter.MaxAmount))},
		{hits: request(always("a", most, maxCount-1)), want: decisions(never(overCharged(maxCount-1, 0))), denied: true},
		{hits: request(always("a", most, 2)), want: decisions(overCharged(maxCount, 0)), denied: true},
	}},
}
