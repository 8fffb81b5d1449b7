package redisstore

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

// TestDifferential compares a real Redis with the model over random histories
// that are new each time, as many decisions as WEIR_DIFFERENTIAL says; `make
// differential` asks for a million.
func TestDifferential(t *testing.T) {
	decisions := 20_000
	if text := os.Getenv("WEIR_DIFFERENTIAL"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n <= 0 {
			t.Fatalf("WEIR_DIFFERENTIAL=%s is no number of decisions", text)
		}
		decisions = n
	}
	const stores = 4 // each with a clock, and a database of Redis, of its own
	r := testenv.RedisServer(t)
	started := time.Now()
	var decided atomic.Int64
	t.Run("histories", func(t *testing.T) {
		for n := range stores {
			seed := rand.Uint64()
			t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
				t.Parallel()
				got := storetest.Differential(t, func(t *testing.T, now func() time.Time) limiter.Store {
					o := Options{Main: at(fmt.Sprintf("redis://%s/%d", r.Addr(), n)), Now: now, OneClock: true}
					if n%2 == 1 {
						return openChecked(t, o)
					}
					return open(t, o)
				}, seed, (decisions+stores-1)/stores)
				decided.Add(int64(got))
			})
		}
	})
	if !t.Failed() {
		t.Logf("%d random decisions on a real Redis in %v, and no difference", decided.Load(), time.Since(started).Round(time.Second))
	}
}
