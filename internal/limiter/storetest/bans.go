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
		admits(0, request(take("a", banning, 3)), charged(3, 0)),
		denies(second, request(take("a", banning, 1)), until(ban, over(3, 0))),
		denies(61*second, request(take("a", banning, 1)), until(ban-60*second, over(0, 0))),
		denies(61*second, request(take("a", banning, 4)), never(until(ban-60*second, over(0, 0)))),
		denies(2*second, request(peek("a", banning)), until(ban-second, over(3, 0))),
		denies(second+ban-micro, request(take("a", banning, 1)), told(minuteLeft-second+micro, micro, over(0, 0))),
		admits(second+ban, request(take("a", banning, 1)), left(minuteLeft-second, charged(1, 2))),
	}},
	{"ban: it ends within a window that is used up", []step{
		admits(0, request(take("a", hourly, 3)), left(hourLeft, charged(3, 0))),
		denies(second, request(take("a", hourly, 1)), left(hourLeft-second, over(3, 0))),
		denies(second+ban, request(peek("a", hourly)), left(hourLeft-second-ban, over(3, 0))),
		admits(second+ban, request(refund("a", hourly, 1)), left(hourLeft-second-ban, charged(2, 1))),
		admits(second+ban, request(take("a", hourly, 1)), left(hourLeft-second-ban, charged(3, 0))),
	}},
	{"ban: every algorithm has it", []step{
		denies(0, request(take("f", firstHitBan, 4), take("s", slidingBan, 4), take("b", bucketBan, 4)),
			never(until(ban, over(0, 0))), never(until(ban, over(0, 0))), never(until(ban, over(0, 0)))),
		denies(second, request(take("f", firstHitBan, 1)), until(ban-second, over(0, 0))),
		denies(second, request(take("s", slidingBan, 1)), until(ban-second, over(0, 0))),
		denies(second, request(take("b", bucketBan, 1)), until(ban-second, over(0, 0))),
		admits(ban, request(take("f", firstHitBan, 1), take("s", slidingBan, 1), take("b", bucketBan, 1)),
			left(60*second, charged(1, 2)), left(minuteLeft+60*second, charged(1, 2)), left(20*second, charged(1, 2))),
	}},
	{"ban: a peek begins none, nor does a limit in shadow mode or a quota", []step{
		admits(0, request(take("a", banning, 3)), charged(3, 0)),
		denies(0, request(peek("a", banning)), over(3, 0)),
		admits(0, request(take("a", banned(limiter.Spec{Mode: limiter.Shadow}), 1)), over(3, 0)),
		denies(0, request(take("a", banned(limiter.Spec{Mode: limiter.Quota}), 1)), over(3, 0)),
		admits(0, request(decidedIn(take("a", banning, 1), limiter.Shadow)), over(3, 0)),
		denies(0, request(decidedIn(take("a", banning, 1), limiter.Quota)), over(3, 0)),
		admits(minuteLeft, request(take("a", banning, 1)), left(60*second, charged(1, 2))),
	}},
	{"ban: in shadow mode one that is in force denies nothing", []step{
		denies(0, request(take("a", banning, 4)), never(until(ban, over(0, 0)))),
		admits(0, request(decidedIn(take("a", banning, 1), limiter.Shadow)), until(ban, over(0, 0))),
	}},
	{"ban: of the limits that deny a request, those that are over begin one", []step{
		denies(0, request(take("a", banning, 1), take("b", enforced(0), 1)), spared(0, 3), never(over(0, 0))),
		admits(0, request(take("a", banning, 3)), charged(3, 0)),
		denies(0, request(take("a", banning, 1), take("b", enforced(0), 1), take("c", banning, 1)), until(ban, over(3, 0)), never(over(0, 0)), spared(0, 3)),
		admits(second, request(take("c", banning, 1)), left(minuteLeft-second, charged(1, 2))),
		denies(second, request(take("a", banning, 1)), until(ban-second, over(3, 0))),
	}},
	{"ban: what is charged always is written, and begins one", []step{
		admits(0, request(always("a", banning, 3)), charged(3, 0)),
		denies(0, request(always("a", banning, 2)), until(ban, overCharged(5, 0))),
		denies(70*second, request(always("a", banning, 2)), until(ban-70*second, overCharged(2, 0))),
		admits(ban, request(always("a", banning, 2)), charged(2, 1)),
	}},
	{"ban: a refund does not lift it", []step{
		admits(0, request(take("a", banning, 3)), charged(3, 0)),
		denies(0, request(take("a", banning, 1)), until(ban, over(3, 0))),
		admits(second, request(refund("a", banning, 2)), until(ban-second, charged(1, 0))),
		admits(second, request(refund("a", banning, 9)), until(ban-second, charged(0, 0))),
		denies(second, request(take("a", banning, 1)), until(ban-second, over(0, 0))),
		admits(ban, request(take("a", banning, 1)), charged(1, 2)),
	}},
	{"ban: with deny_for the count goes on, and without it the ban ends", []step{
		admits(0, request(take("a", three, 3)), charged(3, 0)),
		denies(0, request(take("a", banning, 1)), until(ban, over(3, 0))),
		denies(second, request(peek("a", three)), left(minuteLeft-second, over(3, 0))),
		denies(second, request(take("a", banning, 1)), until(ban-second, over(3, 0))),
		admits(second, request(take("a", enforced(5), 1)), left(minuteLeft-second, charged(4, 1))),
		denies(second, request(peek("a", banning)), left(minuteLeft-second, over(4, 0))),
	}},
	{"ban: a clock that steps back, and a shorter deny_for, shorten it", []step{
		denies(0, request(take("a", banning, 4)), never(until(ban, over(0, 0)))),
		denies(-20*time.Minute, request(take("a", banning, 1)), until(ban, over(0, 0))),
		denies(-15*time.Minute, request(take("a", banning, 1)), until(ban/2, over(0, 0))),
		denies(-15*time.Minute, request(take("a", shorter, 1)), until(time.Minute, over(0, 0))),
		admits(-14*time.Minute, request(take("a", banning, 1)), charged(1, 2)),
	}},
}

var (
	hourly      = Must(limiter.Spec{RequestsPerUnit: 3, Unit: limiter.Hour, DenyFor: ban})
	shorter     = Must(limiter.Spec{RequestsPerUnit: 3, Unit: limiter.Minute, DenyFor: time.Minute})
	firstHitBan = banned(limiter.Spec{Anchor: limiter.FirstHit})
	slidingBan  = banned(limiter.Spec{Algorithm: limiter.SlidingWindow})
	bucketBan   = banned(limiter.Spec{Algorithm: limiter.TokenBucket})
)
