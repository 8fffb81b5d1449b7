package storetest

import (
	"encoding/binary"
	"time"

	"weir/internal/limiter"
)

// name is the name of a hold.
func name(n uint64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, limiter.HoldSize-8), n)
}

// atOncePer is a limit of so many at once, each for a minute at most.
func atOncePer(amount uint64, mode limiter.Mode) *limiter.Limit {
	return Must(limiter.Spec{RequestsPerUnit: amount, Unit: limiter.Minute, Algorithm: limiter.Concurrency, Mode: mode})
}

var (
	two       = atOncePer(2, limiter.Enforced)
	twoShadow = atOncePer(2, limiter.Shadow)
	twoQuota  = atOncePer(2, limiter.Quota)
)

// hold takes the hold of that number, and release gives it back.
func hold(l *limiter.Limit, n uint64) limiter.Hit {
	return limiter.Hit{Key: []byte("a"), Limit: l, Cost: 1, Hold: name(n)}
}

func release(l *limiter.Limit, n uint64) limiter.Hit {
	return limiter.Hit{Key: []byte("a"), Limit: l, Cost: 1, Hold: name(n), Refund: true}
}

// free asks whether there is room for one more.
func free(l *limiter.Limit) limiter.Hit {
	return limiter.Hit{Key: []byte("a"), Limit: l, Hold: name(99)}
}

// held is a decision on a limit of two: held so many now, and taken or given back.
func held(used int64) limiter.Decision {
	d := seen(used)
	d.Charged = true
	return d
}

// kept is held where nothing changed.
func kept(used int64) limiter.Decision {
	d := held(used)
	d.Already = true
	return d
}

// seen is held of a peek, or where another hit denied the request.
func seen(used int64) limiter.Decision {
	d := limiter.Decision{Used: used, Remaining: max(2-used, 0)}
	if used > 0 {
		d.ResetAfter = time.Minute
	}
	return d
}

// full is the decision on who comes too much.
func full(used int64) limiter.Decision {
	d := seen(used)
	d.Over, d.RetryAfter = true, time.Second
	return d
}

