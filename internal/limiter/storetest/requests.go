package storetest

import (
	"time"

	"weir/internal/limiter"
)

// requestCases are requests of several hits: peeks, hits that add up, all or
// nothing.
var requestCases = []tableCase{
	{"a peek asks for one more and writes nothing", []step{
		admits(0, request(peek("a", three)), spared(0, 3)),
		admits(0, request(peek("a", three), peek("a", three)), spared(0, 3), spared(0, 3)),
		admits(0, request(take("a", three, 2)), charged(2, 1)),
		admits(0, request(peek("a", three)), spared(2, 1)),
		admits(0, request(take("a", three, 1)), charged(3, 0)),
		denies(0, request(peek("a", three)), over(3, 0)),
		denies(0, request(peek("a", three)), over(3, 0)),
		admits(minuteLeft, request(peek("a", three)), left(time.Minute, spared(0, 3))),
	}},
	{"a peek over its limit denies the other hits", []step{
		admits(0, request(take("a", three, 3)), charged(3, 0)),
		denies(0, request(take("b", three, 1), peek("a", three)), spared(0, 3), over(3, 0)),
		denies(0, request(peek("a", three), take("b", three, 1)), over(3, 0), spared(0, 3)),
		admits(0, request(take("b", three, 3)), charged(3, 0)),
	}},
	{"a peek sees the earlier hits of its request", []step{
		admits(0, request(take("a", three, 2), peek("a", three)), charged(2, 1), spared(2, 1)),
		denies(0, request(take("a", three, 1), peek("a", three)), spared(2, 1), over(2, 1)),
		admits(0, request(peek("a", three), take("a", three, 1)), spared(3, 0), charged(3, 0)),
	}},
	{"hits on one counter add up: 1 and 2 of 3", []step{
		admits(0, request(take("a", three, 1), take("a", three, 2)), charged(3, 0), charged(3, 0)),
	}},
	{"hits on one counter add up: 2 and 2 of 3", []step{
		denies(0, request(take("a", three, 2), take("a", three, 2)), spared(0, 3), never(over(0, 3))),
		admits(0, request(take("a", three, 3)), charged(3, 0)),
	}},
	{"hits on one counter add up across other counters", []step{
		admits(0, request(take("a", three, 2), take("b", three, 1), take("a", three, 1)), charged(3, 0), charged(1, 2), charged(3, 0)),
		denies(0, request(take("b", three, 1), take("a", three, 1), take("b", three, 1)), spared(1, 2), over(3, 0), spared(1, 2)),
		admits(0, request(take("b", three, 2)), charged(3, 0)),
	}},
	{"a denied request takes nothing anywhere", []step{
		admits(0, request(take("a", three, 1), take("b", three, 3), take("c", enforced(9), 4)), charged(1, 2), charged(3, 0), charged(4, 5)),
		denies(0, request(take("a", three, 1), take("b", three, 1), take("c", enforced(9), 1), take("d", three, 1)), spared(1, 2), over(3, 0), spared(4, 5), spared(0, 3)),
		denies(0, request(take("b", three, 1), take("a", three, 3)), over(3, 0), over(1, 2)),
		admits(0, request(take("a", three, 2), take("c", enforced(9), 5), take("d", three, 3)), charged(3, 0), charged(9, 0), charged(3, 0)),
	}},
	{"a request denied in a new window takes nothing", []step{
		admits(0, request(take("a", three, 2), take("b", enforced(1), 1)), charged(2, 1), charged(1, 0)),
		denies(minuteLeft, request(take("a", three, 1), take("b", enforced(1), 2)), left(time.Minute, spared(0, 3)), never(left(time.Minute, over(0, 1)))),
		admits(minuteLeft, request(take("a", three, 3), take("b", enforced(1), 1)), left(time.Minute, charged(3, 0)), left(time.Minute, charged(1, 0))),
	}},
	{"limits of several periods are decided together", []step{
		admits(0, request(take("m", three, 3), take("h", per(4, limiter.Hour), 3), take("d", per(5, limiter.Day), 3)),
			charged(3, 0), left(hourLeft, charged(3, 1)), left(dayLeft, charged(3, 2))),
		denies(minuteLeft, request(take("m", three, 2), take("h", per(4, limiter.Hour), 2), take("d", per(5, limiter.Day), 2)),
			left(time.Minute, spared(0, 3)), left(hourLeft-minuteLeft, over(3, 1)), left(dayLeft-minuteLeft, spared(3, 2))),
		admits(hourLeft, request(take("m", three, 2), take("h", per(4, limiter.Hour), 2), take("d", per(5, limiter.Day), 2)),
			left(time.Minute, charged(2, 1)), left(time.Hour, charged(2, 2)), left(dayLeft-hourLeft, charged(5, 0))),
	}},
}

