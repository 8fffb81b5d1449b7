package console

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// lately keeps what was some seconds ago, while somebody asks.
type lately[T any] struct {
	take func() T

	mu   sync.Mutex
	seen lookAt[T]   // last
	old  []lookAt[T] // to compare with, the oldest first
}

type lookAt[T any] struct {
	at   time.Time
	seen T
}

// How long ago the looks are that are compared, how often one is kept, for how long the
// last one serves others, and when no older one is compared with.
const (
	lookBack    = 10 * time.Second
	lookEvery   = 5 * time.Second
	lookServes  = time.Second
	lookForgets = time.Minute
)

// look returns what is now, what was about ten seconds ago, and how long ago exactly: 0 if
// this is the first look.
func (l *lately[T]) look(now time.Time) (seen, before T, over time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.seen.at) >= lookForgets {
		l.old = nil
	}
	if now.Sub(l.seen.at) >= lookServes { // or this is the first look
		l.seen = lookAt[T]{now, l.take()}
	}
	if n := len(l.old); n == 0 || now.Sub(l.old[n-1].at) >= lookEvery {
		l.old = append(l.old, l.seen)
	}
	for len(l.old) > 1 && now.Sub(l.old[1].at) >= lookBack {
		l.old = slices.Delete(l.old, 0, 1)
	}
	return l.seen.seen, l.old[0].seen, l.seen.at.Sub(l.old[0].at)
}

// figure is a fact about the store.
type figure struct{ Name, Value string }

// storeFigures returns how the store does.
func (c *Console) storeFigures() (list []figure) {
	now, before, over := c.store.look(time.Now())
	add := func(name, format string, values ...any) {
		list = append(list, figure{name, fmt.Sprintf(format, values...)})
	}
	grown := func(name string) float64 { return now[name] - before[name] }
	if counters, inMemory := now["weir_memory_counters"]; inMemory {
		add("Counters", "%.0f of at most %d", counters, c.MaxCounters)
		add("Dropped because memory was full", "%.0f", now["weir_memory_evictions_total"])
	} else if calls := grown("weir_redis_calls_total"); calls > 0 && over > 0 {
		add("Calls", "%.1f a second", calls/over.Seconds())
		add("Requests in a call", "%.1f on average", grown("weir_redis_batch_requests")/calls)
		add("Latency of a call", "%.2f ms on average", 1000*grown("weir_redis_call_seconds")/calls)
	} else {
		add("Calls", "none lately")
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if _, kind, found := strings.Cut(name, "weir_redis_errors_total "); found && now[name] > 0 {
			add("Errors: "+kind, "%.0f", now[name])
		}
		if _, mode, found := strings.Cut(name, "weir_failure_mode_decisions_total "); found && now[name] > 0 {
			add("Decided by failure mode "+mode, "%.0f", now[name])
		}
	}
	return list
}

// storeMetrics returns the metrics of the store, of histograms the sums, by name and, behind
// a space, the values of their labels.
func (c *Console) storeMetrics() map[string]float64 {
	byName := map[string]float64{}
	families, _ := c.StoreMetrics.Gather() // what is there is shown
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			byName[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum()
		}
	}
	return byName
}
