package telemetry

import (
	"iter"
	"maps"
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

// Keep sets which limits there are from now on. Series that none of them counts
// under are given up when they have been idle for ten minutes, those of values of
// requests with the rule that made them. One that comes back begins with 0.
func (u *Usage) Keep(limits iter.Seq[*limiter.Limit]) {
	u.mu.RLock()
	nothing := len(u.all) == 0 // as at the start
	u.mu.RUnlock()
	if nothing {
		return
	}
	used := make(map[limiter.Series]bool)
	for l := range limits { // which may be many: nobody has to wait for them
		used[l.Series], used[l.Series.Rule()], used[l.Series.Levels()] = true, true, true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, d := range u.detailed {
		used[d.series] = used[d.series] || used[d.rule]
	}
	for s, c := range u.all {
		if used[s] {
			delete(u.leaving, s)
		} else if _, known := u.leaving[s]; !known {
			u.leaving[s] = standing{time.Now(), c.total()}
		}
	}
}

// expire gives up what has been idle for long enough. Requests that began under
// older rules, and overrides, still count.
func (u *Usage) expire(now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	gone := make(map[limiter.Series]Sums) // by Levels
	for s, was := range u.leaving {
		c := u.all[s]
		if total := c.total(); total != was.total {
			u.leaving[s] = standing{now, total}
		} else if now.Sub(was.since) >= keepIdle {
			sums := gone[s.Levels()]
			sums.add(c)
			gone[s.Levels()] = sums
			delete(u.leaving, s)
			delete(u.all, s)
		}
	}
	if len(gone) == 0 {
		return
	}
	maps.DeleteFunc(u.detailed, func(_ detail, d *detailSeries) bool { return u.all[d.series] == nil })
	// Where others of the same Levels stay, so do the sums: the metrics of
	// envoyproxy/ratelimit do not tell them apart, and a sum that fell would look
	// like one that began again.
	for s := range u.all {
		for sum, n := range gone[s.Levels()] {
			u.ofLocked(s.Levels()).add(Sum(sum), int64(n))
		}
		delete(gone, s.Levels())
	}
}
