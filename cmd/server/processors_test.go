package main

import (
	"testing"

	"weir/internal/testenv"
)

func TestFit(t *testing.T) {
	f := fit{most: 4, n: 1}
	for _, step := range []struct {
		intervals int
		busy      float64
		want      int
	}{
		{1, 0.5, 1}, {1, 0.9, 2}, {1, 1.9, 4},
		{100, 3.9, 4}, // the maximum, for a long time
		{calmLooks - 1, 0.9, 4}, {1, 0.9, 2},
		{calmLooks - 1, 0.1, 2}, {1, 1, 2}, {calmLooks - 1, 0.1, 2}, {1, 0.1, 1},
		{100, 0, 1},
	} {
		for range step.intervals {
			f.next(step.busy)
		}
		testenv.Equal(t, f.n, step.want, "after %d intervals with %v busy processors", step.intervals, step.busy)
	}
}
