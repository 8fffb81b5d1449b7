package limiter

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestParseUnit(t *testing.T) {
	const day = 24 * time.Hour
	durations := map[string]time.Duration{
		"second": time.Second, "minute": time.Minute, "hour": time.Hour,
		"day": day, "week": 7 * day, "month": 30 * day, "year": 365 * day,
	}
	if got, want := strings.Join(UnitNames(), " "), "second minute hour day week month year"; got != want {
		t.Errorf("units are %s, want %s", got, want)
	}
	for name, want := range durations {
		for _, spelling := range []string{name, strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:]} {
			u, ok := ParseUnit(spelling)
			if !ok || u.Duration() != want || u.String() != name {
				t.Errorf("ParseUnit(%q) is %v of %v, %v", spelling, u, u.Duration(), ok)
			}
		}
	}
	for _, name := range []string{"", "unknown", "UNKNOWN", "seconds", "min", " day", "decade"} {
		if u, ok := ParseUnit(name); ok || u != 0 {
			t.Errorf("ParseUnit(%q) is %v, %v, want none", name, u, ok)
		}
	}
}

func TestPeriod(t *testing.T) {
	for _, tc := range []struct {
		unit       Unit
		multiplier uint32
		want       time.Duration
	}{
		{Minute, 0, time.Minute},
		{Minute, 1, time.Minute},
		{Minute, 5, 5 * time.Minute},
		{Month, 2, 60 * 24 * time.Hour},
		{Year, 100, MaxPeriod},
	} {
		l := Limit{Unit: tc.unit, UnitMultiplier: tc.multiplier}
		if got := l.Period(); got != tc.want {
			t.Errorf("%d %ss last %v, want %v", tc.multiplier, tc.unit, got, tc.want)
		}
	}
}

func TestCheck(t *testing.T) {
	const undefined = "undefined unit, allowed are second, minute, hour, day, week, month, year"
	for _, tc := range []struct {
		unit       Unit
		multiplier uint32
		unlimited  bool
		want       string
	}{
		{unit: Second},
		{unit: Year, multiplier: 1},
		{unit: Second, multiplier: 3_153_600_000},
		{unit: Second, multiplier: 3_153_600_001, want: "a period of 3153600001 seconds is too long, at most 100 years are allowed"},
		{unit: Month, multiplier: 1216},
		{unit: Month, multiplier: 1217, want: "a period of 1217 months is too long, at most 100 years are allowed"},
		{unit: Year, multiplier: 100},
		{unit: Year, multiplier: 101, want: "a period of 101 years is too long, at most 100 years are allowed"},
		{unit: Year, multiplier: math.MaxUint32, want: "a period of 4294967295 years is too long, at most 100 years are allowed"},
		{unit: 0, want: undefined},
		{unit: Year + 1, want: undefined},
		{unit: math.MaxUint8, multiplier: 2, want: undefined},
		{unlimited: true},
	} {
		l := Limit{Unit: tc.unit, UnitMultiplier: tc.multiplier, Unlimited: tc.unlimited}
		got := ""
		if err := l.Check(); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("unit %d, multiplier %d: got %q, want %q", tc.unit, tc.multiplier, got, tc.want)
		}
	}
}

// What Check lets pass can be counted in Lua's numbers and told in Durations,
// for generations.
func TestLongestPeriodsAreExact(t *testing.T) {
	now := time.Date(2155, time.January, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	for u := Second; u <= Year; u++ {
		longest := Limit{Unit: u, UnitMultiplier: uint32(MaxPeriod / u.Duration())}
		if err := longest.Check(); err != nil {
			t.Errorf("%v: %v", u, err)
		}
		if p := longest.Period(); p <= 0 || p > MaxPeriod {
			t.Errorf("%v: the longest period is %v", u, p)
		}
		end := State{}.roll(&longest, now).Expiry(&longest)
		if end <= now || end >= 1<<53 {
			t.Errorf("%v: at %d the window ends at %d, want later and below 2^53", u, now, end)
		}
	}
}