// modeCases are requests with limits that do not simply deny.
var modeCases = []tableCase{
	{"a shadow limit never denies", []step{
		admits(0, request(take("s", shadow(2), 2)), charged(2, 0)),
		admits(0, request(take("s", shadow(2), 1)), over(2, 0)),
		admits(0, request(peek("s", shadow(2))), over(2, 0)),
		admits(0, request(take("a", three, 1), take("s", shadow(2), 1)), charged(1, 2), over(2, 0)),
		admits(0, request(take("z", shadow(0), 1)), never(over(0, 0))),
	}},
	{"a shadow limit counts only admitted requests", []step{
		admits(0, request(take("s", shadow(9), 2), take("a", three, 3)), charged(2, 7), charged(3, 0)),
		denies(0, request(take("s", shadow(9), 2), take("a", three, 1)), spared(2, 7), over(3, 0)),
		admits(0, request(take("s", shadow(9), 1)), charged(3, 6)),
	}},
	{"one quota over leaves the request to the others", []step{
		admits(0, request(take("p", quota(2), 2), take("q", quota(5), 2)), charged(2, 0), charged(2, 3)),
		admits(0, request(take("p", quota(2), 1), take("q", quota(5), 1)), over(2, 0), charged(3, 2)),
		admits(0, request(take("p", quota(2), 1), take("q", quota(5), 2), take("a", three, 1)), over(2, 0), charged(5, 0), charged(1, 2)),
		denies(0, request(take("p", quota(2), 1), take("q", quota(5), 1)), over(2, 0), over(5, 0)),
		admits(0, request(peek("p", quota(9)), peek("q", quota(9))), spared(2, 7), spared(5, 4)),
	}},
	{"all quotas over deny the request", []step{
		admits(0, request(take("p", quota(2), 2)), charged(2, 0)),
		denies(0, request(take("p", quota(2), 1)), over(2, 0)),
		denies(0, request(take("a", three, 1), take("p", quota(2), 1), take("s", shadow(3), 1)), spared(0, 3), over(2, 0), spared(0, 3)),
		denies(0, request(take("p", quota(2), 1), take("q", quota(5), 6)), over(2, 0), never(over(0, 5))),
	}},
	{"quotas beside an enforced limit that is over", []step{
		admits(0, request(take("a", three, 3)), charged(3, 0)),
		denies(0, request(take("p", quota(2), 1), take("a", three, 1), take("q", quota(2), 3)), spared(0, 2), over(3, 0), never(over(0, 2))),
		admits(0, request(take("p", quota(2), 2)), charged(2, 0)),
	}},
	{"a hit's own mode holds instead of its limit's", []step{
		admits(0, request(decidedIn(take("a", three, 3), limiter.Shadow)), charged(3, 0)),
		admits(0, request(decidedIn(take("a", three, 1), limiter.Shadow)), over(3, 0)),
		admits(0, request(decidedIn(take("a", three, 1), limiter.Quota), decidedIn(take("b", three, 1), limiter.Quota)), over(3, 0), charged(1, 2)),
		admits(0, request(decidedIn(take("p", quota(2), 3), limiter.Shadow)), never(over(0, 2))),
		denies(0, request(decidedIn(take("a", three, 1), limiter.Enforced)), over(3, 0)),
		admits(0, request(decidedIn(take("s", shadow(2), 3), limiter.Enforced)), never(over(0, 2))),
	}},
}

