package server

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"

	"weir/internal/testenv"
)

func TestTargets(t *testing.T) {
	for live, want := range map[uint64][2]int{ // percent, usually and during a load
		0: {1600, 1600}, 3 << 20: {1600, 1600}, // 48 MiB of garbage
		5 << 20:  {800, 1600}, // 40, and 80 MiB
		27 << 20: {200, 800}, 40 << 20: {100, 400}, 100 << 20: {50, 200}, 10 << 30: {25, 25},
	} {
		if got := [2]int{target(live, garbage), target(live, loadGarbage)}; got != want {
			t.Errorf("%d MiB live: got %d %%, want %d %%", live>>20, got, want)
		}
	}
}

func TestCountersFitIntoTheMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	for limit, want := range map[int64]int{math.MaxInt64: 1_000_000, 230 << 20: 1_087_897, 1 << 30: 6_291_456, 32 << 20: 100_000} {
		debug.SetMemoryLimit(limit)
		if got := maxCounters(); got != want {
			t.Errorf("%d MiB: got %d counters, want %d", limit>>20, got, want)
		}
	}
}

// TestCollectorIsTunedUnlessToldOtherwise reads the target of the collector, which is higher
// during a load.
func TestCollectorIsTunedUnlessToldOtherwise(t *testing.T) {
	live := make([]byte, 40<<20)
	defer runtime.KeepAlive(live)
	runtime.GC() // which counts it as live
	for _, gogc := range []string{"77", ""} {
		t.Setenv("GOGC", gogc)
		before := debug.SetGCPercent(77)
		defer debug.SetGCPercent(before)
		f := start(t, "--config="+directory(t, limited(3)))
		percent := func() uint64 { return read("/gc/gogc:percent") }
		if gogc != "" {
			f.rules.tuner.load(true)
			if now := percent(); now != 77 {
				t.Errorf("the target is %d %%, want what GOGC says", now)
			}
			f.stop() // with its tuner
			testenv.OK(t, f.wantEnd())
			continue
		}
		usual := uint64(0)
		testenv.Until(t, "the target is set", func() bool { usual = percent(); return usual != 77 })
		f.rules.tuner.load(true)
		testenv.Until(t, "the target grows", func() bool { return percent() > usual })
		f.rules.tuner.load(false)
		testenv.Until(t, "the target is as it was", func() bool { return percent() == usual })
	}
}
