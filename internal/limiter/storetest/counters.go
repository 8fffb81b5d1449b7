package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/limiter"
)

// counters returns the result of Peek for hits.
func (f *fixture) counters(hits ...limiter.Hit) []limiter.Counter {
	f.Helper()
	counters, err := f.store.Peek(f.Context(), hits)
	if err != nil || len(counters) != len(hits) {
		f.Fatalf("Peek: got %d counters of %d, error %v", len(counters), len(hits), err)
	}
	return counters
}

func (f *fixture) reset(hits ...limiter.Hit) {
	f.Helper()
	if err := f.store.Reset(f.Context(), hits); err != nil {
		f.Fatalf("Reset: %v", err)
	}
}

// looked is a test case of Peek and Reset: a counter after some requests.
type looked struct {
	name     string
	requests [][]limiter.Hit
	after    time.Duration
	hit      limiter.Hit // hit for Peek on the counter
	want     limiter.Counter
}

// lookedAt returns the test cases.
func lookedAt() []looked {
	sliding := Must(limiter.Spec{RequestsPerUnit: 3, Unit: limiter.Minute, Algorithm: limiter.SlidingWindow})
	bucket := Must(limiter.Spec{RequestsPerUnit: 3, Unit: limiter.Minute, Algorithm: limiter.TokenBucket})
	shadow := Must(limiter.Spec{RequestsPerUnit: 3, Unit: limiter.Minute, Mode: limiter.Shadow})
	takes := func(l *limiter.Limit, costs ...uint64) (requests [][]limiter.Hit) {
		for _, cost := range costs {
			requests = append(requests, request(take("a", l, cost)))
		}
		return requests
	}
	of := func(l *limiter.Limit) limiter.Hit { return take("a", l, 7) }
	return []looked{
		{"unused", nil, 0, of(three), limiter.Counter{Remaining: 3}},
		{"used", takes(three, 2), second, of(three), limiter.Counter{Used: 2, Remaining: 1, WholeIn: minuteLeft - second}},
		{"full", takes(three, 3, 1), second, of(three), limiter.Counter{Used: 3, RetryAfter: minuteLeft - second, WholeIn: minuteLeft - second}},
		{"of a window that is over", takes(three, 3), minuteLeft, of(three), limiter.Counter{Remaining: 3}},
		{"of a limit that was lowered", takes(enforced(5), 5), 0, of(three), limiter.Counter{Used: 5, RetryAfter: minuteLeft, WholeIn: minuteLeft}},
		{"of a limit of nothing", takes(enforced(0), 1), 0, of(enforced(0)), limiter.Counter{RetryAfter: limiter.Never}},
		{"in shadow mode", takes(shadow, 3, 1), 0, of(shadow), limiter.Counter{Used: 3, RetryAfter: minuteLeft, WholeIn: minuteLeft}},
		{"in a sliding window", takes(sliding, 2), 0, of(sliding), limiter.Counter{Used: 2, Remaining: 1, WholeIn: minuteLeft + time.Minute}},
		{"a bucket", takes(bucket, 3), 30 * second, of(bucket), limiter.Counter{Used: 2, Remaining: 1, WholeIn: 30 * second}},
		{"a full bucket", takes(bucket, 3), second, of(bucket), limiter.Counter{Used: 3, RetryAfter: 19 * second, WholeIn: 59 * second}},
		{"banned", takes(banning, 3, 1), second, of(banning), limiter.Counter{Used: 3, RetryAfter: ban - second, WholeIn: ban - second, BannedFor: ban - second}},
		{"banned, in a new window", takes(banning, 3, 1), minuteLeft, of(banning), limiter.Counter{RetryAfter: ban - minuteLeft, WholeIn: ban - minuteLeft, BannedFor: ban - minuteLeft}},
		{"holds", [][]limiter.Hit{request(hold(two, 1))}, second, hold(two, 9), limiter.Counter{Used: 1, Remaining: 1, WholeIn: time.Minute}},
		{"all holds", [][]limiter.Hit{request(hold(two, 1), hold(two, 2))}, second, hold(two, 1), limiter.Counter{Used: 2, RetryAfter: second, WholeIn: time.Minute}},
		{"holds that ended", [][]limiter.Hit{request(hold(two, 1))}, time.Minute, hold(two, 1), limiter.Counter{Remaining: 2}},
	}
}

