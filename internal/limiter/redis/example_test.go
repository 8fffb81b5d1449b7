package redis_test

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"

	"weir/internal/limiter"
	"weir/internal/limiter/redis"
)

// One client may ask twice a minute, of whatever processes share the Redis.
func ExampleNew() {
	server, err := miniredis.Run() // in place of a real one
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	server.SetTime(time.Unix(0, 0))
	limit := limiter.MustLimit(limiter.Spec{RequestsPerUnit: 2, Unit: limiter.Minute})
	store := redis.New(redis.Options{Main: redis.Server{Addr: server.Addr()}})
	defer store.Close()
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
