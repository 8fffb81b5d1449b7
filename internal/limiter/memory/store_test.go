package memory_test

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

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/limiter"
	"weir/internal/limiter/memory"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

func TestStore(t *testing.T) {
	for _, maxCounters := range []int{0, 2000} { // many shards, and one
		t.Run(fmt.Sprint("max ", maxCounters), func(t *testing.T) {
			storetest.Run(t, func(_ *testing.T, now func() time.Time) limiter.Store {
				return memory.New(memory.Options{MaxCounters: maxCounters, Now: now})
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

// fixture is a store with its metrics and a clock that stands where it is set.
type fixture struct {
	testing.TB
	*memory.Store
	reg *prometheus.Registry
	now atomic.Pointer[time.Time]
}

func newFixture(tb testing.TB, maxCounters int) *fixture {
	tb.Helper()
	f := &fixture{TB: tb, reg: prometheus.NewRegistry()}
	f.set(0)
	f.Store = memory.New(memory.Options{
		MaxCounters: maxCounters,
		Now:         func() time.Time { return *f.now.Load() },
		Registerer:  f.reg,
	})
	return f
}

// set sets the clock to d after the first microsecond of a day.
func (f *fixture) set(d time.Duration) {
	now := time.Date(2026, time.January, 2, 0, 0, 0, 0, time.UTC).Add(d)
	f.now.Store(&now)
}

func hit(limit *limiter.Limit, cost uint64, key ...any) limiter.Hit {
	return limiter.Hit{Limit: limit, Key: fmt.Append(nil, key...), Cost: cost}
}

// decide returns the decision of the first hit.
func (f *fixture) decide(hits ...limiter.Hit) limiter.Decision {
	f.Helper()
	out := make([]limiter.Decision, len(hits))
	if _, err := f.Decide(context.Background(), hits, out); err != nil {
		f.Fatalf("Decide: %v", err)
	}
	return out[0]
}

// metric reads a metric of the store.
func (f *fixture) metric(name string) int {
	f.Helper()
	families, err := f.reg.Gather()
	if err != nil {
		f.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return int(m.GetGauge().GetValue() + m.GetCounter().GetValue())
		}
	}
	f.Fatalf("no metric %s", name)
	return 0
}

func (f *fixture) expect(counters, evictions int) {
	f.Helper()
	if got := f.metric("weir_memory_counters"); got != counters {
		f.Errorf("%d counters kept, want %d", got, counters)
	}
	if got := f.metric("weir_memory_evictions_total"); got != evictions {
		f.Errorf("%d evictions counted, want %d", got, evictions)
	}
}

// A counter of any algorithm is kept until it is as good as unused, and no longer.
func TestExpiryOfEveryAlgorithm(t *testing.T) {
	for _, c := range []struct {
		name string
		spec limiter.Spec
		at   time.Duration // when 2 units are used; windows start at 0
		want time.Duration // when they no longer matter
	}{
		{"fixed window", limiter.Spec{}, 20 * time.Second, 60 * time.Second},
		{"first hit", limiter.Spec{Algorithm: limiter.FirstHit}, 20 * time.Second, 80 * time.Second},
		{"sliding window", limiter.Spec{Algorithm: limiter.SlidingWindow}, 20 * time.Second, 120 * time.Second},
		{"token bucket", limiter.Spec{Algorithm: limiter.TokenBucket}, 20 * time.Second, 32 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.spec.RequestsPerUnit, c.spec.Unit = 10, limiter.Minute
			limit := storetest.Must(c.spec)
			f := newFixture(t, 500) // in one shard
			f.set(c.at)
			f.decide(hit(limit, 2, "a"))
			f.set(c.want - time.Microsecond)
			f.decide(hit(perDay, 0, "peek"))
			f.expect(1, 0)
			f.set(c.want)
			f.decide(hit(perDay, 0, "peek"))
			f.expect(0, 0)

			f.decide(hit(limit, 2, "a"))
			f.decide(limiter.Hit{Limit: limit, Key: []byte("a"), Cost: 2, Refund: true})
			f.expect(0, 0)
		})
	}
}

// heapBytes is what is live on the heap.
func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Not only counters leave memory after a flood, but also what they took, even if
// some of them stay.
func TestExpiryFreesMemory(t *testing.T) {
	const n, stay = 100_000, 1000
	f := newFixture(t, 0)
	before := heapBytes()
	for i := range n {
		limit := perMinute
		if i%(n/stay) == 0 {
			limit = perHour
		}
		f.decide(hit(limit, 1, "a key of forty bytes and a number ", i))
	}
	flooded := heapBytes() - before
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
		if left := heapBytes() - before; left > c.most {
			t.Errorf("%d bytes left of %d for %d of %d counters", left, flooded, c.kept, n)
		}
	}
	runtime.KeepAlive(f)
}

// Counters take few bytes, and to grow by one does not copy what there is again
// and again.
func TestBytesPerCounter(t *testing.T) {
	const n, most = 200_000, 118
	f := newFixture(t, 0)
	hits, out := []limiter.Hit{{Limit: perDay, Cost: 1}}, make([]limiter.Decision, 1)
	live := heapBytes()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range n {
		hits[0].Key = fmt.Appendf(hits[0].Key[:0], "w1|api|user=%07x|path=/in|1m", i)
		if _, err := f.Decide(context.Background(), hits, out); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	live = heapBytes() - live
	if live > most*n {
		t.Errorf("%d bytes live for %d counters, want at most %d for each", live, n, most)
	}
	if made := int64(after.TotalAlloc - before.TotalAlloc); made > 4*most*n {
		t.Errorf("%d bytes allocated for %d counters, want at most %d for each", made, n, 4*most)
	}
	runtime.KeepAlive(f)
}

// A counter that holds nothing is not kept.
func TestUnusedCountersAreNotKept(t *testing.T) {
	f := newFixture(t, 0)
	f.decide(hit(perMinute, 0, "peek"))
	f.decide(hit(none, 1, "denied"))
	f.decide(hit(perMinute, 1, "beside a denied one"), hit(none, 1, "denied"))
	f.decide(limiter.Hit{Limit: perMinute, Key: []byte("refund"), Cost: 1, Refund: true})
	f.expect(0, 0)

	f.decide(hit(perMinute, 1, "a"))
	f.expect(1, 0)
	f.decide(hit(perMinute, 1, "a"), hit(none, 1, "denied"))
	f.expect(1, 0)
	f.decide(limiter.Hit{Limit: perMinute, Key: []byte("a"), Cost: 1, Refund: true})
	f.expect(0, 0)
}

// When memory is full, the counters that expire soonest make room, expired ones unnoticed.
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
	if got := used(perMinute, "new"); got != 1 {
		t.Errorf("the new counter holds %d, want 1: it does not make room for itself", got)
	}
	for i := range 5 {
		if got := used(perHour, fmt.Sprint("hour ", i)); got != 1 {
			t.Errorf("hour %d holds %d, want 1: others expire before", i, got)
		}
	}

	f.set(time.Minute)
	f.decide(hit(perDay, 1, "day 3"), hit(perDay, 1, "day 4"))
	f.expect(10, 4)
	f.decide(hit(perDay, 1, "day 5"))
	f.expect(10, 5)
	if problems, err := testutil.GatherAndLint(f.reg); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, error %v", problems, err)
	}
}

// A limit that is used up starts anew when as many other values as there are counters
// come after it that expire no sooner, as docs/operations.md says, and not before.
func TestWhatAResetCosts(t *testing.T) {
	const kept = 10_000
	for name, spec := range map[string]limiter.Spec{
		"fixed window": {}, "first hit": {Algorithm: limiter.FirstHit},
		"sliding window": {Algorithm: limiter.SlidingWindow}, "token bucket": {Algorithm: limiter.TokenBucket},
	} {
		t.Run(name, func(t *testing.T) {
			spec.RequestsPerUnit, spec.Unit = 5, limiter.Hour
			client := hit(storetest.Must(spec), 1, "client")
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

// A request with more new counters than there is room for is decided all the
// same, and may push out counters of its own.
func TestEvictionWithinARequest(t *testing.T) {
	f := newFixture(t, 2)
	d := f.decide(hit(perMinute, 1, "a"), hit(perHour, 2, "b"), hit(perMinute, 3, "a"), hit(perDay, 1, "c"), hit(perDay, 1, "d"))
	if !d.Charged || d.Used != 4 {
		t.Errorf("got %+v, want 4 used", d)
	}
	f.expect(2, 2)
}

// Requests of many goroutines, overlapping, on a store that evicts.
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
				if _, err := f.Decide(context.Background(), hits, make([]limiter.Decision, len(hits))); err != nil {
					f.Errorf("Decide: %v", err)
				}
				if i%100 == 0 {
					f.set(time.Duration(r.IntN(5)) * 30 * time.Second)
				}
			}
		})
	}
	wg.Wait()
	if n, evictions := f.metric("weir_memory_counters"), f.metric("weir_memory_evictions_total"); n > limit || evictions == 0 {
		t.Errorf("%d counters kept, %d evictions, want at most %d, and some", n, evictions, limit)
	}
}

func TestNoAllocationOnExistingCounters(t *testing.T) {
	f := newFixture(t, 0)
	limit := storetest.Must(limiter.Spec{RequestsPerUnit: 1 << 31, Unit: limiter.Second})
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
		t.Errorf("%v allocations, want none", allocs)
	}
}

// A request of very many hits is decided in time in proportion to them, whether
// it finds its counters or makes them, on one counter or on many.
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

// Without a clock of its own, a store takes the time that passes.
func TestTimePasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{TB: t, Store: memory.New(memory.Options{})}
		for range 3 {
			if d, over := f.decide(hit(perMinute, 10, "a")), f.decide(hit(perMinute, 1, "a")); d.Over || d.Used != 10 || !over.Over {
				t.Errorf("got %+v, want a window of its own, then %+v over", d, over)
			}
			time.Sleep(time.Minute)
		}
	})
}
