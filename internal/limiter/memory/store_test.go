package memory

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/limiter"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

func TestStore(t *testing.T) {
	for _, maxCounters := range []int{0, 2000} { // many shards, and one
		t.Run(fmt.Sprint("max ", maxCounters), func(t *testing.T) {
			storetest.Run(t, func(_ *testing.T, now func() time.Time) limiter.CounterStore {
				return New(Options{MaxCounters: maxCounters, Now: now})
			})
		})
	}
}

var (
	perMinute = storetest.Must(limiter.Spec{RequestsPerUnit: 10, Unit: limiter.Minute})
	perHour   = storetest.Must(limiter.Spec{RequestsPerUnit: 10, Unit: limiter.Hour})
	perDay    = storetest.Must(limiter.Spec{RequestsPerUnit: 10, Unit: limiter.Day})
	none      = storetest.Must(limiter.Spec{RequestsPerUnit: 0, Unit: limiter.Day})
)

// fixture is a store with a clock that moves only by set.
type fixture struct {
	testing.TB
	*Store
	now atomic.Pointer[time.Time]
}

func newFixture(tb testing.TB, maxCounters int) *fixture {
	tb.Helper()
	f := &fixture{TB: tb}
	f.set(0)
	f.Store = New(Options{MaxCounters: maxCounters, Now: func() time.Time { return *f.now.Load() }})
	return f
}

// set sets the clock to d after the beginning of a day.
func (f *fixture) set(d time.Duration) {
	now := time.Date(2026, time.January, 2, 0, 0, 0, 0, time.UTC).Add(d)
	f.now.Store(&now)
}

func hit(limit *limiter.Limit, cost uint64, key ...any) limiter.Hit {
	return limiter.Hit{Limit: limit, Key: fmt.Append(nil, key...), Cost: cost}
}

func refund(limit *limiter.Limit, cost uint64, key string) limiter.Hit {
	return limiter.Hit{Limit: limit, Key: []byte(key), Cost: cost, Refund: true}
}

// decide returns the decision of the first hit.
func (f *fixture) decide(hits ...limiter.Hit) limiter.Decision {
	f.Helper()
	out := make([]limiter.Decision, len(hits))
	testenv.Must(f.Decide(context.Background(), hits, out))(f)
	return out[0]
}

// counted returns the numbers of counters and of evictions.
func (f *fixture) counted() (counters, evictions int) {
	return int(f.size()), int(f.Evictions.Load())
}

func (f *fixture) expect(counters, evictions int) {
	f.Helper()
	if n, e := f.counted(); n != counters || e != evictions {
		f.Errorf("%d counters kept and %d evicted, want %d and %d", n, e, counters, evictions)
	}
}

// A counter of any algorithm is kept until it becomes unused, and no longer.
func TestExpiryOfEveryAlgorithm(t *testing.T) {
	for algorithm, end := range map[limiter.Algorithm]time.Duration{
		limiter.FixedWindow: 60 * time.Second, limiter.FirstHit: 80 * time.Second, limiter.SlidingWindow: 120 * time.Second, limiter.TokenBucket: 32 * time.Second,
	} {
		t.Run(algorithm.String(), func(t *testing.T) {
			limit := storetest.Must(limiter.Spec{RequestsPerUnit: 10, Unit: limiter.Minute, Algorithm: algorithm})
			f := newFixture(t, 500) // in one shard
			f.set(20 * time.Second) // windows start at 0
			f.decide(hit(limit, 2, "a"))
			f.set(end - time.Microsecond)
			f.decide(hit(perDay, 0, "peek"))
			f.expect(1, 0)
			f.set(end)
			f.decide(hit(perDay, 0, "peek"))
			f.expect(0, 0)

			f.decide(hit(limit, 2, "a"))
			f.decide(refund(limit, 2, "a"))
			f.expect(0, 0)
		})
	}
}

