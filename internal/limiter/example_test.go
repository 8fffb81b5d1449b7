package limiter_test

import (
	"fmt"
	"time"

	"weir/internal/limiter"
)

// A request is admitted by all its limits, or takes nothing from any of them.
func ExampleDecide() {
	minute := limiter.MustLimit(limiter.Spec{RequestsPerUnit: 3, Unit: limiter.Minute})
	hour := limiter.MustLimit(limiter.Spec{RequestsPerUnit: 4, Unit: limiter.Hour, Algorithm: limiter.TokenBucket})
	states := []*limiter.State{{}, {}} // the stored states of the two counters
	now := time.Date(2026, time.January, 2, 12, 0, 0, 0, time.UTC)
	for range 2 {
		hits := []limiter.Hit{{Limit: minute, Key: []byte("m"), Cost: 2}, {Limit: hour, Key: []byte("h"), Cost: 2}}
		out := make([]limiter.Decision, len(hits))
		denied := limiter.Decide(hits, states, nil, now.UnixMicro(), out)
		fmt.Println("denied:", denied)
		for i, d := range out {
			fmt.Printf("  %s: %d left, come back in %v\n", hits[i].Limit.Rate(), d.Remaining, d.RetryAfter)
		}
	}
	// Output:
	// denied: false
	//   3 per minute: 1 left, come back in 0s
	//   4 per hour: 2 left, come back in 0s
	// denied: true
	//   3 per minute: 1 left, come back in 1m0s
	//   4 per hour: 2 left, come back in 0s
}
