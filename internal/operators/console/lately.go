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

	mu         sync.Mutex
	older, old lookAt[T]
}

type lookAt[T any] struct {
	at   time.Time
	seen T
}

// How long ago looks are compared with, which is twice as long at most while somebody looks,
// and when none is old enough any more to be.
const (
	lookBack    = 5 * time.Second
	lookForgets = time.Minute
)

// look returns what is now, what was about ten seconds ago, and how long ago exactly: 0 if
// nobody looked then.
func (l *lately[T]) look(now time.Time) (seen, before T, over time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen = l.take()
	switch ago := now.Sub(l.old.at); {
	case ago >= lookForgets: // or this is the first look
		l.old = lookAt[T]{now, seen}
		l.older = l.old
	case ago >= lookBack:
		l.older, l.old = l.old, lookAt[T]{now, seen}
	}
	if over = now.Sub(l.older.at); over < time.Second {
		over = 0 // of so short a time, a rate says nothing
	}
	return seen, l.older.seen, over
}

// figure is a fact about the store.
type figure struct{ Name, Value string }

// storeFigures returns how the store does.
func (c *console) storeFigures() (list []figure) {
	now, before, over := c.store.look(time.Now())
	add := func(name, format string, values ...any) {
		list = append(list, figure{name, fmt.Sprintf(format, values...)})
	}
	grown := func(name string) float64 { return now[name] - before[name] }
	if counters, inMemory := now["weir_memory_counters"]; inMemory {
		add("Counters", "%.0f", counters)
		add("Dropped because memory was full", "%.0f", now["weir_memory_evictions_total"])
	} else if calls := grown("weir_redis_calls_total"); calls > 0 && over > 0 {
		add("Calls", "%.1f a second", calls/over.Seconds())
		add("Requests in a call", "%.1f on average", grown("weir_redis_batch_requests")/calls)
		add("Latency of a call", "%.2f ms on average", 1000*grown("weir_redis_call_seconds")/calls)
	} else {
		add("Calls", "none lately")
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		family, label, _ := strings.Cut(name, " ")
		what := map[string]string{"weir_redis_errors_total": "Errors: ", "weir_failure_mode_decisions_total": "Decided by failure mode "}[family]
		if what != "" && now[name] > 0 {
			add(what+label, "%.0f", now[name])
		}
	}
	return list
}

// storeMetrics returns the metrics of the store, of histograms the sums, by name and, behind
// a space, the values of their labels.
func (c *console) storeMetrics() map[string]float64 {
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