// After a flood of counters, the store frees the memory of expired ones, even if some counters
// stay.
func TestExpiryFreesMemory(t *testing.T) {
	const n, stay = 100_000, 1000
	f := newFixture(t, 0)
	before := testenv.LiveHeap()
	for i := range n {
		limit := perMinute
		if i%(n/stay) == 0 {
			limit = perHour
		}
		f.decide(hit(limit, 1, "a key of forty bytes and a number ", i))
	}
	flooded := testenv.LiveHeap() - before
	for _, c := range []struct {
		after time.Duration
		kept  int
		most  int64 // bytes
	}{{time.Minute, stay, flooded / 10}, {time.Hour, 0, flooded / 50}} {
		f.set(c.after)
		for range n {
			f.decide(hit(perDay, 0, "peek"))
		}
		f.expect(c.kept, 0)
		if left := testenv.LiveHeap() - before; left > c.most {
			t.Errorf("%d bytes left of %d for %d of %d counters", left, flooded, c.kept, n)
		}
	}
	runtime.KeepAlive(f)
}

// Counters take few bytes, and a growing store does not repeatedly copy all of them.
func TestBytesPerCounter(t *testing.T) {
	const n, most = 200_000, 118
	f := newFixture(t, 0)
	hits, out := []limiter.Hit{{Limit: perDay, Cost: 1}}, make([]limiter.Decision, 1)
	live := testenv.LiveHeap()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range n {
		hits[0].Key = keyOf(hits[0].Key[:0], uint64(i))
		testenv.Must(f.Decide(context.Background(), hits, out))(t)
	}
	runtime.ReadMemStats(&after)
	live = testenv.LiveHeap() - live
	if live > most*n {
		t.Errorf("%d bytes live for %d counters, want at most %d for each", live, n, most)
	}
	if made := int64(after.TotalAlloc - before.TotalAlloc); made > 4*most*n {
		t.Errorf("%d bytes allocated for %d counters, want at most %d for each", made, n, 4*most)
	}
	runtime.KeepAlive(f)
}

// Unused counters are not kept.
func TestUnusedCountersAreNotKept(t *testing.T) {
	f := newFixture(t, 0)
	f.decide(hit(perMinute, 0, "peek"))
	f.decide(hit(none, 1, "denied"))
	f.decide(hit(perMinute, 1, "beside a denied one"), hit(none, 1, "denied"))
	f.decide(refund(perMinute, 1, "refund"))
	f.expect(0, 0)

	f.decide(hit(perMinute, 1, "a"))
	f.expect(1, 0)
	f.decide(hit(perMinute, 1, "a"), hit(none, 1, "denied"))
	f.expect(1, 0)
	f.decide(refund(perMinute, 1, "a"))
	f.expect(0, 0)
}

// When the store is full, it evicts the counters that expire soonest. Expired counters do not
// count as evicted.
func TestEviction(t *testing.T) {
	f := newFixture(t, 10)
	used := func(limit *limiter.Limit, key string) int64 { return f.decide(hit(limit, 0, key)).Used }
	for i := range 5 {
		f.decide(hit(perMinute, 2, "minute ", i), hit(perHour, 1, "hour ", i))
	}
	f.expect(10, 0)
	f.decide(hit(perMinute, 0, "peek"))
	f.decide(hit(perMinute, 1, "beside a denied one"), hit(none, 1, "denied"))
	f.expect(10, 0)

	for i := range 3 {
		f.decide(hit(perDay, 1, "day ", i))
	}
	f.expect(10, 3)
	f.decide(hit(perMinute, 1, "new"))
	f.expect(10, 4)
	testenv.Equal(t, used(perMinute, "new"), 1, "the new counter, which does not make room for itself")
	for i := range 5 {
		testenv.Equal(t, used(perHour, fmt.Sprint("hour ", i)), 1, "hour %d, before which others expire", i)
	}

	f.set(time.Minute)
	f.decide(hit(perDay, 1, "day 3"), hit(perDay, 1, "day 4"))
	f.expect(10, 4)
	f.decide(hit(perDay, 1, "day 5"))
	f.expect(10, 5)
}

// As docs/operations.md says, a used-up limit is forgotten only after requests with as many other
// values as the store keeps counters, if those counters expire no sooner.
func TestWhatAResetCosts(t *testing.T) {
	const kept = 10_000
	for _, algorithm := range []limiter.Algorithm{limiter.FixedWindow, limiter.FirstHit, limiter.SlidingWindow, limiter.TokenBucket} {
		t.Run(algorithm.String(), func(t *testing.T) {
			client := hit(storetest.Must(limiter.Spec{RequestsPerUnit: 5, Unit: limiter.Hour, Algorithm: algorithm}), 1, "client")
			f := newFixture(t, kept)
			f.set(10 * time.Minute)
			values := 0
			sent := func(limit *limiter.Limit, n int) (over bool) {
				for range n {
					f.decide(hit(limit, 1, "value ", values))
					values++
				}
				return f.decide(client).Over
			}
			for range 5 {
				f.decide(client)
			}
			if !sent(perMinute, 3*kept) {
				t.Error("values that expire sooner reset the limit")
			}
			if !sent(perDay, kept*9/10) {
				t.Error("fewer values than there are counters reset the limit")
			}
			if sent(perDay, kept*2/10) {
				t.Error("as many values as there are counters, which expire later, do not reset the limit")
			}
		})
	}
}