// concurrencyCases are limits of two at once. No case comes near the end of what a
// store expires in real time.
var concurrencyCases = []tableCase{
	{"holds: so many at once", []step{
		admits(0, request(hold(two, 1)), held(1)),
		admits(0, request(hold(two, 2)), held(2)),
		denies(0, request(hold(two, 3)), full(2)),
		admits(second, request(release(two, 1)), held(1)),
		admits(second, request(hold(two, 3)), held(2)),
		admits(2*second, request(release(two, 2)), held(1)),
		admits(2*second, request(release(two, 3)), held(0)),
	}},
	{"holds: given back once, and only what is held", []step{
		admits(0, request(hold(two, 1)), held(1)),
		admits(0, request(hold(two, 2)), held(2)),
		admits(0, request(release(two, 1)), held(1)),
		admits(0, request(release(two, 1)), kept(1)),
		admits(0, request(release(two, 7)), kept(1)),
		admits(0, request(hold(two, 3)), held(2)),
		denies(0, request(hold(two, 4)), full(2)),
		admits(0, request(release(two, 4)), kept(2)),
	}},
	{"holds: taken once under one name, even if all are taken", []step{
		admits(0, request(hold(two, 1)), held(1)),
		admits(0, request(hold(two, 1)), kept(1)),
		admits(0, request(hold(two, 2), hold(two, 2)), held(2), kept(2)),
		admits(0, request(hold(two, 1)), kept(2)),
		admits(0, request(release(two, 1)), held(1)),
	}},
	{"holds: each ends by itself, to the microsecond, and is not renewed", []step{
		admits(0, request(hold(two, 1)), held(1)),
		admits(30*second, request(hold(two, 2)), held(2)),
		admits(40*second, request(hold(two, 1)), kept(2)),
		denies(60*second-time.Microsecond, request(hold(two, 3)), full(2)),
		admits(60*second, request(hold(two, 3)), held(2)),
		admits(60*second, request(release(two, 1)), kept(2)),
		admits(90*second, request(free(two)), seen(1)),
		admits(90*second, request(release(two, 2)), kept(1)),
	}},
	{"holds: a peek takes nothing", []step{
		admits(0, request(free(two)), seen(0)),
		admits(0, request(hold(two, 1), hold(two, 2), release(two, 2)), held(1), held(1), held(1)),
		admits(0, request(free(two), hold(two, 2)), seen(2), held(2)),
		denies(0, request(free(two)), full(2)),
	}},
	{"holds: whatever the cost, a hold is one", []step{
		admits(0, request(costing(hold(two, 1), 5)), held(1)),
		admits(0, request(costing(hold(two, 2), 1<<63)), held(2)),
		admits(0, request(costing(release(two, 2), 1<<63)), held(1)),
	}},
	{"holds: a denied request takes none", []step{
		denies(0, request(hold(two, 1), take("b", three, 4)), seen(0), never(over(0, 3))),
		denies(0, request(hold(two, 1), hold(two, 2), hold(two, 3)), seen(0), seen(0), noWait(0)),
		admits(0, request(hold(two, 1)), held(1)),
		denies(0, request(hold(two, 1), take("b", three, 4)), already(seen(1)), never(over(0, 3))),
		admits(0, request(take("b", three, 1), hold(two, 2)), charged(1, 2), held(2)),
		denies(0, request(take("b", three, 1), hold(two, 3)), spared(1, 2), full(2)),
	}},
	{"holds: a denied request gives back all the same", []step{
		admits(0, request(hold(two, 1)), held(1)),
		denies(0, request(release(two, 1), take("b", three, 4)), held(0), never(over(0, 3))),
		admits(0, request(hold(two, 1)), held(1)),
		denies(0, request(release(two, 1), hold(two, 1), take("b", three, 4)), held(0), seen(0), never(over(0, 3))),
	}},
	{"holds: in shadow mode, those above the amount are not held", []step{
		admits(0, request(hold(twoShadow, 1), hold(twoShadow, 2)), held(2), held(2)),
		admits(0, request(hold(twoShadow, 3)), full(2)),
		admits(0, request(release(twoShadow, 3)), kept(2)),
		admits(0, request(release(twoShadow, 2)), held(1)),
	}},
	{"holds: a quota", []step{
		admits(0, request(hold(twoQuota, 1), hold(twoQuota, 2)), held(2), held(2)),
		admits(0, request(hold(twoQuota, 3), take("b", quota(3), 1)), full(2), charged(1, 2)),
		denies(0, request(hold(twoQuota, 3), take("b", quota(3), 3)), full(2), over(1, 2)),
	}},
	{"holds: a changed amount keeps them", []step{
		admits(0, request(hold(two, 1), hold(two, 2)), held(2), held(2)),
		denies(0, request(hold(atOncePer(1, 0), 3)), limiter.Decision{Over: true, Used: 2, ResetAfter: time.Minute, RetryAfter: time.Second}),
		denies(0, request(hold(atOncePer(0, 0), 3)), limiter.Decision{Over: true, Used: 2, ResetAfter: time.Minute, RetryAfter: limiter.Never}),
		admits(0, request(hold(atOncePer(0, 0), 2)), limiter.Decision{Charged: true, Already: true, Used: 2, ResetAfter: time.Minute}),
		admits(0, request(hold(atOncePer(9, 0), 3)), limiter.Decision{Charged: true, Used: 3, Remaining: 6, ResetAfter: time.Minute}),
	}},
	{"holds: a clock that steps back", []step{
		admits(time.Hour, request(hold(two, 1)), held(1)),
		admits(time.Hour+second, request(hold(two, 2)), held(2)),
		denies(0, request(hold(two, 3)), full(2)),
		admits(30*second, request(release(two, 1)), held(1)),
		admits(30*second, request(hold(two, 1)), held(2)),
		admits(60*second, request(free(two)), seen(1)),
		admits(90*second, request(free(two)), seen(0)),
	}},
}

func costing(h limiter.Hit, cost uint64) limiter.Hit {
	h.Cost = cost
	return h
}

// noWait is full where no waiting helps: the request asks for more than the amount.
func noWait(used int64) limiter.Decision { return never(full(used)) }

// already is d of a hold that is there.
func already(d limiter.Decision) limiter.Decision {
	d.Already = true
	return d
}
