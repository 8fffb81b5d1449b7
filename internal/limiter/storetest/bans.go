package storetest

import (
	"time"

	"weir/internal/limiter"
)

const ban = 10 * time.Minute

// banning bans who goes over three a minute.
var banning = banned(limiter.Spec{})

// banned is a limit of three a minute that bans.
func banned(s limiter.Spec) *limiter.Limit {
	s.RequestsPerUnit, s.Unit, s.DenyFor = 3, limiter.Minute, ban
	return Must(s)
}

// until is d of a counter whose ban ends after rest, which is after all else.
func until(rest time.Duration, d limiter.Decision) limiter.Decision {
	d.Remaining, d.ResetAfter = 0, rest
	if d.Over {
		d.RetryAfter = rest
	}
	return d
}

// banCases are lives of counters of limits with bans.
var banCases = []tableCase{
	{"ban: it begins with who goes over, and knocking does not extend it", []step{
		{at: 0, hits: request(take("a", banning, 3)), want: decisions(charged(3, 0))},
		{at: second, hits: request(take("a", banning, 1)), want: decisions(until(ban, over(3, 0))), denied: true},
		{at: 61 * second, hits: request(take("a", banning, 1)), want: decisions(until(ban-60*second, over(0, 0))), denied: true},
		{at: 61 * second, hits: request(take("a", banning, 4)), want: decisions(never(until(ban-60*second, over(0, 0)))), denied: true},
		{at: 2 * second, hits: request(peek("a", banning)), want: decisions(until(ban-second, over(3, 0))), denied: true},
		{at: second + ban - micro, hits: request(take("a", banning, 1)), want: decisions(told(minuteLeft-second+micro, micro, over(0, 0))), denied: true},
		{at: second + ban, hits: request(take("a", banning, 1)), want: decisions(left(minuteLeft-second, charged(1, 2)))},
	}},
	{"ban: it ends within a window that is used up", []step{
		{at: 0, hits: request(take("a", hourly, 3)), want: decisions(left(hourLeft, charged(3, 0)))},
		{at: second, hits: request(take("a", hourly, 1)), want: decisions(left(hourLeft-second, over(3, 0))), denied: true},
		{at: second + ban, hits: request(peek("a", hourly)), want: decisions(left(hourLeft-second-ban, over(3, 0))), denied: true},
		{at: second + ban, hits: request(refund("a", hourly, 1)), want: decisions(left(hourLeft-second-ban, charged(2, 1)))},
		{at: second + ban, hits: request(take("a", hourly, 1)), want: decisions(left(hourLeft-second-ban, charged(3, 0)))},
	}},
	{"ban: every algorithm has it", []step{
		{
			at: 0, denied: true,
			hits: request(take("f", firstHitBan, 4), take("s", slidingBan, 4), take("b", bucketBan, 4)),
			want: decisions(never(until(ban, over(0, 0))), never(until(ban, over(0, 0))), never(until(ban, over(0, 0)))),
		},
		{at: second, hits: request(take("f", firstHitBan, 1)), want: decisions(until(ban-second, over(0, 0))), denied: true},
		{at: second, hits: request(take("s", slidingBan, 1)), want: decisions(until(ban-second, over(0, 0))), denied: true},
		{at: second, hits: request(take("b", bucketBan, 1)), want: decisions(until(ban-second, over(0, 0))), denied: true},
		{
			at: ban, hits: request(take("f", firstHitBan, 1), take("s", slidingBan, 1), take("b", bucketBan, 1)),
			want: decisions(left(60*second, charged(1, 2)), left(minuteLeft+60*second, charged(1, 2)), left(20*second, charged(1, 2))),
		},
	}},
	{"ban: a peek begins none, nor does a limit in shadow mode or a quota", []step{
		{at: 0, hits: request(take("a", banning, 3)), want: decisions(charged(3, 0))},
		{at: 0, hits: request(peek("a", banning)), want: decisions(over(3, 0)), denied: true},
		{at: 0, hits: request(take("a", banned(limiter.Spec{Mode: limiter.Shadow}), 1)), want: decisions(over(3, 0))},
		{at: 0, hits: request(take("a", banned(limiter.Spec{Mode: limiter.Quota}), 1)), want: decisions(over(3, 0)), denied: true},
		{at: 0, hits: request(decidedIn(take("a", banning, 1), limiter.Shadow)), want: decisions(over(3, 0))},
		{at: 0, hits: request(decidedIn(take("a", banning, 1), limiter.Quota)), want: decisions(over(3, 0)), denied: true},
		{at: minuteLeft, hits: request(take("a", banning, 1)), want: decisions(left(60*second, charged(1, 2)))},
	}},
	{"ban: in shadow mode one that is in force denies nothing", []step{
		{at: 0, hits: request(take("a", banning, 4)), want: decisions(never(until(ban, over(0, 0)))), denied: true},
		{at: 0, hits: request(decidedIn(take("a", banning, 1), limiter.Shadow)), want: decisions(until(ban, over(0, 0)))},
	}},
	{"ban: of the limits that deny a request, those that are over begin one", []step{
		{at: 0, hits: request(take("a", banning, 1), take("b", enforced(0), 1)), want: decisions(spared(0, 3), never(over(0, 0))), denied: true},
		{at: 0, hits: request(take("a", banning, 3)), want: decisions(charged(3, 0))},
		{at: 0, hits: request(take("a", banning, 1), take("b", enforced(0), 1), take("c", banning, 1)), want: decisions(until(ban, over(3, 0)), never(over(0, 0)), spared(0, 3)), denied: true},
		{at: second, hits: request(take("c", banning, 1)), want: decisions(left(minuteLeft-second, charged(1, 2)))},
		{at: second, hits: request(take("a", banning, 1)), want: decisions(until(ban-second, over(3, 0))), denied: true},
	}},
	{"ban: what is charged always is written, and begins one", []step{
		{at: 0, hits: request(always("a", banning, 3)), want: decisions(charged(3, 0))},
		{at: 0, hits: request(always("a", banning, 2)), want: decisions(until(ban, overCharged(5, 0))), denied: true},
		{at: 70 * second, hits: request(always("a", banning, 2)), want: decisions(until(ban-70*second, overCharged(2, 0))), denied: true},
		{at: ban, hits: request(always("a", banning, 2)), want: decisions(charged(2, 1))},
	}},
	{"ban: a refund does not lift it", []step{
		{at: 0, hits: request(take("a", banning, 3)), want: decisions(charged(3, 0))},
		{at: 0, hits: request(take("a", banning, 1)), want: decisions(until(ban, over(3, 0))), denied: true},
		{at: second, hits: request(refund("a", banning, 2)), want: decisions(until(ban-second, charged(1, 0)))},
		{at: second, hits: request(refund("a", banning, 9)), want: decisions(until(ban-second, charged(0, 0)))},
		{at: second, hits: request(take("a", banning, 1)), want: decisions(until(ban-second, over(0, 0))), denied: true},
		{at: ban, hits: request(take("a", banning, 1)), want: decisions(charged(1, 2))},
	}},
	{"ban: with deny_for the count goes on, and without it the ban ends", []step{
		{at: 0, hits: request(take("a", three, 3)), want: decisions(charged(3, 0))},
		{at: 0, hits: request(take("a", banning, 1)), want: decisions(until(ban, over(3, 0))), denied: true},
		{at: second, hits: request(peek("a", three)), want: decisions(left(minuteLeft-second, over(3, 0))), denied: true},
		{at: second, hits: request(take("a", banning, 1)), want: decisions(until(ban-second, over(3, 0))), denied: true},
		{at: second, hits: request(take("a", enforced(5), 1)), want: decisions(left(minuteLeft-second, charged(4, 1)))},
		{at: second, hits: request(peek("a", banning)), want: decisions(left(minuteLeft-second, over(4, 0))), denied: true},
	}},
	{"ban: a clock that steps back, and a shorter deny_for, shorten it", []step{
		{at: 0, hits: request(take("a", banning, 4)), want: decisions(never(until(ban, over(0, 0)))), denied: true},
		{at: -20 * time.Minute, hits: request(take("a", banning, 1)), want: decisions(until(ban, over(0, 0))), denied: true},
		{at: -15 * time.Minute, hits: request(take("a", banning, 1)), want: decisions(until(ban/2, over(0, 0))), denied: true},
		{at: -15 * time.Minute, hits: request(take("a", shorter, 1)), want: decisions(until(time.Minute, over(0, 0))), denied: true},
		{at: -14 * time.Minute, hits: request(take("a", banning, 1)), want: decisions(charged(1, 2))},
	}},
}

var (
	hourly      = Must(limiter.Spec{RequestsPerUnit: 3, Unit: limiter.Hour, DenyFor: ban})
	shorter     = Must(limiter.Spec{RequestsPerUnit: 3, Unit: limiter.Minute, DenyFor: time.Minute})
	firstHitBan = banned(limiter.Spec{Anchor: limiter.FirstHit})
	slidingBan  = banned(limiter.Spec{Algorithm: limiter.SlidingWindow})
	bucketBan   = banned(limiter.Spec{Algorithm: limiter.TokenBucket})
)
