package limiter

import (
	"math"
	"strings"
	"testing"
	"time"

	"weir/internal/testenv"
)

func TestParseUnit(t *testing.T) {
	durations := map[string]time.Duration{
		"second": time.Second, "minute": time.Minute, "hour": time.Hour,
		"day": day, "week": 7 * day, "month": 30 * day, "year": 365 * day,
	}
	testenv.Equal(t, strings.Join(UnitNames(), " "), "second minute hour day week month year", "units")
	for name, want := range durations {
		if u, ok := ParseUnit(strings.ToUpper(name[:1]) + name[1:]); !ok || u.Duration() != want || u.String() != name {
			t.Errorf("ParseUnit(%q) is %v of %v, %v", name, u, u.Duration(), ok)
		}
	}
	for _, name := range []string{"", "unknown", "UNKNOWN", "seconds", "min", " day", "decade"} {
		if u, ok := ParseUnit(name); ok || u != 0 {
			t.Errorf("ParseUnit(%q) is %v, %v, want none", name, u, ok)
		}
	}
}

func TestNewLimitRefuses(t *testing.T) {
	const (
		undefined = "unknown unit; use one of second, minute, hour, day, week, month, year"
		noPlace   = " do not divide the calendar evenly, allowed values of unit_multiplier with algorithm calendar are "
		zones     = "; use a name of the IANA database, such as UTC or Europe/Berlin"
		inexact   = " needs numbers above 2^53, which cannot be counted exactly; use a smaller amount, a shorter period or a fixed window"
	)
	for _, tc := range []struct {
		spec Spec
		want string
	}{
		{Spec{Unit: Second, UnitMultiplier: 3_153_600_000}, ""},
		{Spec{Unit: Second, UnitMultiplier: 3_153_600_001}, "a period of 3153600001 seconds is too long, at most 100 years are allowed"},
		{Spec{}, undefined},
		{Spec{Unit: Year + 1}, undefined},
		{Spec{Unlimited: true}, ""},
		{Spec{Unit: Month, RequestsPerUnit: MaxAmount + 1}, "an amount of 1125899906842625 is too large, at most 1125899906842624 is allowed"},
		{Spec{Unit: Second, RequestsPerUnit: 1 << 33, Algorithm: TokenBucket, Burst: MaxAmount}, ""},
		{
			Spec{Unit: Second, RequestsPerUnit: 1 << 33, Algorithm: TokenBucket, Burst: math.MaxUint64},
			"an amount of 18446744073709551615 is too large, at most 1125899906842624 is allowed",
		},
		{Spec{Unit: Month, RequestsPerUnit: MaxAmount, Algorithm: SlidingWindow}, "1125899906842624 per month" + inexact},
		{ // Not even the product with a million microseconds would be exact.
			Spec{Unit: Second, RequestsPerUnit: MaxAmount, Algorithm: TokenBucket},
			"a bucket of 1125899906842624 that refills at 1125899906842624 per second" + inexact,
		},
		{ // It refills in 2^81 seconds, whose lowest 64 bits are 0.
			Spec{Unit: Second, UnitMultiplier: 1 << 31, RequestsPerUnit: 1, Algorithm: TokenBucket, Burst: MaxAmount},
			"a bucket of 1125899906842624 that refills at 1 per 2147483648 seconds takes too long to refill, at most 100 years are allowed",
		},
		{Spec{Unit: Month, RequestsPerUnit: math.MaxUint32, Algorithm: SlidingWindow}, "4294967295 per month" + inexact},
		{Spec{Unit: Day, UnitMultiplier: 12, RequestsPerUnit: math.MaxUint32, Algorithm: SlidingWindow}, ""},
		{
			Spec{Unit: Month, RequestsPerUnit: 4_294_967_291, Algorithm: TokenBucket, Burst: 10}, // a prime
			"a bucket of 10 that refills at 4294967291 per month" + inexact,
		},
		{
			Spec{Unit: Year, UnitMultiplier: 50, RequestsPerUnit: 10, Algorithm: TokenBucket, Burst: 21},
			"a bucket of 21 that refills at 10 per 50 years takes too long to refill, at most 100 years are allowed",
		},
		{Spec{Unit: Year, UnitMultiplier: 50, RequestsPerUnit: 10, Algorithm: TokenBucket, Burst: 20}, ""},
		{Spec{Unit: Month, UnitMultiplier: 5, Algorithm: ByCalendar}, "windows of 5 months" + noPlace + "1, 2, 3, 4, 6, 12"},
		{Spec{Unit: Hour, UnitMultiplier: 48, Algorithm: ByCalendar}, "windows of 48 hours" + noPlace + "1, 2, 3, 4, 6, 8, 12, 24"},
		{Spec{Unit: Day, TimeZone: "Europe/Berlim", Algorithm: ByCalendar}, `unknown time zone "Europe/Berlim"` + zones},
		{Spec{Unit: Minute, TimeZone: "Local", Algorithm: ByCalendar}, `unknown time zone "Local"` + zones},
		{Spec{Unit: Day, TimeZone: "../../etc/passwd", Algorithm: ByCalendar}, `unknown time zone "../../etc/passwd"` + zones},
	} {
		got := ""
		if _, err := NewLimit(tc.spec); err != nil {
			got = err.Error()
		}
		testenv.Equal(t, got, tc.want, "%+v", tc.spec)
	}
}