// decidedIn is h in a mode that is not its limit's.
func decidedIn(h limiter.Hit, m limiter.Mode) limiter.Hit {
	h.Mode = m
	return h
}

// chargeCases are hits that are written whatever becomes of their request.
var chargeCases = []tableCase{
	{"always is written although it does not fit", []step{
		admits(0, request(always("a", three, 2)), charged(2, 1)),
		denies(0, request(always("a", three, 2)), overCharged(4, 0)),
		denies(0, request(always("a", three, 7)), never(overCharged(11, 0))),
		denies(0, request(take("a", three, 1)), over(11, 0)),
		denies(0, request(always("a", three, 0)), over(11, 0)),
		admits(minuteLeft, request(always("a", three, 1)), left(time.Minute, charged(1, 2))),
	}},
	{"a peek of what is charged always passes until more than the limit is used", []step{
		admits(0, request(always("a", three, 3)), charged(3, 0)),
		admits(0, request(always("a", three, 0)), spared(3, 0)),
		denies(0, request(peek("a", three)), over(3, 0)),
		admits(0, request(always("a", three, 0), take("b", three, 1)), spared(3, 0), charged(1, 2)),
		denies(0, request(always("a", three, 0), always("a", three, 1)), spared(4, 0), overCharged(4, 0)),
		denies(0, request(always("a", three, 0)), over(4, 0)),
		admits(0, request(always("none", enforced(0), 0)), spared(0, 0)),
		admits(minuteLeft, request(always("a", three, 0)), left(time.Minute, spared(0, 3))),
	}},
	{"such a peek of a sliding window and of a bucket", []step{
		admits(0, request(always("s", sliding(3), 3), always("b", bucket(1, 3), 3)), told(minuteLeft+time.Minute, 0, charged(3, 0)), told(3*time.Minute, 0, charged(3, 0))),
		admits(0, request(always("s", sliding(3), 0), always("b", bucket(1, 3), 0)), told(minuteLeft+time.Minute, 0, spared(3, 0)), told(3*time.Minute, 0, spared(3, 0))),
		denies(0, request(always("s", sliding(3), 1)), told(minuteLeft+time.Minute, minuteLeft+30*time.Second, overCharged(4, 0))),
		denies(0, request(always("b", bucket(1, 3), 1)), told(4*time.Minute, 2*time.Minute, overCharged(4, 0))),
		denies(0, request(always("s", sliding(3), 0)), told(minuteLeft+time.Minute, minuteLeft+15*time.Second, over(4, 0))),
		denies(0, request(always("b", bucket(1, 3), 0)), told(4*time.Minute, time.Minute, over(4, 0))),
	}},
	{"always is written although another hit denies", []step{
		admits(0, request(take("a", three, 3)), charged(3, 0)),
		denies(0, request(always("b", three, 2), take("a", three, 1), take("c", three, 1)), charged(2, 1), over(3, 0), spared(0, 3)),
		denies(0, request(take("a", three, 1), always("b", three, 2)), over(3, 0), overCharged(4, 0)),
		admits(0, request(take("c", three, 3)), charged(3, 0)),
	}},
	{"always over its limit denies the others", []step{
		denies(0, request(take("b", three, 1), always("a", three, 4)), spared(0, 3), never(overCharged(4, 0))),
		admits(0, request(take("b", three, 3)), charged(3, 0)),
	}},
	{"always counts for the later hits of its request", []step{
		denies(0, request(always("a", three, 3), take("a", three, 1)), charged(3, 0), never(over(3, 0))),
		denies(0, request(take("b", three, 3), always("b", three, 1)), spared(1, 2), never(overCharged(1, 2))),
	}},
	{"always on shadow and quota limits", []step{
		admits(0, request(always("s", shadow(3), 4)), never(overCharged(4, 0))),
		admits(0, request(always("p", quota(3), 4), take("q", quota(3), 1)), never(overCharged(4, 0)), charged(1, 2)),
		denies(0, request(always("p", quota(3), 1), take("q", quota(3), 3)), overCharged(5, 0), over(1, 2)),
	}},
	{"a refund gives back, not below 0", []step{
		admits(0, request(take("a", three, 3)), charged(3, 0)),
		admits(0, request(refund("a", three, 2)), charged(1, 2)),
		admits(0, request(refund("a", three, 2)), charged(0, 3)),
		admits(0, request(refund("a", three, 1)), charged(0, 3)),
		admits(0, request(take("a", three, 3)), charged(3, 0)),
		admits(0, request(refund("b", three, 5)), charged(0, 3)),
		admits(0, request(refund("z", enforced(0), 5)), charged(0, 0)),
	}},
	{"a refund is written although the request is denied", []step{
		admits(0, request(take("a", three, 3), take("b", three, 3)), charged(3, 0), charged(3, 0)),
		denies(0, request(refund("a", three, 1), take("b", three, 1)), charged(2, 1), over(3, 0)),
		denies(0, request(take("b", three, 1), refund("b", three, 2)), atOnce(over(1, 2)), charged(1, 2)),
		admits(0, request(take("a", three, 1), take("b", three, 2)), charged(3, 0), charged(3, 0)),
	}},
	{"a refund lets a later hit of its request pass", []step{
		admits(0, request(take("a", three, 3)), charged(3, 0)),
		admits(0, request(refund("a", three, 1), take("a", three, 1)), charged(3, 0), charged(3, 0)),
		denies(0, request(take("a", three, 1), refund("a", three, 1)), atOnce(over(2, 1)), charged(2, 1)),
	}},
	{"a refund reaches only the current window", []step{
		admits(0, request(take("a", three, 3)), charged(3, 0)),
		admits(minuteLeft, request(refund("a", three, 2)), left(time.Minute, charged(0, 3))),
		admits(minuteLeft, request(take("a", three, 3)), left(time.Minute, charged(3, 0))),
		denies(minuteLeft, request(take("a", three, 1)), left(time.Minute, over(3, 0))),
	}},
	{"a refund and an always of one denied request", []step{
		admits(0, request(take("a", three, 3), take("b", three, 2)), charged(3, 0), charged(2, 1)),
		denies(0, request(take("a", three, 1), refund("b", three, 1), always("b", three, 4), take("b", three, 1)),
			over(3, 0), charged(5, 0), never(overCharged(5, 0)), never(over(5, 0))),
	}},
}

