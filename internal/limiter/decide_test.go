package limiter

import (
	"fmt"
	"testing"
	"time"
)

// at returns the time d after noon in microseconds. Minutes, hours and half days start at noon.
func at(d time.Duration) int64 {
	return time.Date(2026, time.January, 2, 12, 0, 0, 0, time.UTC).Add(d).UnixMicro()
}

func TestFirsts(t *testing.T) {
	for _, n := range []int{1, few, few + 1, 1000} {
		for _, counters := range []int{1, 2, 5, n} {
			hits := make([]Hit, n)
			for i := range hits {
				hits[i].Key = fmt.Appendf(nil, "w1|api|user=%07d|60", i%counters)
			}
			for i, got := range Firsts(hits, nil) {
				if want := i % counters; got != want {
					t.Fatalf("%d hits on %d counters: the first on that of hit %d is %d, want %d", n, counters, i, got, want)
				}
			}
		}
	}
}
