package limiter

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts decisions in units of cost.
type metrics struct {
	series      *seriesTable
	nearRatio   float32
	own         *prometheus.CounterVec // by OwnSeries
	storeErrors prometheus.Counter
}

// meters are the counters of one limit, looked up once.
type meters struct {
	of       *metrics
	nearFrom int64           // units of the limit above which usage is near it
	series   *seriesCounters // of Limit.Series; nil if the hit that bound it has Labels
	own      *ownCounters    // nil: none
}

// ownCounters are the counters of one OwnSeries.
type ownCounters struct{ admitted, over, withheld prometheus.Counter }

func newMetrics(opts Options) *metrics {
	m := &metrics{
		series:    newSeriesTable(opts),
		nearRatio: opts.NearLimitRatio,
		own: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_limit_hits_total",
			Help: "Units asked of one of several limits of a rule: admitted; over, they did not fit it; withheld, they did but another limit denied the request.",
		}, []string{"domain", "rule", "limit", "outcome"}),
		storeErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_store_errors_total", Help: "Requests that the store could not decide.",
		}),
	}
	opts.Registerer.MustRegister(m.own, m.storeErrors)
	return m
}

// bind returns the counters of the limit of h.
func (m *metrics) bind(h *Hit) *meters {
	limit := h.Limit
	if b := limit.meters.Load(); b != nil && b.of == m {
		return b
	}
	b := &meters{
		of: m,
		// In 32 bits, like envoyproxy/ratelimit: 0.29 of 100 is 29, and not 28.
		nearFrom: int64(float32(limit.Size()) * m.nearRatio),
	}
	if h.Labels == nil {
		b.series = m.series.of(limit.Series)
	}
	if limit.Own != (OwnSeries{}) {
		own := func(outcome string) prometheus.Counter {
			return m.own.WithLabelValues(limit.Series.Domain, limit.Own.Rule, limit.Own.Limit, outcome)
		}
		b.own = &ownCounters{admitted: own("admitted"), over: own("over"), withheld: own("withheld")}
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
	p := split(h, d, b.nearFrom)
	add(&series.total, h.cost())
	add(&series.over, p.over)
	add(&series.near, p.near)
	add(&series.within, p.within)
	if d.Over && d.Remembered {
		add(&series.remembered, p.over)
	}
	if d.Over && h.Limit.Mode == Shadow {
		add(&series.shadow, h.cost())
	}
	if b.own != nil {
		b.own.observe(h, d, p)
	}
}

// seriesOf returns the counters that h is counted in, b being those of its limit.
func (m *metrics) seriesOf(h *Hit, b *meters) *seriesCounters {
	if h.Labels != nil {
		if c := m.series.detailOf(h.Limit.Series.Domain, h.Labels); c != nil {
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
// Of a hit that does not fit, the units that would have fitted are not over, as
// in envoyproxy/ratelimit, and those of them above nearFrom are near, whether
// or not the hit was charged. What another limit of the request denied is none
// of the three.
func split(h *Hit, d *Decision, nearFrom int64) parts {
	cost, size, used := h.cost(), int64(h.Limit.Size()), d.Used
	if !d.Charged {
		used += cost
	}
	above := func(line int64) int64 { return min(max(used-line, 0), cost) }
	switch {
	case d.Over && used <= size: // other hits of the same request had taken it
		return parts{over: cost}
	case d.Over:
		return parts{over: above(size), near: above(nearFrom) - above(size)}
	case !d.Charged:
		return parts{}
	default:
		return parts{near: above(nearFrom), within: cost}
	}
}

// observe counts a hit, as a whole unless it was charged beyond its limit.
func (c *ownCounters) observe(h *Hit, d *Decision, p parts) {
	switch {
	case d.Charged:
		over := min(p.over, h.Units())
		c.admitted.Add(float64(h.Units() - over))
		c.over.Add(float64(over))
	case d.Over:
		c.over.Add(float64(h.Units()))
	default:
		c.withheld.Add(float64(h.Units()))
	}
}