// mixedCases are requests whose limits count by different algorithms.
var mixedCases = []tableCase{
	{"three algorithms, all or nothing", []step{
		admits(window1, request(take("w", enforced(5), 2), take("s", sliding(10), 2), take("b", bucket(10, 3), 2), take("f", twenty, 2)),
			left(60*second, charged(2, 3)), told(120*second, 0, charged(2, 8)), told(12*second, 0, charged(2, 1)), left(30*second, charged(2, 18))),
		// The bucket denies.
		denies(window1, request(take("w", enforced(5), 2), take("s", sliding(10), 2), take("b", bucket(10, 3), 2), take("f", twenty, 2)),
			left(60*second, spared(2, 3)), told(120*second, 0, spared(2, 8)), told(12*second, 6*second, over(2, 1)), left(30*second, spared(2, 18))),
		admits(window1+6*second, request(take("w", enforced(5), 2), take("s", sliding(10), 2), take("b", bucket(10, 3), 2), take("f", twenty, 2)),
			left(54*second, charged(4, 1)), told(114*second, 0, charged(4, 6)), told(18*second, 0, charged(3, 0)), left(24*second, charged(4, 16))),
		// The window and the bucket deny.
		denies(window1+12*second, request(take("w", enforced(5), 2), take("s", sliding(10), 2), take("b", bucket(10, 3), 2), take("f", twenty, 2)),
			left(48*second, over(4, 1)), told(108*second, 0, spared(4, 6)), told(12*second, 6*second, over(2, 1)), left(18*second, spared(4, 16))),
		// The sliding window denies, which saw 4 of the 10 in the window before.
		denies(window2, request(take("w", enforced(5), 3), take("s", sliding(6), 3), take("b", bucket(10, 3), 3)),
			left(60*second, spared(0, 5)), told(60*second, 15*second, over(4, 2)), told(0, 0, spared(0, 3))),
	}},
	{"always and refund beside a denial, by every algorithm", []step{
		denies(0, request(take("z", enforced(0), 1), always("s", sliding(10), 4), always("b", ten, 12), always("f", twenty, 3)),
			never(over(0, 0)), told(minuteLeft+time.Minute, 0, charged(4, 6)), told(72*second, limiter.Never, overCharged(12, 0)), left(30*second, charged(3, 17))),
		denies(0, request(take("z", enforced(0), 1), refund("s", sliding(10), 1), refund("b", ten, 5), refund("f", twenty, 1)),
			never(over(0, 0)), told(minuteLeft+time.Minute, 0, charged(3, 7)), told(42*second, 0, charged(7, 3)), left(30*second, charged(2, 18))),
	}},
	{"the same counter twice, by every algorithm", []step{
		admits(0, request(take("s", sliding(3), 2), take("s", sliding(3), 1)),
			told(minuteLeft+time.Minute, 0, charged(3, 0)), told(minuteLeft+time.Minute, 0, charged(3, 0))),
		denies(0, request(take("t", sliding(3), 2), take("t", sliding(3), 2)), told(0, 0, spared(0, 3)), told(0, limiter.Never, over(0, 3))),
		admits(0, request(take("b", ten, 4), take("b", ten, 5)), told(54*second, 0, charged(9, 1)), told(54*second, 0, charged(9, 1))),
		// The request needs two units, and comes back when both are there.
		denies(0, request(take("b", ten, 1), take("b", ten, 1)), told(54*second, 0, spared(9, 1)), told(54*second, 6*second, over(9, 1))),
		admits(6*second, request(take("b", ten, 1), take("b", ten, 1)), told(60*second, 0, charged(10, 0)), told(60*second, 0, charged(10, 0))),
		denies(6*second, request(take("b", ten, 1), take("b", ten, 1)), told(60*second, 12*second, over(10, 0)), told(60*second, 12*second, over(10, 0))),
		denies(6*second, request(take("f", twenty, 20), peek("f", twenty)), left(30*second, spared(0, 20)), never(left(30*second, over(0, 20)))),
	}},
	{"shadow and quota limits of every algorithm", []step{
		admits(0, request(take("s", inMode(sliding(3), limiter.Shadow), 4), take("b", inMode(ten, limiter.Quota), 4), take("c", inMode(bucket(10, 3), limiter.Quota), 4)),
			told(0, limiter.Never, over(0, 3)), told(24*second, 0, charged(4, 6)), told(0, limiter.Never, over(0, 3))),
		denies(0, request(take("s", inMode(sliding(3), limiter.Shadow), 1), take("b", inMode(ten, limiter.Quota), 8), take("c", inMode(bucket(10, 3), limiter.Quota), 4)),
			told(0, 0, spared(0, 3)), told(24*second, 12*second, over(4, 6)), told(0, limiter.Never, over(0, 3))),
	}},
}

// inMode is l in another mode.
func inMode(l *limiter.Limit, m limiter.Mode) *limiter.Limit {
	s := l.Spec
	s.Mode = m
	return Must(s)
}
