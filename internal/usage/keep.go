package usage

import (
	"iter"
	"maps"
	"math"
	"sync/atomic"
	"time"

	"weir/internal/limiter"
)

// keepIdle is how long series stay that no limit counts under any more, so that
// whoever reads them from time to time sees their last sums.
const keepIdle = 10 * time.Minute

// standing is how a series without a limit was when it last grew.
type standing struct {
	since time.Time
	total uint64
}

// keep notes which series have none of limits.
func (t *table) keep(limits iter.Seq[*limiter.Limit], now time.Time) {
	used, n := t.inUse(), 0
	first, last := uint64(math.MaxUint64), uint64(0)
	for l := range limits { // which may be many: nobody has to wait for them
		for _, s := range []limiter.Series{l.Series, l.Series.Rule(), l.Series.Levels()} {
			if _, counted := used[s]; counted {
				used[s] = true
			}
		}
		first, last, n = min(first, l.ID()), max(last, l.ID()), n+1
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range t.detailed {
		used[d.series] = used[d.series] || used[d.rule]
	}
	for s, c := range t.all {
		if used[s] {
			delete(t.leaving, s)
		} else if _, known := t.leaving[s]; !known {
			t.leaving[s] = standing{now, c.total()}
		}
	}
	t.index.Store(newIndex(first, last, n))
}

// inUse returns what there are series of, each with false.
func (t *table) inUse() map[limiter.Series]bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	used := make(map[limiter.Series]bool, len(t.all))
	for s := range t.all {
		used[s] = false
	}
	for _, d := range t.detailed {
		used[d.rule] = false
	}
	return used
}

// expire gives up what has been idle for long enough. Requests that began under
// older rules, and overrides, still count.
func (t *table) expire(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	gone := make(map[limiter.Series]*Sums) // by Levels
	for s, was := range t.leaving {
		c := t.all[s]
		if total := c.total(); total != was.total {
			t.leaving[s] = standing{now, total}
		} else if now.Sub(was.since) >= keepIdle {
			if gone[s.Levels()] == nil {
				gone[s.Levels()] = new(Sums)
			}
			for sum := range outcomes {
				gone[s.Levels()][sum] += c[sum].Load()
			}
			delete(t.leaving, s)
			delete(t.all, s)
		}
	}
	if len(gone) == 0 {
		return
	}
	maps.DeleteFunc(t.detailed, func(_ detail, d *detailSeries) bool { return t.all[d.series] == nil })
	t.leave(gone)
	old := t.index.Load()
	t.index.Store(&index{old.first, make([]atomic.Pointer[counters], len(old.counters))})
}

// leave adds the sums of what is gone where others of the same Levels stay: the
// metrics of envoyproxy/ratelimit do not tell these apart, and a sum that fell
// would look like one that began anew.
func (t *table) leave(gone map[limiter.Series]*Sums) {
	for s := range t.all {
		levels := s.Levels()
		if sums := gone[levels]; sums != nil {
			c := t.locked(levels)
			for sum, n := range sums {
				c[sum].Add(n)
			}
			delete(gone, levels)
		}
	}
}
