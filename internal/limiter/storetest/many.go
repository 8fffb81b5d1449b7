package storetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"weir/internal/limiter"
)

// testKeys checks that a store accepts any bytes as a key and distinguishes all keys.
func testKeys(f *fixture) {
	l := per(1000, limiter.Day)
	long := strings.Repeat("k", 10_000)
	keys := []string{
		"\xff", "\xff\xff", "\xfe", "é", "e", "\x00", "\x00\x00", "\n", "\r\n", " ", "a", "a ", "a\x00", "a\x00b",
		"A", "{a}", "{a}b", "*", "%s", "'", `"`, `\`, "1", "1.0", long, long + "x", long[1:],
	}
	for i, key := range keys {
		f.decide(take(key, l, uint64(i+1)))
	}
	for i, key := range keys {
		f.expectUsed(l, []int64{int64(i + 1)}, key)
	}
}

// testManyHits sends requests of far more hits than a store decides without allocation.
func testManyHits(f *fixture) {
	const n = 200
	one, all := per(1, limiter.Day), per(n, limiter.Day)
	var distinct, crowded []limiter.Hit
	var keys []string
	for i := range n {
		keys = append(keys, fmt.Sprint("distinct ", i))
		distinct = append(distinct, take(keys[i], one, 1))
		crowded = append(crowded, take(fmt.Sprint("crowded ", i%7), all, 1))
	}
	f.decide(take(keys[n-1], one, 1))
	if _, denied := f.decide(distinct...); !denied {
		f.Errorf("admitted, though the last of %d hits is over", n)
	}
	f.expectUsed(one, append(make([]int64, n-1), 1), keys...)
	if out, denied := f.decide(distinct[:n-1]...); denied {
		f.Errorf("denied, want %d hits on unused counters admitted: %+v", n-1, out)
	}
	f.expectUsed(one, slices.Repeat([]int64{1}, n), keys...)

	out, denied := f.decide(crowded...)
	if want := int64(n/7 + 1); denied || out[0].Used != want || out[n-1].Used != want {
		f.Errorf("%d hits on 7 counters: denied %v, used %d and %d, want %d", n, denied, out[0].Used, out[n-1].Used, want)
	}
}

// together calls f from n goroutines at the same time.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	gate := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-gate
			f(i)
		})
	}
	close(gate)
	wg.Wait()
}

// testConcurrent sends 1,000 concurrent requests of one unit to a limit of 100 per day.
func testConcurrent(f *fixture) {
	l := per(100, limiter.Day)
	var admitted atomic.Int64
	together(1000, func(int) {
		hits, out := request(take("a", l, 1)), make([]limiter.Decision, 1)
		denied, err := f.store.Decide(f.Context(), hits, out)
		switch {
		case err != nil:
			f.Errorf("Decide: %v", err)
		case denied != out[0].Over || denied == out[0].Charged:
			f.Errorf("denied is %v, decision %+v", denied, out[0])
		case !denied:
			admitted.Add(1)
		}
	})
	if got := admitted.Load(); got != 100 {
		f.Errorf("%d requests admitted, want 100", got)
	}
	f.expectUsed(l, []int64{100}, "a")
}

// testCrossing checks that requests that take counters in opposite orders neither block each other
// nor charge one counter without the other. If the store decides parts of a request separately,
// charges of denied requests may deny other requests, so that fewer are admitted.
func testCrossing(f *fixture) {
	small, large := per(100, limiter.Day), per(150, limiter.Day)
	orders := [][]limiter.Hit{
		request(take("a", small, 1), take("b", large, 1), take("c", large, 1)),
		request(take("c", large, 1), take("b", large, 1), take("a", small, 1)),
		request(take("b", large, 1), take("c", large, 1)),
		request(take("c", large, 1), take("b", large, 1)),
	}
	var admitted [4]atomic.Int64
	together(1000, func(i int) {
		hits := orders[i%4]
		denied, err := f.store.Decide(f.Context(), hits, make([]limiter.Decision, len(hits)))
		if err != nil {
			f.Errorf("Decide: %v", err)
		} else if !denied {
			admitted[i%4].Add(1)
		}
	})
	three := admitted[0].Load() + admitted[1].Load()
	two := admitted[2].Load() + admitted[3].Load()
	if three > 100 || three+two > 150 || three+two < 150 && !f.apart {
		f.Errorf("%d requests on a, b and c and %d on b and c admitted, want at most 100, and 150 together", three, two)
	}
	f.expectUsed(small, []int64{three}, "a")
	f.expectUsed(large, []int64{three + two, three + two}, "b", "c")
}

// testCancelled checks that callers whose context is canceled, before or while they wait, get a
// decision or an error, and that their requests are written completely or not at all.
func testCancelled(f *fixture) {
	l := per(1_000_000, limiter.Day)
	f.expectUsed(l, []int64{0, 0}, "a", "b") // first, because later requests stay in order only if the nodes of a cluster are known
	gone, cancel := context.WithCancel(f.Context())
	cancel()
	var admitted atomic.Int64
	const callers, requests = 20, 20
	together(callers, func(i int) {
		for range requests {
			ctx := gone
			if i%2 == 0 {
				var leave context.CancelFunc
				ctx, leave = context.WithCancel(f.Context())
				go leave()
			}
			hits, out := request(take("a", l, 1), take("b", l, 1)), make([]limiter.Decision, 2)
			if denied, err := f.store.Decide(ctx, hits, out); err == nil && !denied {
				admitted.Add(1)
			}
			copy(hits[0].Key, "x") // the caller owns the memory again, even if it has left
			hits[1] = limiter.Hit{}
			out[0] = limiter.Decision{}
		}
	})
	used := f.used(l, "a", "b", "x")
	if used[0] != used[1] || used[2] != 0 {
		f.Errorf("counters a, b and x hold %v, want a and b equal and nothing in x", used)
	}
	if used[0] < admitted.Load() || used[0] > callers*requests {
		f.Errorf("counters hold %d, want at least the %d admitted and at most the %d asked for", used[0], admitted.Load(), callers*requests)
	}
}

// testLeft checks that a request is not charged if its caller left before the store accepted it,
// except for hits that are written in any case.
func testLeft(f *fixture) {
	l := per(5, limiter.Day)
	gone, cancel := context.WithCancel(f.Context())
	cancel()
	for _, hits := range [][]limiter.Hit{{take("a", l, 1)}, {take("a", l, 1), take("b", l, 1)}, {peek("a", l)}} {
		_, err := f.store.Decide(gone, hits, make([]limiter.Decision, len(hits)))
		if !errors.Is(err, limiter.ErrUnavailable) {
			f.Errorf("%d hits: error %v, want one that wraps ErrUnavailable", len(hits), err)
		}
	}
	f.expectUsed(l, []int64{0, 0}, "a", "b")
	f.decide(take("a", l, 3), take("b", l, 3))
	for _, hits := range [][]limiter.Hit{{refund("a", l, 1)}, {always("b", l, 1)}} {
		_, _ = f.store.Decide(gone, hits, make([]limiter.Decision, len(hits)))
	}
	f.expectUsed(l, []int64{2, 4}, "a", "b")
}

// testLeftHolds has callers that take a hold, leave and release the hold. It checks that no hold
// is taken after its release.
func testLeftHolds(f *fixture) {
	for n := range uint64(300) {
		ctx, leave := context.WithCancel(f.Context())
		taken := make(chan struct{})
		go func() {
			defer close(taken)
			_, _ = f.store.Decide(ctx, request(hold(two, n)), make([]limiter.Decision, 1))
		}()
		if n%2 == 0 {
			runtime.Gosched()
		}
		leave()
		f.decide(release(two, n))
		<-taken
	}
	if used := f.counters(hold(two, 1))[0].Used; used != 0 {
		f.Errorf("all have left, and %d are held", used)
	}
}

// testReuse checks that a caller can use the same memory for all requests.
func testReuse(f *fixture) {
	l := per(1_000_000, limiter.Day)
	key := make([]byte, 1)
	hits, out := make([]limiter.Hit, 1), make([]limiter.Decision, 1)
	want := make([]int64, 3)
	for n := range 200 {
		i := n * n % len(want)
		key[0] = "abc"[i]
		hits[0] = limiter.Hit{Limit: l, Key: key, Cost: 1}
		if _, err := f.store.Decide(f.Context(), hits, out); err != nil {
			f.Fatalf("Decide: %v", err)
		}
		want[i]++
		if out[0].Used != want[i] {
			f.Fatalf("counter %s holds %d, want %d", key, out[0].Used, want[i])
		}
		key[0], hits[0], out[0] = 'x', limiter.Hit{}, limiter.Decision{}
	}
	f.expectUsed(l, append(want, 0), "a", "b", "c", "x")
}
