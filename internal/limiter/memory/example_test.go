package memory_test

import (
	"context"
	"fmt"
	"time"

	"weir/internal/limiter"
	"weir/internal/limiter/memory"
)

// Each client may send two requests a minute.
func ExampleStore_Decide() {
	limit := limiter.MustLimit(limiter.Spec{RequestsPerUnit: 2, Unit: limiter.Minute})
	store := memory.New(memory.Options{Now: func() time.Time { return time.Unix(0, 0) }})
	hits := []limiter.Hit{{Limit: limit, Key: []byte("client=alice"), Cost: 1}}
	decisions := make([]limiter.Decision, len(hits))
	for range 3 {
		denied, err := store.Decide(context.Background(), hits, decisions)
		fmt.Println(denied, decisions[0].Remaining, decisions[0].RetryAfter, err)
	}
	// Output:
	// false 1 0s <nil>
	// false 0 0s <nil>
	// true 0 1m0s <nil>
}
