package limiter

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"weir/internal/testenv"
)

func TestPassed(t *testing.T) {
	budget := MustLimit(Spec{RequestsPerUnit: 200, Unit: Day})
	hit := func(key string, cost uint64, refund bool) Hit {
		return Hit{Limit: budget, Key: []byte(key), Cost: cost, Refund: refund}
	}
	settled := hit("a", 42, true)
	settled.Reservation = []byte("a#1")
	charged := func(used int64) Decision { return Decision{Charged: true, Used: used} }
	for name, tt := range map[string]struct {
		hits []Hit
		out  []Decision
		want [][2]int64
	}{
		"a hit":                 {[]Hit{hit("a", 3, false)}, []Decision{charged(161)}, [][2]int64{{79, 80}}},
		"within a percent":      {[]Hit{hit("a", 1, false)}, []Decision{charged(161)}, [][2]int64{{80, 80}}},
		"not counted":           {[]Hit{hit("a", 50, false)}, []Decision{{Over: true, Used: 190}}, [][2]int64{{95, 95}}},
		"a peek":                {[]Hit{hit("a", 0, false)}, []Decision{{Used: 200}}, [][2]int64{{100, 100}}},
		"a refund":              {[]Hit{hit("a", 40, true)}, []Decision{charged(160)}, [][2]int64{{100, 80}}},
		"beyond the limit":      {[]Hit{hit("a", 400, false)}, []Decision{{Over: true, Charged: true, Used: 560}}, [][2]int64{{80, 280}}},
		"twice on a counter":    {[]Hit{hit("a", 1, false), hit("b", 2, false), hit("a", 1, false)}, []Decision{charged(160), charged(2), charged(160)}, [][2]int64{{79, 80}, {0, 1}, {80, 80}}},
		"a refund and a charge": {[]Hit{hit("a", 10, true), hit("a", 12, false)}, []Decision{charged(160), charged(160)}, [][2]int64{{79, 80}, {80, 80}}},
		"a settlement":          {[]Hit{settled}, []Decision{{Charged: true, Used: 200, Reserved: 2}}, [][2]int64{{80, 100}}},
		"settled before":        {[]Hit{settled}, []Decision{{Charged: true, Already: true, Used: 190}}, [][2]int64{{95, 95}}},
		"by a failure mode":     {[]Hit{hit("a", 50, false)}, []Decision{charged(0)}, [][2]int64{{0, 0}}},
	} {
		taken := Taken(tt.hits, tt.out, nil)
		for i, want := range tt.want {
			if before, after := Passed(&tt.hits[i], tt.out[i].Used, taken[i]); before != want[0] || after != want[1] {
				t.Errorf("%s: hit %d passed %d to %d, want %d", name, i, before, after, want)
			}
		}
	}
}

// Taken takes time proportional to the number of hits.
func TestTakenByManyHits(t *testing.T) {
	const n = 200_000
	hits, out := make([]Hit, n), slices.Repeat([]Decision{{Charged: true}}, n)
	limit := MustLimit(Spec{RequestsPerUnit: 200, Unit: Day})
	for i := range hits {
		hits[i] = Hit{Limit: limit, Key: fmt.Appendf(nil, "w1|api|user=%d|1d", i/2), Cost: 1}
	}
	testenv.InProcessorTime(t, 2*time.Second, func() {
		if taken := Taken(hits, out, nil); taken[n-2] != 2 || taken[n-1] != 0 {
			t.Errorf("the last two hits took %d", taken[n-2:])
		}
	})
}

// TestWindow finds the window of a counter, even if the clock of this machine is slightly wrong.
func TestWindow(t *testing.T) {
	const layout = "2006-01-02T15:04:05Z07:00"
	for _, tt := range []struct {
		spec       Spec
		left       string // time left of the window at noon on 2026-03-28
		start, end string
	}{
		{Spec{Unit: Hour}, "60m", "2026-03-28T12:00:00Z", "2026-03-28T13:00:00Z"},
		{Spec{Unit: Hour, Algorithm: FirstHit}, "20m", "2026-03-28T11:20:00Z", "2026-03-28T12:20:00Z"},
		{Spec{Unit: Day, DenyFor: 48 * time.Hour}, "48h", "2026-03-28T00:00:00Z", "2026-03-29T00:00:00Z"},
		{Spec{Unit: Day, Algorithm: ByCalendar, TimeZone: "Europe/Berlin"}, "11h", "2026-03-28T00:00:00+01:00", "2026-03-29T00:00:00+01:00"},
		{Spec{Unit: Day, Algorithm: ByCalendar, TimeZone: "Asia/Tokyo", DenyFor: 20 * time.Hour}, "20h", "2026-03-28T00:00:00+09:00", "2026-03-29T00:00:00+09:00"},
		{Spec{Unit: Month, Algorithm: ByCalendar, TimeZone: "Europe/Berlin"}, "82h", "2026-03-01T00:00:00+01:00", "2026-04-01T00:00:00+02:00"},
		{Spec{Unit: Month, Algorithm: ByCalendar}, "84h", "2026-03-01T00:00:00Z", "2026-04-01T00:00:00Z"},
		{Spec{Unit: Day, Algorithm: TokenBucket}, "5h", "0001-01-01T00:00:00Z", "2026-03-28T17:00:00Z"},
	} {
		tt.spec.RequestsPerUnit = 10
		l := MustLimit(tt.spec)
		left := testenv.Must(time.ParseDuration(tt.left))(t)
		skews := []time.Duration{0}
		if (tt.spec.Algorithm == FixedWindow || tt.spec.Algorithm == ByCalendar) && tt.spec.DenyFor == 0 {
			skews = []time.Duration{0, -10 * time.Minute, 10 * time.Minute}
		}
		for _, skew := range skews {
			start, end := l.Window(time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC).Add(skew), left)
			if start.Format(layout) != tt.start || end.Format(layout) != tt.end {
				t.Errorf("%s %s, %v wrong: got %s to %s, want %s to %s", tt.spec.Algorithm, tt.spec.Per(), skew, start.Format(layout), end.Format(layout), tt.start, tt.end)
			}
		}
	}
}
