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

// counters is the cost of very many live counters in the memory store.
type counters struct {
	Live            int64
	BytesPerCounter float64 // resident memory
	Fill            float64 // counters made per second
	P99Few, P99     rounds  // at the usual rate with few and with all counters, microseconds
	P999            rounds
	LongestPause    float64 // longest pause of the garbage collector in seconds, from the server's heap profile
}

// counters measures the memory store with ten million live counters, compared with a
// memory store with few.
func (b *bench) counters(ctx context.Context) error {
	const perRequest, requests = mostDescriptors, 500_000
	few, err := b.weir("few", rulesOf(1, plenty))
	if err != nil {
		return err
	}
	many, err := b.weir("many", rulesOf(perRequest, plenty), "GOMEMLIMIT=8GiB")
	if err != nil {
		return err
	}
	// Memory that the server also needs with few counters does not count.
	if _, err := measured(ctx, b.load(many, perRequest)); err != nil {
		return err
	}
	before, err := many.residentBytes()
	if err != nil {
		return err
	}
	// Nearly every request makes new counters: with this number of keys, few are drawn twice.
	fill := b.load(many, perRequest)
	fill.Warmup, fill.Duration, fill.Requests = 0, 5*time.Minute, requests
	fill.Keys = 200 * requests
	filled, err := measured(ctx, fill)
	if err != nil {
		return err
	}
	after, err := many.residentBytes()
	if err != nil {
		return err
	}
	c := counters{Live: perRequest * requests, Fill: filled.PerSecond * perRequest}
	c.BytesPerCounter = (after - before) / float64(c.Live)
	for range b.rounds {
		if err := c.P99Few.addP99(ctx, b.planned(few, usualRate)); err != nil {
			return err
		}
		all, err := measured(ctx, b.planned(many, usualRate))
		if err != nil {
			return err
		}
		c.P99, c.P999 = append(c.P99, float64(all.Latency.P99)), append(c.P999, float64(all.Latency.P999))
	}
	c.LongestPause, err = longestPause(many)
	b.results.Counters = c
	return err
}

// longestPause reads the longest pause of the garbage collector from the server's heap
// profile.
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
