package storetest

import (
	"time"

	"weir/internal/limiter"
)

// The words in which the tables are written: limits, requests, decisions.

// Must makes a limit of a test, whose Spec is right.
func Must(s limiter.Spec) *limiter.Limit {
	l, err := limiter.NewLimit(s)
	if err != nil {
		panic(err)
	}
	return l
}

func per(amount uint64, unit limiter.Unit) *limiter.Limit {
	return Must(limiter.Spec{RequestsPerUnit: amount, Unit: unit})
}

// enforced, shadow and quota are limits per minute.
func enforced(amount uint64) *limiter.Limit { return per(amount, limiter.Minute) }

// three is the limit of most tables.
var three = enforced(3)

func shadow(amount uint64) *limiter.Limit {
	return Must(limiter.Spec{RequestsPerUnit: amount, Unit: limiter.Minute, Mode: limiter.Shadow})
}

func quota(amount uint64) *limiter.Limit {
	return Must(limiter.Spec{RequestsPerUnit: amount, Unit: limiter.Minute, Mode: limiter.Quota})
}

func request(hits ...limiter.Hit) []limiter.Hit { return hits }

func take(key string, l *limiter.Limit, cost uint64) limiter.Hit {
	return limiter.Hit{Key: []byte(key), Limit: l, Cost: cost}
}

func peek(key string, l *limiter.Limit) limiter.Hit { return take(key, l, 0) }

func refund(key string, l *limiter.Limit, cost uint64) limiter.Hit {
	return limiter.Hit{Key: []byte(key), Limit: l, Cost: cost, Refund: true}
}

func always(key string, l *limiter.Limit, cost uint64) limiter.Hit {
	return limiter.Hit{Key: []byte(key), Limit: l, Cost: cost, Always: true}
}

// admits is a step whose request is admitted, and denies one whose request is not.
func admits(at time.Duration, hits []limiter.Hit, want ...limiter.Decision) step {
	return step{at: at, hits: hits, want: want}
}

func denies(at time.Duration, hits []limiter.Hit, want ...limiter.Decision) step {
	return step{at: at, hits: hits, want: want, denied: true}
}

// charged fitted and was written. It, spared, over and overCharged are decisions
// on a limit per minute while the clock stands at start.
func charged(used, remaining int64) limiter.Decision {
	return limiter.Decision{Charged: true, Used: used, Remaining: remaining, ResetAfter: minuteLeft}
}

// spared fitted and was not written: a peek, or another hit denied the request.
func spared(used, remaining int64) limiter.Decision {
	return limiter.Decision{Used: used, Remaining: remaining, ResetAfter: minuteLeft}
}

// over did not fit and was not written.
func over(used, remaining int64) limiter.Decision {
	return limiter.Decision{Over: true, Used: used, Remaining: remaining, ResetAfter: minuteLeft, RetryAfter: minuteLeft}
}

// overCharged did not fit and was written all the same.
func overCharged(used, remaining int64) limiter.Decision {
	return limiter.Decision{Over: true, Charged: true, Used: used, Remaining: remaining, ResetAfter: minuteLeft, RetryAfter: minuteLeft}
}

// never is d where no waiting helps.
func never(d limiter.Decision) limiter.Decision {
	d.RetryAfter = limiter.Never
	return d
}

// atOnce is d where the request would be admitted now: it gave units back.
func atOnce(d limiter.Decision) limiter.Decision {
	d.RetryAfter = 0
	return d
}

// told is d with these times, for limits that are whole again before or after
// the end of a window.
func told(reset, retry time.Duration, d limiter.Decision) limiter.Decision {
	d.ResetAfter, d.RetryAfter = reset, retry
	return d
}

// left is d at another time or for another period: the window ends after rest.
func left(rest time.Duration, d limiter.Decision) limiter.Decision {
	d.ResetAfter = rest
	if d.RetryAfter > 0 {
		d.RetryAfter = rest
	}
	return d
}
