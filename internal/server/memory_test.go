package server

import (
	"fmt"
	"math"
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

func TestCollectorIsTunedUnlessToldOtherwise(t *testing.T) {
	const other = 77
	for _, gogc := range []string{"", "77"} {
		t.Run("GOGC="+gogc, func(t *testing.T) {
			t.Setenv("GOGC", gogc)
			before := debug.SetGCPercent(other)
			defer debug.SetGCPercent(before)
			start(t, "--config="+directory(t, limited(3)))
			testenv.Eventually(t, func() error {
				now := debug.SetGCPercent(other)
				if tuned := now != other; tuned != (gogc == "") {
					return fmt.Errorf("the target is %d %%", now)
				}
				return nil
			})
		})
	}
}
