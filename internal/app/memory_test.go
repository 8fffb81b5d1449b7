package app

import (
	"fmt"
	"runtime/debug"
	"testing"

	"weir/internal/testenv"
)

func TestCollectorTarget(t *testing.T) {
	tests := []struct {
		live uint64
		want int // percent
	}{
		{0, 1600},
		{3 << 20, 1600}, // 48 MiB of garbage
		{5 << 20, 800},  // 40
		{40 << 20, 100},
		{27 << 20, 200}, // 54
		{100 << 20, 50},
		{10 << 30, 25},
	}
	for _, tt := range tests {
		if got := collectorTarget(tt.live, garbage); got != tt.want {
			t.Errorf("%d MiB live: got %d %%, want %d %%", tt.live>>20, got, tt.want)
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
