package telemetry

import (
	"context"
	"iter"
	"maps"
	"sync"
	"time"

	"weir/internal/limiter"
)

const (
	// keepEvery is the interval between two checks of all series. A series that has not grown for
	// keepChecks checks is idle: by then, every reader of metrics has seen its last sums.
	keepEvery, keepChecks = time.Minute, 10
	// heldFor is the number of map entries after which the function each releases the lock for a
	// moment.
	heldFor = 32
)

// Keep sets the limits in use. After ten idle minutes, Run removes a series whose limit is not in use,
// and a series of request values whose rule is not. A removed series that is used again starts at 0.
func (u *Usage) Keep(limits iter.Seq[*limiter.Limit]) { u.changed.Store(&limits) }

// Run removes idle series every minute, until ctx ends.
func (u *Usage) Run(ctx context.Context) {
	tick := time.Tick(keepEvery)
	for {
		select {
		case <-tick:
			u.expire()
		case <-ctx.Done():
			return
		}
	}
}

// expire removes idle series whose limit is not in use and, if u.detailed is full, all idle series of
// request values. Overrides, and requests that started with older rules, can add removed series again.
func (u *Usage) expire() {
	if limits := u.changed.Swap(nil); limits != nil {
		u.mark(*limits)
	}
	u.mu.RLock()
	full := len(u.detailed) >= maxDetailed
	u.mu.RUnlock()
	gone := make(map[limiter.Series]*counters)
	for s, c := range each(&u.mu, u.all) {
		if c.idle() && (c.unused || c.detail && full) {
			gone[s] = c
		}
	}
	if len(gone) > 0 {
		u.remove(gone)
	}
}

// mark sets unused in a series if limits lacks its limit or, for a series of request values, its rule.
func (u *Usage) mark(limits iter.Seq[*limiter.Limit]) {
	used := make(map[limiter.Series]bool)
	for l := range limits {
		used[l.Series], used[l.Series.Rule()] = true, true
	}
	for s, c := range each(&u.mu, u.all) {
		c.unused = !used[s]
	}
	for _, d := range each(&u.mu, u.detailed) {
		d.unused = !used[d.rule]
	}
}

// remove replaces u.all by a map without the series in gone. Deleting these series from u.all would not
// free the memory of the map.
//
// Several limits may share a series of envoyproxy/ratelimit's metrics, whose sum must not fall, because that
// would look like a restart. So remove adds the removed sums to u.rest under the levels that they share with
// a limit that stays: all levels, for statsd, or only the first two, which are Prometheus's labels.
func (u *Usage) remove(gone map[limiter.Series]*counters) {
	next, rest := make(map[limiter.Series]*counters), make(map[limiter.Series]*counters)
	stays := make(map[limiter.Series]bool) // labels of the series that stay
	u.mu.Lock()
	u.next = next
	u.mu.Unlock()
	for s, c := range each(&u.mu, u.all) {
		if gone[s] == nil {
			next[s], stays[s.Levels()], stays[s.Keys()] = c, true, true
		}
	}
	for _, left := range []map[limiter.Series]*counters{gone, u.rest} {
		for s, c := range left {
			shared := s.Levels()
			if !stays[shared] {
				shared = s.Keys()
			}
			if !stays[shared] {
				continue
			}
			if rest[shared] == nil {
				rest[shared] = new(counters)
			}
			for sum := range outcomes {
				rest[shared].sums[sum].Add(c.sums[sum].Load())
			}
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all, u.next, u.rest = next, nil, rest
	maps.DeleteFunc(u.detailed, func(_ detail, d *detailSeries) bool { return u.all[d.series] == nil })
}

// each yields the entries of a map that mu guards. It holds mu for a few entries at a time, so
// that no request waits long. Entries added during the loop may be missing.
func each[K comparable, V any](mu *sync.RWMutex, entries map[K]V) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		mu.RLock()
		defer mu.RUnlock()
		n := 0
		for k, v := range entries {
			if n++; n%heldFor == 0 {
				mu.RUnlock()
				mu.RLock()
			}
			if !yield(k, v) {
				return
			}
		}
	}
}
