package server

import (
	"fmt"
	"math"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/testenv"
)

func TestTargets(t *testing.T) {
	tests := []struct {
		live           uint64
		usual, loading int // percent
	}{
		{0, 1600, 1600},
		{3 << 20, 1600, 1600}, // 48 MiB of garbage
		{5 << 20, 800, 1600},  // 40, and 80 MiB
		{27 << 20, 200, 829},  // 54, and 224 MiB
		{40 << 20, 100, 560},
		{100 << 20, 50, 224},
		{10 << 30, 25, 25},
	}
	for _, tt := range tests {
		if usual, loading := usualTarget(tt.live), loadTarget(tt.live); usual != tt.usual || loading != tt.loading {
			t.Errorf("%d MiB live: got %d %% and %d %% during a load, want %d %% and %d %%", tt.live>>20, usual, loading, tt.usual, tt.loading)
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

// An idle server would keep the memory of a load until the runtime collects by
// itself, after two minutes.
func TestAnIdleServerCollectsAfterALoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		freeAfterLoad()
		before := collections()
		time.Sleep(idleAfterLoad)
		synctest.Wait()
		if collections() == before {
			t.Error("nothing is collected")
		}
	})
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
