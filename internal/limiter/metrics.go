package limiter

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts decisions in units of cost.
type metrics struct {
	series      *seriesTable
	nearRatio   float32
	storeErrors prometheus.Counter
}

// meters are the counters of one limit, looked up once.
type meters struct {
	of     *metrics
	epoch  uint64          // of.series.epoch
	series *seriesCounters // of Limit.Series; nil if the hit that bound it has Labels
	own    *ownCounters    // nil: none
}

// ownCounters are the counters of one OwnSeries.
type ownCounters struct{ admitted, over, withheld prometheus.Counter }

// ownKey is an OwnSeries in its domain.
type ownKey struct {
	domain string
	OwnSeries
}

func newMetrics(opts Options) *metrics {
	m := &metrics{
		series:    newSeriesTable(opts),
		nearRatio: opts.NearLimitRatio,
		storeErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_store_errors_total", Help: "Requests that the store could not decide.",
		}),
	}
	opts.Registerer.MustRegister(m.storeErrors)
	return m
}

// bind returns the counters of the limit of h.
func (m *metrics) bind(h *Hit) *meters {
	limit, epoch := h.Limit, m.series.epoch.Load()
	if b := limit.meters.Load(); b != nil && b.of == m && b.epoch == epoch {
		return b
	}
	b := &meters{of: m, epoch: epoch}
	if h.Labels == nil {
		b.series = m.series.of(limit.Series)
	}
	if limit.Own != nil {
		b.own = m.series.ownOf(ownKey{limit.Series.domain(), *limit.Own})
	}
	limit.meters.Store(b)
	return b
}

// observe counts one hit. Refunds and peeks ask for no units.
func (m *metrics) observe(h *Hit, d *Decision) {
	if h.Refund || h.Cost == 0 {
		return
	}
	b := m.bind(h)
	series := m.seriesOf(h, b)
	// In 32 bits, like envoyproxy/ratelimit: 0.29 of 100 is 29, and not 28.
	p := split(h, d, int64(float32(h.Limit.Size())*m.nearRatio))
	add(&series.total, h.cost())
	add(&series.over, p.over)
	add(&series.near, p.near)
	add(&series.within, p.within)
	if d.Over && d.Remembered {
		add(&series.remembered, p.over)
	}
	if h.Limit.Mode == Shadow {
		add(&series.shadow, p.over)
	}
	if b.own != nil {
		b.own.observe(h, d, p)
	}
}

// seriesOf returns the counters that h is counted in, b being those of its limit.
func (m *metrics) seriesOf(h *Hit, b *meters) *seriesCounters {
	if h.Labels != nil {
		if c := m.series.detailOf(h.Limit.Series, h.Labels); c != nil {
			return c
		}
	}
	if b.series != nil {
		return b.series
	}
	return m.series.of(h.Limit.Series)
}

// add does not write to what other processors read, if there is nothing to add.
func add(sum *atomic.Uint64, units int64) {
	if units > 0 {
		sum.Add(uint64(units))
	}
}

// parts says how the units of a hit lie to its limit.
type parts struct{ over, near, within int64 }

// split tells which units of a hit are over the limit, near it, and within it.
//
// A hit that does not fit and was not charged is over as a whole: the counter has
// not moved, so that its part up to the limit would be counted again with every
// further one. Of one that was charged, the units up to the limit are not over, as
// in envoyproxy/ratelimit, and those of them above nearFrom, in units of the limit, are near. What another
// limit of the request denied is none of the three.
func split(h *Hit, d *Decision, nearFrom int64) parts {
	cost, size := h.cost(), int64(h.Limit.Size())
	above := func(line int64) int64 { return min(max(d.Used-line, 0), cost) }
	switch {
	case d.Over && (!d.Charged || d.Used <= size): // in the latter case other hits of the request had taken it
		return parts{over: cost}
	case d.Over:
		return parts{over: above(size), near: above(nearFrom) - above(size)}
	case !d.Charged:
		return parts{}
	default:
		return parts{near: above(nearFrom), within: cost}
	}
}

// ownOf returns the counters of a limit that has some of its own.
func (t *seriesTable) ownOf(k ownKey) *ownCounters {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.own[k]
	if c == nil {
		outcome := func(name string) prometheus.Counter {
			return t.ownHits.WithLabelValues(k.domain, k.Rule, k.Limit, name)
		}
		c = &ownCounters{admitted: outcome("admitted"), over: outcome("over"), withheld: outcome("withheld")}
		t.own[k] = c
	}
	return c
}

// observe counts a hit, as a whole unless it was charged beyond its limit.
func (c *ownCounters) observe(h *Hit, d *Decision, p parts) {
	switch {
	case d.Charged:
		over := min(p.over, h.CountedCost())
		c.admitted.Add(float64(h.CountedCost() - over))
		c.over.Add(float64(over))
	case d.Over:
		c.over.Add(float64(h.CountedCost()))
	default:
		c.withheld.Add(float64(h.CountedCost()))
	}
}
