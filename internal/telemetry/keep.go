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
	// keepEvery is the interval between two looks at all series. One that has not grown for
	// keepLooks of them is idle. It stays so long because programs that read metrics from time to
	// time are to see its last sums.
	keepEvery, keepLooks = time.Minute, 10
	// heldFor is the number of entries of a map for which each holds the lock.
	heldFor = 32
)

// Keep sets the limits that exist from now on. Series without a limit, and series of request
// values without the rule that made them, are removed by Run when they have been idle for ten
// minutes. A series that comes back begins with 0.
func (u *Usage) Keep(limits iter.Seq[*limiter.Limit]) {
	u.keeping.Lock()
	defer u.keeping.Unlock()
	u.mu.RLock()
	nothing := len(u.all) == 0 // as at the start
	u.mu.RUnlock()
	if nothing {
		return
	}
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

// Run removes series that are no longer needed, until ctx ends.
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

// expire removes idle series without a limit, and idle series of request values if there is
// no room for others. Requests that began under older rules, and overrides, still count.
func (u *Usage) expire() {
	u.keeping.Lock()
	defer u.keeping.Unlock()
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

// remove replaces all by a map without the series that are gone. Deleting them would not
// return the memory of the map.
//
// Where others with the same labels stay, so do the sums. The metrics of envoyproxy/ratelimit
// do not tell these series apart, and a sum that fell would look like a restart. Names of
// statsd have all levels, labels of Prometheus only the first two.
func (u *Usage) remove(gone map[limiter.Series]*counters) {
	next, rest := make(map[limiter.Series]*counters), make(map[limiter.Series]*counters)
	stays := make(map[limiter.Series]bool) // whether a series with these labels stays
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
// that no request waits long. Entries that are added during the loop may be missing.
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
