package limiter

import (
	"fmt"
	"testing"
	"time"

	"weir/internal/testenv"
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

func TestExpiry(t *testing.T) {
	minute := must(Spec{Unit: Minute})
	twoDays := must(Spec{Unit: Day, UnitMultiplier: 2})
	firstHit := must(Spec{Unit: Minute, Algorithm: FirstHit})
	sliding := must(Spec{Unit: Minute, RequestsPerUnit: 7, Algorithm: SlidingWindow})
	bucket := must(Spec{Unit: Minute, RequestsPerUnit: 7, Algorithm: TokenBucket}) // 60e6 / 7 microseconds for a unit
	number := at(0) / 60e6
	for _, tc := range []struct {
		name  string
		limit *Limit
		state State
		want  int64
	}{
		{"unused", minute, State{}, 0},
		{"unused since", minute, State{At: number}, 0},
		{"the window of noon", minute, State{At: number, Used: 5}, at(time.Minute)},
		{"two days", twoDays, State{At: at(0) / 172800e6, Used: 1}, at(12 * time.Hour)},
		{"from the first hit", firstHit, State{At: at(5), Used: 1}, at(5 + time.Minute)},
		{"unused from no hit", firstHit, State{At: at(5)}, 0},
		{"sliding", sliding, State{At: number, Used: 1}, at(2 * time.Minute)},
		{"sliding out", sliding, State{At: number, Prev: 1}, at(time.Minute)},
		{"sliding and unused", sliding, State{At: number}, 0},
		{"a bucket with a unit", bucket, State{At: at(0), Used: 1}, at(8_571_429 * time.Microsecond)},
		{"a bucket with the rest of one", bucket, State{At: at(0), Prev: 8}, at(2 * time.Microsecond)},
		{"an empty bucket", bucket, State{At: at(0)}, 0},
	} {
		testenv.Equal(t, tc.limit.Expiry(tc.state), tc.want, "%s: expires at", tc.name)
	}
}
