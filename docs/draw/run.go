package main

import (
	"context"
	"fmt"
	"time"

	"weir/internal/limiter"
	"weir/internal/limiter/memory"
)

// subject is a limit in a picture or a table.
type subject struct {
	title string
	limit *limiter.Limit
}

// subjects returns a limit of amount per minute for each algorithm.
func subjects(amount uint64) []subject {
	specs := []struct {
		title string
		limiter.Spec
	}{
		{"fixed_window", limiter.Spec{}},
		{"first_hit", limiter.Spec{Algorithm: limiter.FirstHit}},
		{"sliding_window", limiter.Spec{Algorithm: limiter.SlidingWindow}},
		{"sliding_log", limiter.Spec{Algorithm: limiter.SlidingLog}},
		{"token_bucket", limiter.Spec{Algorithm: limiter.TokenBucket}},
		{fmt.Sprintf("token_bucket, burst %d", amount/6), limiter.Spec{Algorithm: limiter.TokenBucket, Burst: amount / 6}},
	}
	var list []subject
	for _, s := range specs {
		s.Unit, s.RequestsPerUnit = limiter.Minute, amount
		list = append(list, subject{s.title, must(limiter.NewLimit(s.Spec))})
	}
	return list
}

// These describe the load in the pictures.
const (
	loadAmount = 60 // amount of the limits, per minute
	loadBegin  = 30 * time.Second
	loadEnd    = 5 * time.Minute
)

// load returns the times of the requests since the start: two bursts just before and
// just after a full minute, then twice the rate that the limits allow, then a burst
// after a pause.
func load() []time.Duration {
	var times []time.Duration
	for _, phase := range []struct {
		from, to time.Duration
		perSec   int
	}{
		{50 * time.Second, 58 * time.Second, 10},
		{60 * time.Second, 68 * time.Second, 10},
		{120 * time.Second, 210 * time.Second, 2},
		{270 * time.Second, 280 * time.Second, 10},
	} {
		gap := time.Second / time.Duration(phase.perSec)
		for t := phase.from; t < phase.to; t += gap {
			times = append(times, t)
		}
	}
	return times
}

// run sends a request at each of the times to a limit in the memory store, and returns
// the times of the admitted requests.
func run(limit *limiter.Limit, times []time.Duration) (admitted []time.Duration) {
	var now time.Duration
	store := memory.New(memory.Options{Now: func() time.Time { return time.Unix(0, int64(now)) }})
	hits := []limiter.Hit{{Limit: limit, Key: []byte("key"), Cost: 1}}
	out := make([]limiter.Decision, 1)
	for _, now = range times {
		if denied := must(store.Decide(context.Background(), hits, out)); !denied {
			admitted = append(admitted, now)
		}
	}
	return admitted
}

// within returns, for each of the times, the number of times in the span that ends with
// it.
func within(span time.Duration, times []time.Duration) []int {
	counts := make([]int, len(times))
	first := 0
	for i, t := range times {
		for times[first] <= t-span {
			first++
		}
		counts[i] = i - first + 1
	}
	return counts
}
