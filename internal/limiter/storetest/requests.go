package storetest

import (
	"time"

	"weir/internal/limiter"
)

// requestCases are requests of several hits: peeks, hits that add up, all or
// nothing.
var requestCases = []tableCase{
	{"a peek asks for one more and writes nothing", []step{
		{hits: request(peek("a", three)), want: decisions(spared(0, 3))},
		{hits: request(peek("a", three), peek("a", three)), want: decisions(spared(0, 3), spared(0, 3))},
		{hits: request(take("a", three, 2)), want: decisions(charged(2, 1))},
		{hits: request(peek("a", three)), want: decisions(spared(2, 1))},
		{hits: request(take("a", three, 1)), want: decisions(charged(3, 0))},
		{hits: request(peek("a", three)), want: decisions(over(3, 0)), denied: true},
		{hits: request(peek("a", three)), want: decisions(over(3, 0)), denied: true},
		{at: minuteLeft, hits: request(peek("a", three)), want: decisions(left(time.Minute, spared(0, 3)))},
	}},
	{"a peek over its limit denies the other hits", []step{
		{hits: request(take("a", three, 3)), want: decisions(charged(3, 0))},
		{hits: request(take("b", three, 1), peek("a", three)), want: decisions(spared(0, 3), over(3, 0)), denied: true},
		{hits: request(peek("a", three), take("b", three, 1)), want: decisions(over(3, 0), spared(0, 3)), denied: true},
		{hits: request(take("b", three, 3)), want: decisions(charged(3, 0))},
	}},
	{"a peek sees the earlier hits of its request", []step{
		{hits: request(take("a", three, 2), peek("a", three)), want: decisions(charged(2, 1), spared(2, 1))},
		{hits: request(take("a", three, 1), peek("a", three)), want: decisions(spared(2, 1), over(2, 1)), denied: true},
		{hits: request(peek("a", three), take("a", three, 1)), want: decisions(spared(3, 0), charged(3, 0))},
	}},
	{"hits on one counter add up: 1 and 2 of 3", []step{
		{hits: request(take("a", three, 1), take("a", three, 2)), want: decisions(charged(3, 0), charged(3, 0))},
	}},
	{"hits on one counter add up: 2 and 2 of 3", []step{
		{hits: request(take("a", three, 2), take("a", three, 2)), want: decisions(spared(0, 3), never(over(0, 3))), denied: true},
		{hits: request(take("a", three, 3)), want: decisions(charged(3, 0))},
	}},
	{"hits on one counter add up across other counters", []step{
		{
			hits: request(take("a", three, 2), take("b", three, 1), take("a", three, 1)),
			want: decisions(charged(3, 0), charged(1, 2), charged(3, 0)),
		},
		{
			hits: request(take("b", three, 1), take("a", three, 1), take("b", three, 1)), denied: true,
			want: decisions(spared(1, 2), over(3, 0), spared(1, 2)),
		},
		{hits: request(take("b", three, 2)), want: decisions(charged(3, 0))},
	}},
	{"a denied request takes nothing anywhere", []step{
		{
			hits: request(take("a", three, 1), take("b", three, 3), take("c", enforced(9), 4)),
			want: decisions(charged(1, 2), charged(3, 0), charged(4, 5)),
		},
		{
			hits: request(take("a", three, 1), take("b", three, 1), take("c", enforced(9), 1), take("d", three, 1)), denied: true,
			want: decisions(spared(1, 2), over(3, 0), spared(4, 5), spared(0, 3)),
		},
		{
			hits: request(take("b", three, 1), take("a", three, 3)), denied: true,
			want: decisions(over(3, 0), over(1, 2)),
		},
		{
			hits: request(take("a", three, 2), take("c", enforced(9), 5), take("d", three, 3)),
			want: decisions(charged(3, 0), charged(9, 0), charged(3, 0)),
		},
	}},
	{"a request denied in a new window takes nothing", []step{
		{hits: request(take("a", three, 2), take("b", enforced(1), 1)), want: decisions(charged(2, 1), charged(1, 0))},
		{
			at: minuteLeft, hits: request(take("a", three, 1), take("b", enforced(1), 2)), denied: true,
			want: decisions(left(time.Minute, spared(0, 3)), never(left(time.Minute, over(0, 1)))),
		},
		{
			at: minuteLeft, hits: request(take("a", three, 3), take("b", enforced(1), 1)),
			want: decisions(left(time.Minute, charged(3, 0)), left(time.Minute, charged(1, 0))),
		},
	}},
	{"limits of several periods are decided together", []step{
		{
			hits: request(take("m", three, 3), take("h", per(4, limiter.Hour), 3), take("d", per(5, limiter.Day), 3)),
			want: decisions(charged(3, 0), left(hourLeft, charged(3, 1)), left(dayLeft, charged(3, 2))),
		},
		{
			at: minuteLeft, hits: request(take("m", three, 2), take("h", per(4, limiter.Hour), 2), take("d", per(5, limiter.Day), 2)), denied: true,
			want: decisions(left(time.Minute, spared(0, 3)), left(hourLeft-minuteLeft, over(3, 1)), left(dayLeft-minuteLeft, spared(3, 2))),
		},
		{
			at: hourLeft, hits: request(take("m", three, 2), take("h", per(4, limiter.Hour), 2), take("d", per(5, limiter.Day), 2)),
			want: decisions(left(time.Minute, charged(2, 1)), left(time.Hour, charged(2, 2)), left(dayLeft-hourLeft, charged(5, 0))),
		},
	}},
}
