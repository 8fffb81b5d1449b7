package limiter

import (
	"iter"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// keepIdle is how long series stay that no limit counts under any more, so that
// whoever reads them from time to time sees their last sums.
const keepIdle = 10 * time.Minute

// leaving are series without a limit, each with how it was when it last grew.
type leaving[K comparable] map[K]standing

type standing struct {
	since time.Time
	total uint64
}

// mark notes whether there is a limit that counts under k.
func (l leaving[K]) mark(k K, limited bool, total uint64, now time.Time) {
	if limited {
		delete(l, k)
	} else if _, known := l[k]; !known {
		l[k] = standing{now, total}
	}
}

// expire removes and returns what has not grown for keepIdle. Requests that began
// under older rules, and overrides, still count.
func (l leaving[K]) expire(total func(K) uint64, now time.Time) (expired []K) {
	for k, s := range l {
		if sum := total(k); sum != s.total {
			l[k] = standing{now, sum}
		} else if now.Sub(s.since) >= keepIdle {
			delete(l, k)
			expired = append(expired, k)
		}
	}
	return expired
}

// Keep tells which limits there are from now on. Series that none of them counts
// under are given up when they have been idle for ten minutes, those of values of
// requests with the rule that made them. One that is needed again begins with 0.
func (l *Limiter) Keep(limits iter.Seq[*Limit]) { l.metrics.series.keep(limits, time.Now()) }

func (t *seriesTable) keep(limits iter.Seq[*Limit], now time.Time) {
	series, own := t.inUse()
	if len(series) == 0 && len(own) == 0 {
		return
	}
	for l := range limits { // which may be many: nobody has to wait for them
		if _, counted := series[l.Series]; counted {
			series[l.Series] = true
		}
		if l.Own == nil {
			continue
		}
		key := ownKey{l.Series.domain(), *l.Own}
		if _, counted := own[key]; counted {
			own[key] = true
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range t.detailed {
		series[d.series] = series[d.series] || series[d.rule]
	}
	for s, c := range t.all {
		t.leaving.mark(s, series[s], c.total.Load(), now)
	}
	for k := range t.own {
		t.ownLeaving.mark(k, own[k], 0, now)
	}
}

// inUse returns what there are series of, each with false.
func (t *seriesTable) inUse() (series map[SeriesName]bool, own map[ownKey]bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	series, own = make(map[SeriesName]bool, len(t.all)), make(map[ownKey]bool, len(t.own))
	for s := range t.all {
		series[s] = false
	}
	for _, d := range t.detailed {
		series[d.rule] = false
	}
	for k := range t.own {
		own[k] = false
	}
	return series, own
}

// expire gives up what has been idle for long enough.
func (t *seriesTable) expire(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	series := t.leaving.expire(func(s SeriesName) uint64 { return t.all[s].total.Load() }, now)
	own := t.ownLeaving.expire(func(ownKey) uint64 { return 0 }, now)
	if len(series) == 0 && len(own) == 0 {
		return
	}
	for _, s := range series {
		delete(t.all, s)
	}
	maps.DeleteFunc(t.detailed, func(_ detail, d *detailSeries) bool { return t.all[d.series] == nil })
	for _, k := range own {
		delete(t.own, k)
		t.ownHits.DeletePartialMatch(prometheus.Labels{"domain": k.domain, "rule": k.Rule, "limit": k.Limit})
	}
	t.epoch.Add(1)
}
