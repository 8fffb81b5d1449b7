package storetest

import (
	"time"

	"weir/internal/limiter"
)

// mixedCases are requests whose limits count by different algorithms.
var mixedCases = []tableCase{
	{"three algorithms, all or nothing", []step{
		{
			at:   window1,
			hits: request(take("w", enforced(5), 2), take("s", sliding(10), 2), take("b", bucket(10, 3), 2), take("f", twenty, 2)),
			want: decisions(
				left(60*second, charged(2, 3)), told(120*second, 0, charged(2, 8)),
				told(12*second, 0, charged(2, 1)), left(30*second, charged(2, 18)),
			),
		},
		// The bucket denies.
		{
			at:   window1,
			hits: request(take("w", enforced(5), 2), take("s", sliding(10), 2), take("b", bucket(10, 3), 2), take("f", twenty, 2)),
			want: decisions(
				left(60*second, spared(2, 3)), told(120*second, 0, spared(2, 8)),
				told(12*second, 6*second, over(2, 1)), left(30*second, spared(2, 18)),
			),
			denied: true,
		},
		{
			at:   window1 + 6*second,
			hits: request(take("w", enforced(5), 2), take("s", sliding(10), 2), take("b", bucket(10, 3), 2), take("f", twenty, 2)),
			want: decisions(
				left(54*second, charged(4, 1)), told(114*second, 0, charged(4, 6)),
				told(18*second, 0, charged(3, 0)), left(24*second, charged(4, 16)),
			),
		},
		// The window and the bucket deny.
		{
			at:   window1 + 12*second,
			hits: request(take("w", enforced(5), 2), take("s", sliding(10), 2), take("b", bucket(10, 3), 2), take("f", twenty, 2)),
			want: decisions(
				left(48*second, over(4, 1)), told(108*second, 0, spared(4, 6)),
				told(12*second, 6*second, over(2, 1)), left(18*second, spared(4, 16)),
			),
			denied: true,
		},
		// The sliding window denies, which saw 4 of the 10 in the window before.
		{
			at:   window2,
			hits: request(take("w", enforced(5), 3), take("s", sliding(6), 3), take("b", bucket(10, 3), 3)),
			want: decisions(
				left(60*second, spared(0, 5)), told(60*second, 15*second, over(4, 2)), told(0, 0, spared(0, 3)),
			),
			denied: true,
		},
	}},
	{"always and refund beside a denial, by every algorithm", []step{
		{
			hits: request(take("z", enforced(0), 1), always("s", sliding(10), 4), always("b", ten, 12), always("f", twenty, 3)),
			want: decisions(
				never(over(0, 0)), told(minuteLeft+time.Minute, 0, charged(4, 6)),
				told(72*second, limiter.Never, overCharged(12, 0)), left(30*second, charged(3, 17)),
			),
			denied: true,
		},
		{
			hits: request(take("z", enforced(0), 1), refund("s", sliding(10), 1), refund("b", ten, 5), refund("f", twenty, 1)),
			want: decisions(
				never(over(0, 0)), told(minuteLeft+time.Minute, 0, charged(3, 7)),
				told(42*second, 0, charged(7, 3)), left(30*second, charged(2, 18)),
			),
			denied: true,
		},
	}},
	{"the same counter twice, by every algorithm", []step{
		{hits: request(take("s", sliding(3), 2), take("s", sliding(3), 1)), want: decisions(told(minuteLeft+time.Minute, 0, charged(3, 0)), told(minuteLeft+time.Minute, 0, charged(3, 0)))},
		{hits: request(take("t", sliding(3), 2), take("t", sliding(3), 2)), want: decisions(told(0, 0, spared(0, 3)), told(0, limiter.Never, over(0, 3))), denied: true},
		{hits: request(take("b", ten, 4), take("b", ten, 5)), want: decisions(told(54*second, 0, charged(9, 1)), told(54*second, 0, charged(9, 1)))},
		// The request needs two units, and comes back when both are there.
		{hits: request(take("b", ten, 1), take("b", ten, 1)), want: decisions(told(54*second, 0, spared(9, 1)), told(54*second, 6*second, over(9, 1))), denied: true},
		{at: 6 * second, hits: request(take("b", ten, 1), take("b", ten, 1)), want: decisions(told(60*second, 0, charged(10, 0)), told(60*second, 0, charged(10, 0)))},
		{at: 6 * second, hits: request(take("b", ten, 1), take("b", ten, 1)), want: decisions(told(60*second, 12*second, over(10, 0)), told(60*second, 12*second, over(10, 0))), denied: true},
		{at: 6 * second, hits: request(take("f", twenty, 20), peek("f", twenty)), want: decisions(left(30*second, spared(0, 20)), never(left(30*second, over(0, 20)))), denied: true},
	}},
	{"shadow and quota limits of every algorithm", []step{
		{
			hits: request(take("s", inMode(sliding(3), limiter.Shadow), 4), take("b", inMode(ten, limiter.Quota), 4), take("c", inMode(bucket(10, 3), limiter.Quota), 4)),
			want: decisions(told(0, limiter.Never, over(0, 3)), told(24*second, 0, charged(4, 6)), told(0, limiter.Never, over(0, 3))),
		},
		{
			hits:   request(take("s", inMode(sliding(3), limiter.Shadow), 1), take("b", inMode(ten, limiter.Quota), 8), take("c", inMode(bucket(10, 3), limiter.Quota), 4)),
			want:   decisions(told(0, 0, spared(0, 3)), told(24*second, 12*second, over(4, 6)), told(0, limiter.Never, over(0, 3))),
			denied: true,
		},
	}},
}

// inMode is l in another mode.
func inMode(l *limiter.Limit, m limiter.Mode) *limiter.Limit {
	s := l.Spec
	s.Mode = m
	return Must(s)
}
