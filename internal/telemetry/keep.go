package telemetry

import (
	"iter"
	"maps"
	"math"
	"time"

	"weir/internal/limiter"
)

// keepIdle is how long series stay that no limit counts under any more, so that
// programs that read them from time to time see their last sums.
const keepIdle = 10 * time.Minute

// standing is how a series without a limit was when it last grew.
type standing struct {
	since time.Time
	total uint64
}

// keep notes which series have none of limits.
func (t *table) keep(limits iter.Seq[*limiter.Limit], now time.Time) {
	used := t.inUse()
	first, last, n := uint64(math.MaxUint64), uint64(0), uint64(0)
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
	t.setIndex(first, min(last-first+1, 2*n)) // however many IDs others took in between
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
	gone := make(map[limiter.Series]Sums) // by Levels
	for s, was := range t.leaving {
		c := t.all[s]
		if total := c.total(); total != was.total {
			t.leaving[s] = standing{now, total}
		} else if now.Sub(was.since) >= keepIdle {
			sums := gone[s.Levels()]
			sums.add(c)
			gone[s.Levels()] = sums
			delete(t.leaving, s)
			delete(t.all, s)
		}
	}
	if len(gone) == 0 {
		return
	}
	maps.DeleteFunc(t.detailed, func(_ detail, d *detailSeries) bool { return t.all[d.series] == nil })
	// Where others of the same Levels stay, so do the sums: the metrics of
	// envoyproxy/ratelimit do not tell them apart, and a sum that fell would look
	// like one that began anew.
	for s := range t.all {
		for sum, n := range gone[s.Levels()] {
			t.ofSeriesLocked(s.Levels()).add(Sum(sum), int64(n))
		}
		delete(gone, s.Levels())
	}
	old := t.index.Load()
	t.setIndex(old.first, uint64(len(old.counters)))
}
