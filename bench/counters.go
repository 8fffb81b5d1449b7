package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// counters is what very many live counters cost in memory.
type counters struct {
	Live            int64
	BytesPerCounter float64 // resident
	Fill            float64 // counters made per second
	P99Few, P99     rounds  // at 3,000 requests per second with few and with all, microseconds
	P999            rounds
	LongestPause    float64 // of the garbage collector, seconds, as the server tells it
}

// counters measures the memory store with ten million live counters.
func (b *bench) counters(ctx context.Context) error {
	const perRequest, requests = 20, 500_000
	c := &b.results.Counters
	*c = counters{Live: perRequest * requests}
	weir, err := b.weir("counters", rulesOf(perRequest, plenty), "MEMORY_MAX_COUNTERS="+strconv.Itoa(2*perRequest*requests))
	if err != nil {
		return err
	}
	steady := b.load(weir, 1)
	steady.Rate, steady.Callers = 3000, 512
	few, err := measured(ctx, steady)
	if err != nil {
		return err
	}
	before, err := weir.residentBytes()
	if err != nil {
		return err
	}
	// Nearly each request makes counters of its own: of so many keys few are drawn twice.
	fill := b.load(weir, perRequest)
	fill.Warmup, fill.Duration, fill.Requests = 0, 5*time.Minute, requests
	fill.Traffic.Keys = 200 * requests
	filled, err := measured(ctx, fill)
	if err != nil {
		return err
	}
	c.Fill = filled.PerSecond * perRequest
	after, err := weir.residentBytes()
	if err != nil {
		return err
	}
	c.BytesPerCounter = float64(after-before) / float64(c.Live)
	for range b.rounds {
		all, err := measured(ctx, steady)
		if err != nil {
			return err
		}
		c.P99Few = append(c.P99Few, float64(few.Latency.P99))
		c.P99, c.P999 = append(c.P99, float64(all.Latency.P99)), append(c.P999, float64(all.Latency.P999))
	}
	c.LongestPause, err = longestPause(weir)
	return err
}

// longestPause reads the longest pause of the garbage collector from the
// server's profile of goroutines and memory.
func longestPause(weir *program) (float64, error) {
	response, err := http.Get("http://" + weir.debug + "/debug/pprof/heap?debug=1")
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(text), "# PauseNs = [")
	if !found {
		return 0, fmt.Errorf("the profile tells no pauses: %s", response.Status)
	}
	list, _, _ := strings.Cut(rest, "]")
	longest := int64(0)
	for _, field := range strings.Fields(list) {
		ns, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		longest = max(longest, ns)
	}
	return time.Duration(longest).Seconds(), nil
}
