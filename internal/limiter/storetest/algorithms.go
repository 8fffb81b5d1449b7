package storetest

import (
	"math"
	"slices"
	"testing"

	"weir/internal/limiter"
)

// algorithms has a row for each algorithm, with the counters of each player in random
// histories.
var algorithms = map[limiter.Algorithm]struct {
	counters []counter
	drains   bool // use drains gradually: each counter takes longer than lifetime to lose scale units
}{
	limiter.FixedWindow: {counters: []counter{
		newCounter(1, limiter.Spec{Unit: limiter.Minute}, 0, 10, 20, 50, 100),
		newCounter(1, limiter.Spec{Unit: limiter.Minute, UnitMultiplier: 7}, 10, 20, 50),
		newCounter(1, limiter.Spec{Unit: limiter.Day}, 0, 50, 100),
		newCounter(1<<26, limiter.Spec{Unit: limiter.Minute}, 1<<30, math.MaxUint32),
		newCounter(1<<46, limiter.Spec{Unit: limiter.Month}, 1000, 1<<49, limiter.MaxAmount-1, limiter.MaxAmount),
	}},
	limiter.FirstHit: {counters: []counter{
		newCounter(1<<46, limiter.Spec{Unit: limiter.Day, Algorithm: limiter.FirstHit}, 1<<49, limiter.MaxAmount),
		newCounter(1, limiter.Spec{Unit: limiter.Minute, Algorithm: limiter.FirstHit}, 10, 20),
		newCounter(1, limiter.Spec{Unit: limiter.Second, UnitMultiplier: 30, Algorithm: limiter.FirstHit}, 0, 20),
		newCounter(1, limiter.Spec{Unit: limiter.Hour, UnitMultiplier: 2, Algorithm: limiter.FirstHit}, 10, 50),
	}},
	limiter.ByCalendar: {counters: []counter{
		newCounter(1, limiter.Spec{Unit: limiter.Minute, UnitMultiplier: 2, Algorithm: limiter.ByCalendar}, 10, 20),
		newCounter(1, limiter.Spec{Unit: limiter.Hour, Algorithm: limiter.ByCalendar, TimeZone: "Australia/Lord_Howe"}, 0, 10, 20),
		newCounter(1, limiter.Spec{Unit: limiter.Day, Algorithm: limiter.ByCalendar, TimeZone: "Europe/Berlin"}, 10, 50),
		newCounter(1, limiter.Spec{Unit: limiter.Week, Algorithm: limiter.ByCalendar}, 20, 100),
		newCounter(1<<20, limiter.Spec{Unit: limiter.Month, Algorithm: limiter.ByCalendar, TimeZone: "America/New_York"}, 1<<25, math.MaxUint32),
	}},
	limiter.SlidingWindow: {counters: []counter{
		newCounter(1, limiter.Spec{Unit: limiter.Minute, Algorithm: limiter.SlidingWindow}, 0, 10, 20, 50),
		newCounter(1, limiter.Spec{Unit: limiter.Hour, Algorithm: limiter.SlidingWindow}, 10, 20, 100),
		// Small and large amounts in long periods.
		newCounter(1, limiter.Spec{Unit: limiter.Month, Algorithm: limiter.SlidingWindow}, 10, 20, 100, 600, 1_000_003),
		newCounter(50_000, limiter.Spec{Unit: limiter.Month, Algorithm: limiter.SlidingWindow}, 500, 600_000, 1_000_000, 1_700_000_000),
		newCounter(1<<26, limiter.Spec{Unit: limiter.Day, Algorithm: limiter.SlidingWindow}, math.MaxUint32-4, math.MaxUint32, 4_503_000_000),
	}},
	limiter.TokenBucket: {drains: true, counters: []counter{
		newCounter(1, limiter.Spec{Unit: limiter.Hour, Algorithm: limiter.TokenBucket}, 0, 7, 10, 20, 100),
		newCounter(1, limiter.Spec{Unit: limiter.Hour, Algorithm: limiter.TokenBucket, Burst: 5}, 7, 10, 20),
		newCounter(1, limiter.Spec{Unit: limiter.Day, Algorithm: limiter.TokenBucket, Burst: 50}, 7, 10, 20),
		// Small and large amounts in long periods.
		newCounter(5, limiter.Spec{Unit: limiter.Month, Algorithm: limiter.TokenBucket}, 1000, 1001, 2003, 1_000_003),
		newCounter(200, limiter.Spec{Unit: limiter.Month, Algorithm: limiter.TokenBucket, Burst: 1000}, 1001, 50_000_000, 50_000_017),
		newCounter(1_000_000, limiter.Spec{Unit: limiter.Year, Algorithm: limiter.TokenBucket}, 71_000_003, 140_000_009),
		newCounter(5_000_000, limiter.Spec{Unit: limiter.Year, Algorithm: limiter.TokenBucket, Burst: 1 << 26}, 1_000_003, 71_000_003),
		newCounter(1<<46, limiter.Spec{Unit: limiter.Second, Algorithm: limiter.TokenBucket, Burst: limiter.MaxAmount}, 1<<32, 9_000_000_000),
	}},
	limiter.Concurrency: {counters: []counter{
		newCounter(1, limiter.Spec{Unit: limiter.Minute, UnitMultiplier: 7, Algorithm: limiter.Concurrency}, 0, 1, 3, 5),
		newCounter(1, limiter.Spec{Unit: limiter.Hour, Algorithm: limiter.Concurrency}, 2, 3, 4, 8),
		newCounter(1, limiter.Spec{Unit: limiter.Day, Algorithm: limiter.Concurrency}, 3, math.MaxUint32),
	}},
	limiter.SlidingLog: {counters: []counter{
		newCounter(1, limiter.Spec{Unit: limiter.Minute, UnitMultiplier: 7, Algorithm: limiter.SlidingLog}, 0, 10, 20, 50),
		newCounter(5, limiter.Spec{Unit: limiter.Hour, Algorithm: limiter.SlidingLog}, 10, 50, 100),
	}},
}

// testRows checks that every algorithm has a row in algorithms and steps in lives.
func testRows(t *testing.T, all []life) {
	t.Helper()
	for i, name := range limiter.AlgorithmNames() {
		a := limiter.Algorithm(i)
		if !slices.ContainsFunc(all, func(l life) bool {
			return slices.ContainsFunc(l.steps, func(s step) bool { return s.hits[0].Limit.Algorithm == a })
		}) {
			t.Errorf("algorithm %s has no file in storetest/lives", name)
		}
		if !slices.ContainsFunc(algorithms[a].counters, func(c counter) bool { return c.amounts[0][0].Algorithm == a }) {
			t.Errorf("algorithm %s has no counters for the random histories of storetest", name)
		}
	}
}
