package redis

import (
	"fmt"
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

// With a single server, a memory of denials changes no decision.
func TestStoreOnRedis(t *testing.T) {
	r := testenv.RedisServer(t)
	for _, remembers := range []bool{false, true} {
		t.Run(fmt.Sprint("memory ", remembers), func(t *testing.T) {
			storetest.Run(t, func(t *testing.T, now func() time.Time) limiter.CounterStore {
				do(t, connect(t, r), "flushall")
				o := Options{Main: at(r.Addr()), Now: now}
				if remembers {
					return openChecked(t, o)
				}
				return open(t, o)
			})
		})
	}
}

// A request may have any number of counters, even more than Lua can unpack in one call, such as 100
// descriptors with 81 limits each.
func TestRequestsOfAnySize(t *testing.T) {
	s := newFixture(t, Options{})
	for _, n := range []int{5000, 5001, 100 * 81, 10_001} {
		for _, l := range []*limiter.Limit{perYear, slidingYear} {
			var hits []limiter.Hit
			for i := range n {
				hits = append(hits, hit(fmt.Sprintf("%v of %d: %d", l.Algorithm, n, i), l, 1))
			}
			for _, amount := range []uint64{100, 0, 100} { // amounts of the last limit
				hits[n-1].Limit = storetest.Must(limiter.Spec{RequestsPerUnit: amount, Unit: limiter.Year, Algorithm: l.Algorithm})
				_, denied := mustDecide(t, s, hits...)
				testenv.Equal(t, denied, amount == 0, "%d hits: denied", n)
			}
			for i := range hits {
				hits[i].Cost = 0
			}
			out, _ := mustDecide(t, s, hits...)
			for i, d := range out {
				if d.Used != 2 {
					t.Fatalf("counter %d of %d holds %d, want 2", i, n, d.Used)
				}
			}
		}
	}
}
