package telemetry

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
)

// TestCountersAreFoundByID counts hits of limits of the rules, of limits that were
// made before, between and after them, and of more of these than there is room for.
func TestCountersAreFoundByID(t *testing.T) {
	l := newDefault(nil, prometheus.NewRegistry())
	all := users(100)
	rules := []*limiter.Limit{all[3], all[4], all[20], all[90]}
	l.Keep(slices.Values(rules))
	if n := len(l.series.all); n != 0 {
		t.Errorf("%d series before the first hit, want none", n)
	}
	for i, limit := range all {
		for range 2 {
			l.count(&limiter.Hit{Limit: limit, Cost: uint64(i) + 1}, &limiter.Decision{Charged: true})
		}
	}
	for i, limit := range all {
		if got, want := l.series.all[limit.Series][TotalHits].Load(), uint64(2*(i+1)); got != want {
			t.Errorf("limit %d: got %d hits, want %d", i, got, want)
		}
	}
	if n := len(l.series.index.Load().counters); n > 2*len(rules) {
		t.Errorf("room for %d limits, want at most twice the rules'", n)
	}
}
