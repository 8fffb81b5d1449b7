package storetest

import (
	"math"
	"time"

	"weir/internal/limiter"
)

// monthly and monthlyBucket are limits per month of 30 days.
func monthly(amount uint64) *limiter.Limit {
	return Must(limiter.Spec{RequestsPerUnit: amount, Unit: limiter.Month, Algorithm: limiter.SlidingWindow})
}

func monthlyBucket(amount, burst uint64) *limiter.Limit {
	return Must(limiter.Spec{RequestsPerUnit: amount, Unit: limiter.Month, Algorithm: limiter.TokenBucket, Burst: burst})
}

// million is so much that its product with a day in microseconds exceeds 2^53.
var million = Must(limiter.Spec{RequestsPerUnit: 1_000_000, Unit: limiter.Day, Algorithm: limiter.SlidingWindow})

const (
	month     = 30 * 24 * time.Hour
	monthLeft = 4*24*time.Hour + dayLeft
	debtGone  = monthLeft + month - 440_639_999_740*micro // but for what fits beside a unit
)

// largeCases are limits of large amounts in long periods, which count to the
// microsecond like any others, and share their counters with small ones when an
// amount is changed.
var largeCases = []tableCase{
	{"sliding: a large amount in a long period", []step{
		admits(0, request(take("a", million, 999_999)), told(dayLeft+24*time.Hour, 0, charged(999_999, 1))),
		// A unit of the 999,999 takes 86,400.09 µs to go out of sight.
		denies(123*micro, request(take("a", million, 2)), told(dayLeft+24*time.Hour-123*micro, dayLeft-123*micro+86_401*micro, over(999_999, 1))),
		denies(dayLeft+86_400*micro, request(take("a", million, 2)), told(24*time.Hour-86_400*micro, micro, over(999_999, 1))),
		admits(dayLeft+86_401*micro, request(take("a", million, 2)), told(48*time.Hour-86_401*micro, 0, charged(1_000_000, 0))),
	}},
	{"sliding: an amount changed to a much larger one and back", []step{
		admits(0, request(take("a", monthly(500), 400)), told(monthLeft+month, 0, charged(400, 100))),
		admits(0, request(take("a", monthly(600), 100)), told(monthLeft+month, 0, charged(500, 100))),
		admits(0, request(take("a", monthly(1_000_000), 500_000)), told(monthLeft+month, 0, charged(500_500, 499_500))),
		denies(0, request(take("a", monthly(500), 1)), told(monthLeft+month, monthLeft+month-2_584_231_768*micro, over(500_500, 0))),
		admits(0, request(refund("a", monthly(500), 500_100)), told(monthLeft+month, 0, charged(400, 100))),
		admits(0, request(take("a", monthly(1_700_000_000), 1_699_999_600)), told(monthLeft+month, 0, charged(1_700_000_000, 0))),
	}},
	{"sliding: a debt of many times the amount", []step{
		denies(0, request(always("a", monthly(1_700_000_000), 10_000_000_000)), never(told(monthLeft+month, 0, overCharged(10_000_000_000, 0)))),
		// A unit takes 259.2 µs to go out of sight.
		denies(0, request(take("a", monthly(1_700_000_000), 1)), told(monthLeft+month, debtGone, over(10_000_000_000, 0))),
		denies(monthLeft+month/2, request(peek("a", monthly(1_700_000_000))), told(month/2, debtGone-monthLeft-month/2, over(5_000_000_000, 0))),
		denies(debtGone-micro, request(take("a", monthly(1_700_000_000), 1)), told(month+monthLeft-debtGone+micro, micro, over(1_700_000_000, 0))),
		admits(debtGone, request(take("a", monthly(1_700_000_000), 1)), told(2*month+monthLeft-debtGone, 0, charged(1_700_000_000, 0))),
	}},
	{"bucket: an amount changed to a much larger one and back", []step{
		admits(0, request(take("a", monthlyBucket(1000, 0), 600)), told(432*time.Hour, 0, charged(600, 400))),
		admits(second, request(take("a", monthlyBucket(1001, 0), 1)), told(1_556_234_764_236*micro, 0, charged(601, 400))),
		admits(2*second, request(take("a", monthlyBucket(50_000_017, 0), 1000)), told(81_995_792*micro, 0, charged(1582, 49_998_435))),
		denies(3*second, request(take("a", monthlyBucket(1000, 0), 1)), told(4_099_789_982*time.Millisecond, 1_510_381_982*time.Millisecond, over(1582, 0))),
		admits(3*second, request(refund("a", monthlyBucket(1000, 0), 1000)), told(1_507_789_982*time.Millisecond, 0, charged(582, 418))),
	}},
	{"bucket: a burst that refills in less than a second", []step{
		// A unit takes 51,839.98 µs.
		admits(0, request(take("a", monthlyBucket(50_000_017, 10), 10)), told(518_400*micro, 0, charged(10, 0))),
		denies(51_839*micro, request(take("a", monthlyBucket(50_000_017, 10), 1)), told(466_561*micro, micro, over(10, 0))),
		admits(51_840*micro, request(take("a", monthlyBucket(50_000_017, 10), 1)), told(518_400*micro, 0, charged(10, 0))),
		denies(51_840*micro, request(take("a", monthlyBucket(50_000_017, 10), 1)), told(518_400*micro, 51_840*micro, over(10, 0))),
	}},
	{"bucket: the largest burst", []step{
		// It drains 2^33 units a second: 131,072 s for all, 1 us for each 8,589.9 units.
		admits(0, request(take("a", vastBucket, limiter.MaxAmount)), told(131_072*second, 0, charged(limiter.MaxAmount, 0))),
		denies(0, request(take("a", vastBucket, 8590)), told(131_072*second, 2*micro, over(limiter.MaxAmount, 0))),
		admits(micro, request(take("a", vastBucket, 8589)), told(131_072*second, 0, charged(limiter.MaxAmount, 0))),
		admits(second+micro, request(peek("a", vastBucket)), told(131_071*second, 0, spared(limiter.MaxAmount-1<<33, 1<<33))),
	}},
	{"bucket: the largest there is", []step{
		admits(0, request(take("a", hugeBucket, math.MaxUint32)), told(24*time.Hour, 0, charged(math.MaxUint32, 0))),
		denies(0, request(always("a", hugeBucket, math.MaxUint64)), told(48*time.Hour, limiter.Never, overCharged(2*math.MaxUint32, 0))),
		denies(12*time.Hour, request(take("a", hugeBucket, 1)), told(36*time.Hour, 12*time.Hour+21*micro, over(6_442_450_943, 0))),
	}},
}

var vastBucket = Must(limiter.Spec{RequestsPerUnit: 1 << 33, Unit: limiter.Second, Algorithm: limiter.TokenBucket, Burst: limiter.MaxAmount})

var hugeBucket = Must(limiter.Spec{RequestsPerUnit: math.MaxUint32, Unit: limiter.Day, Algorithm: limiter.TokenBucket})
