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
		{hits: request(hold(two, 1)), want: decisions(held(1))},
		{hits: request(hold(two, 2)), want: decisions(held(2))},
		{hits: request(hold(two, 3)), want: decisions(full(2)), denied: true},
		{at: second, hits: request(release(two, 1)), want: decisions(held(1))},
		{at: second, hits: request(hold(two, 3)), want: decisions(held(2))},
		{at: 2 * second, hits: request(release(two, 2)), want: decisions(held(1))},
		{at: 2 * second, hits: request(release(two, 3)), want: decisions(held(0))},
	}},
	{"holds: given back once, and only what is held", []step{
		{hits: request(hold(two, 1)), want: decisions(held(1))},
		{hits: request(hold(two, 2)), want: decisions(held(2))},
		{hits: request(release(two, 1)), want: decisions(held(1))},
		{hits: request(release(two, 1)), want: decisions(kept(1))},
		{hits: request(release(two, 7)), want: decisions(kept(1))},
		{hits: request(hold(two, 3)), want: decisions(held(2))},
		{hits: request(hold(two, 4)), want: decisions(full(2)), denied: true},
		{hits: request(release(two, 4)), want: decisions(kept(2))},
	}},
	{"holds: taken once under one name, even if all are taken", []step{
		{hits: request(hold(two, 1)), want: decisions(held(1))},
		{hits: request(hold(two, 1)), want: decisions(kept(1))},
		{hits: request(hold(two, 2), hold(two, 2)), want: decisions(held(2), kept(2))},
		{hits: request(hold(two, 1)), want: decisions(kept(2))},
		{hits: request(release(two, 1)), want: decisions(held(1))},
	}},
	{"holds: each ends by itself, to the microsecond, and is not renewed", []step{
		{hits: request(hold(two, 1)), want: decisions(held(1))},
		{at: 30 * second, hits: request(hold(two, 2)), want: decisions(held(2))},
		{at: 40 * second, hits: request(hold(two, 1)), want: decisions(kept(2))},
		{at: 60*second - time.Microsecond, hits: request(hold(two, 3)), want: decisions(full(2)), denied: true},
		{at: 60 * second, hits: request(hold(two, 3)), want: decisions(held(2))},
		{at: 60 * second, hits: request(release(two, 1)), want: decisions(kept(2))},
		{at: 90 * second, hits: request(free(two)), want: decisions(seen(1))},
		{at: 90 * second, hits: request(release(two, 2)), want: decisions(kept(1))},
	}},
	{"holds: a peek takes nothing", []step{
		{hits: request(free(two)), want: decisions(seen(0))},
		{hits: request(hold(two, 1), hold(two, 2), release(two, 2)), want: decisions(held(1), held(1), held(1))},
		{hits: request(free(two), hold(two, 2)), want: decisions(seen(2), held(2))},
		{hits: request(free(two)), want: decisions(full(2)), denied: true},
	}},
	{"holds: whatever the cost, a hold is one", []step{
		{hits: request(costing(hold(two, 1), 5)), want: decisions(held(1))},
		{hits: request(costing(hold(two, 2), 1<<63)), want: decisions(held(2))},
		{hits: request(costing(release(two, 2), 1<<63)), want: decisions(held(1))},
	}},
	{"holds: a denied request takes none", []step{
		{hits: request(hold(two, 1), take("b", three, 4)), want: decisions(seen(0), never(over(0, 3))), denied: true},
		{hits: request(hold(two, 1), hold(two, 2), hold(two, 3)), want: decisions(seen(0), seen(0), noWait(0)), denied: true},
		{hits: request(hold(two, 1)), want: decisions(held(1))},
		{hits: request(hold(two, 1), take("b", three, 4)), want: decisions(already(seen(1)), never(over(0, 3))), denied: true},
		{hits: request(take("b", three, 1), hold(two, 2)), want: decisions(charged(1, 2), held(2))},
		{hits: request(take("b", three, 1), hold(two, 3)), want: decisions(spared(1, 2), full(2)), denied: true},
	}},
	{"holds: a denied request gives back all the same", []step{
		{hits: request(hold(two, 1)), want: decisions(held(1))},
		{hits: request(release(two, 1), take("b", three, 4)), want: decisions(held(0), never(over(0, 3))), denied: true},
		{hits: request(hold(two, 1)), want: decisions(held(1))},
		{hits: request(release(two, 1), hold(two, 1), take("b", three, 4)), want: decisions(held(0), seen(0), never(over(0, 3))), denied: true},
	}},
	{"holds: in shadow mode, those above the amount are not held", []step{
		{hits: request(hold(twoShadow, 1), hold(twoShadow, 2)), want: decisions(held(2), held(2))},
		{hits: request(hold(twoShadow, 3)), want: decisions(full(2))},
		{hits: request(release(twoShadow, 3)), want: decisions(kept(2))},
		{hits: request(release(twoShadow, 2)), want: decisions(held(1))},
	}},
	{"holds: a quota", []step{
		{hits: request(hold(twoQuota, 1), hold(twoQuota, 2)), want: decisions(held(2), held(2))},
		{hits: request(hold(twoQuota, 3), take("b", quota(3), 1)), want: decisions(full(2), charged(1, 2))},
		{hits: request(hold(twoQuota, 3), take("b", quota(3), 3)), want: decisions(full(2), over(1, 2)), denied: true},
	}},
	{"holds: a changed amount keeps them", []step{
		{hits: request(hold(two, 1), hold(two, 2)), want: decisions(held(2), held(2))},
		{hits: request(hold(atOncePer(1, 0), 3)), want: decisions(limiter.Decision{Over: true, Used: 2, ResetAfter: time.Minute, RetryAfter: time.Second}), denied: true},
		{hits: request(hold(atOncePer(0, 0), 3)), want: decisions(limiter.Decision{Over: true, Used: 2, ResetAfter: time.Minute, RetryAfter: limiter.Never}), denied: true},
		{hits: request(hold(atOncePer(0, 0), 2)), want: decisions(limiter.Decision{Charged: true, Already: true, Used: 2, ResetAfter: time.Minute})},
		{hits: request(hold(atOncePer(9, 0), 3)), want: decisions(limiter.Decision{Charged: true, Used: 3, Remaining: 6, ResetAfter: time.Minute})},
	}},
	{"holds: a clock that steps back", []step{
		{at: time.Hour, hits: request(hold(two, 1)), want: decisions(held(1))},
		{at: time.Hour + second, hits: request(hold(two, 2)), want: decisions(held(2))},
		{at: 0, hits: request(hold(two, 3)), want: decisions(full(2)), denied: true},
		{at: 30 * second, hits: request(release(two, 1)), want: decisions(held(1))},
		{at: 30 * second, hits: request(hold(two, 1)), want: decisions(held(2))},
		{at: 60 * second, hits: request(free(two)), want: decisions(seen(1))},
		{at: 90 * second, hits: request(free(two)), want: decisions(seen(0))},
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