// testPeek peeks at each counter twice, because Peek must change nothing.
func testPeek(f *fixture) {
	for i, c := range lookedAt() {
		key := fmt.Appendf(nil, "%d", i)
		f.at(0)
		for _, hits := range c.requests {
			f.decide(rekeyed(hits, key)...)
		}
		f.at(c.after)
		hit := rekeyed(request(c.hit), key)[0]
		for range 2 {
			if got := f.counters(hit)[0]; got != c.want {
				f.Errorf("%s:\n got %+v\nwant %+v", c.name, got, c.want)
			}
		}
	}
	f.at(0)
	want := limiter.Counter{Used: 1, Remaining: 2, WholeIn: minuteLeft}
	f.decide(take("one", three, 1))
	if got := f.counters(peek("one", three), peek("other", enforced(5)), peek("one", three)); !slices.Equal(got, []limiter.Counter{want, {Remaining: 5}, want}) {
		f.Errorf("several at once: got %+v", got)
	}
}

// rekeyed returns a copy of hits in which all hits have the given key.
func rekeyed(hits []limiter.Hit, key []byte) []limiter.Hit {
	hits = slices.Clone(hits)
	for i := range hits {
		hits[i].Key = key
	}
	return hits
}

// testReset checks that a reset counter is unused and that another counter is unchanged.
func testReset(f *fixture) {
	for i, c := range lookedAt() {
		key := fmt.Appendf(nil, "%d", i)
		f.at(0)
		neighbour := append(slices.Clone(key), " beside"...)
		for _, hits := range c.requests {
			f.decide(rekeyed(hits, key)...)
			f.decide(rekeyed(hits, neighbour)...)
		}
		f.at(c.after)
		hit := rekeyed(request(c.hit), key)[0]
		f.reset(hit)
		unused := limiter.Counter{Remaining: int64(hit.Limit.Size())}
		if unused.Remaining == 0 {
			unused.RetryAfter = limiter.Never
		}
		if got := f.counters(hit)[0]; got != unused {
			f.Errorf("%s: reset, it is %+v", c.name, got)
		}
		if got := f.counters(rekeyed(request(c.hit), neighbour)[0])[0]; got != c.want {
			f.Errorf("%s: the neighbour is %+v, want %+v", c.name, got, c.want)
		}
		hit.Cost = 1
		if _, denied := f.decide(hit); denied == (unused.Remaining > 0) {
			f.Errorf("%s: reset, the next request is denied: %v", c.name, denied)
		}
	}
	f.at(0)
	f.decide(take("x", three, 3), take("y", enforced(5), 5))
	f.reset(take("x", three, 1), take("never used", three, 1), take("y", enforced(5), 1), take("x", three, 1))
	f.expectUsed(three, []int64{0, 0, 0}, "x", "y", "never used")
	if out, _ := f.decide(release(two, 1)); !out[0].Already || out[0].Used != 0 {
		f.Errorf("a released hold of a counter that was reset: %+v", out[0])
	}
}

// testResetUnderLoad resets a counter several times while requests charge it. Each reset may
// admit the amount at most once more.
func testResetUnderLoad(f *fixture) {
	const workers, each, resets = 8, 60, 5
	key := []byte("busy")
	l := enforced(20)
	var admitted atomic.Int64
	var work sync.WaitGroup
	for range workers {
		work.Go(func() {
			for range each {
				denied, err := f.store.Decide(context.Background(), []limiter.Hit{{Limit: l, Key: key, Cost: 1}}, make([]limiter.Decision, 1))
				if err != nil {
					f.Errorf("Decide: %v", err)
				} else if !denied {
					admitted.Add(1)
				}
			}
		})
	}
	for range resets {
		f.reset(limiter.Hit{Limit: l, Key: key})
		if used := f.counters(limiter.Hit{Limit: l, Key: key})[0].Used; used > 20 {
			f.Errorf("%d used of 20", used)
		}
	}
	work.Wait()
	if n := admitted.Load(); n < 20 || n > 20*(1+resets) {
		f.Errorf("%d admitted of a limit of 20 that was reset %d times", n, resets)
	}
	f.reset(limiter.Hit{Limit: l, Key: key})
	for n := range 21 {
		if _, denied := f.decide(limiter.Hit{Limit: l, Key: key, Cost: 1}); denied != (n == 20) {
			f.Errorf("request %d after the last reset: denied is %v", n, denied)
		}
	}
}