// A request with more new counters than the store has room for is still decided, and may evict
// its own counters.
func TestEvictionWithinARequest(t *testing.T) {
	f := newFixture(t, 2)
	d := f.decide(hit(perMinute, 1, "a"), hit(perHour, 2, "b"), hit(perMinute, 3, "a"), hit(perDay, 1, "c"), hit(perDay, 1, "d"))
	if !d.Charged || d.Used != 4 {
		t.Errorf("got %+v, want 4 used", d)
	}
	f.expect(2, 2)
}

// Many goroutines send overlapping requests to a store that evicts.
func TestConcurrentEviction(t *testing.T) {
	const limit = 5000
	f := newFixture(t, limit)
	var wg sync.WaitGroup
	for g := range uint64(8) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, g))
			for i := range 2000 {
				var hits []limiter.Hit
				for range 1 + r.IntN(20) {
					hits = append(hits, hit([]*limiter.Limit{perMinute, perHour, perDay}[r.IntN(3)], r.Uint64N(3), "key ", r.IntN(2*limit)))
				}
				f.decide(hits...)
				if i%100 == 0 {
					f.set(time.Duration(r.IntN(5)) * 30 * time.Second)
				}
			}
		})
	}
	wg.Wait()
	if n, evictions := f.counted(); n > limit || evictions == 0 {
		t.Errorf("%d counters kept, %d evictions, want at most %d, and some", n, evictions, limit)
	}
}

// Neither admitted nor denied requests on existing counters need new memory.
func TestNoAllocationOnExistingCounters(t *testing.T) {
	for _, spec := range []limiter.Spec{{RequestsPerUnit: 1 << 31, Unit: limiter.Second}, {RequestsPerUnit: 1, Unit: limiter.Year}} {
		f, limit := newFixture(t, 0), storetest.Must(spec)
		hits, out, i := make([]limiter.Hit, 16), make([]limiter.Decision, 16), 0
		for i := range hits {
			hits[i] = hit(limit, 1, "a key of some length ", i)
		}
		later := make([]time.Time, 200)
		for i := range later {
			later[i] = f.now.Load().Add(time.Duration(i) * 300 * time.Millisecond)
		}
		if allocs := testing.AllocsPerRun(len(later)-1, func() {
			f.now.Store(&later[i])
			i++
			testenv.Must(f.Decide(context.Background(), hits, out))(t)
		}); allocs != 0 {
			t.Errorf("%s: %v allocations, want none", limit.Rate(), allocs)
		}
	}
}

// A request of many hits is decided in time proportional to their number, on existing or new
// counters, on one counter or on many.
func TestManyHitsInTime(t *testing.T) {
	for _, limit := range []*limiter.Limit{none, perDay} {
		for _, counters := range []int{1, 100, 10_000} {
			t.Run(fmt.Sprintf("%d of %d per day", counters, limit.RequestsPerUnit), func(t *testing.T) {
				f := newFixture(t, 0)
				hits, out := make([]limiter.Hit, 10_000), make([]limiter.Decision, 10_000)
				for i := range hits {
					hits[i] = limiter.Hit{Limit: limit, Key: keyOf(nil, uint64(i%counters)), Cost: 1}
				}
				testenv.InProcessorTime(t, 150*time.Millisecond, func() {
					testenv.Must(f.Decide(t.Context(), hits, out))(t)
				})
			})
		}
	}
}

// Without Options.Now, the store's clock advances with elapsed time.
func TestTimePasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{TB: t, Store: New(Options{})}
		for range 3 {
			if d, over := f.decide(hit(perMinute, 10, "a")), f.decide(hit(perMinute, 1, "a")); d.Over || d.Used != 10 || !over.Over {
				t.Errorf("got %+v, want a window of its own, then %+v over", d, over)
			}
			time.Sleep(time.Minute)
		}
	})
}
