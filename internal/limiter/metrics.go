package limiter

import "github.com/prometheus/client_golang/prometheus"

// nearRatio is the part of a limit from which usage counts as near it.
const nearRatio = 0.8

// metrics counts decisions, in units of cost, by the limit's Series.
type metrics struct {
	total, over, near, within, shadow *prometheus.CounterVec
	own                               *prometheus.CounterVec // by OwnSeries
	storeErrors                       prometheus.Counter
}

// seriesCounters are the counters of one Series, looked up once per limit.
type seriesCounters struct {
	of                                *metrics
	total, over, near, within, shadow prometheus.Counter
	own                               *ownCounters // nil: none
}

// ownCounters are the counters of one OwnSeries.
type ownCounters struct{ admitted, over, withheld prometheus.Counter }

func newMetrics(reg prometheus.Registerer) *metrics {
	vec := func(name, help string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "ratelimit_service", Subsystem: "rate_limit", Name: name, Help: help,
		}, []string{"domain", "key1", "key2"})
		reg.MustRegister(v)
		return v
	}
	m := &metrics{
		total:  vec("total_hits", "Units asked for."),
		over:   vec("over_limit", "Units that did not fit the limit."),
		near:   vec("near_limit", "Units admitted above 80 % of the limit."),
		within: vec("within_limit", "Units admitted."),
		shadow: vec("shadow_mode", "Units over a limit in shadow mode."),
		own: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_limit_hits_total",
			Help: "Units asked of one of several limits of a rule: admitted; over, they did not fit it; withheld, they did but another limit denied the request.",
		}, []string{"domain", "rule", "limit", "outcome"}),
		storeErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_store_errors_total", Help: "Requests that the store could not decide.",
		}),
	}
	reg.MustRegister(m.own, m.storeErrors)
	return m
}

// bind returns the counters of limit.
func (m *metrics) bind(limit *Limit) *seriesCounters {
	if c := limit.counters.Load(); c != nil && c.of == m {
		return c
	}
	s := limit.Series
	labels := []string{s.Domain, s.Key1, s.Key2}
	c := &seriesCounters{
		of:     m,
		total:  m.total.WithLabelValues(labels...),
		over:   m.over.WithLabelValues(labels...),
		near:   m.near.WithLabelValues(labels...),
		within: m.within.WithLabelValues(labels...),
		shadow: m.shadow.WithLabelValues(labels...),
	}
	if limit.Own != (OwnSeries{}) {
		own := func(outcome string) prometheus.Counter {
			return m.own.WithLabelValues(s.Domain, limit.Own.Rule, limit.Own.Limit, outcome)
		}
		c.own = &ownCounters{admitted: own("admitted"), over: own("over"), withheld: own("withheld")}
	}
	limit.counters.Store(c)
	return c
}

// observe counts one hit. Refunds and peeks ask for no units.
func (m *metrics) observe(h *Hit, d *Decision) {
	if h.Refund || h.Cost == 0 {
		return
	}
	c := m.bind(h.Limit)
	c.total.Add(float64(h.cost()))
	u := split(h, d)
	add(c.over, u.over)
	add(c.near, u.near)
	add(c.within, u.within)
	if c.own != nil {
		c.own.observe(h, d, u)
	}
	if h.Limit.Mode == Shadow {
		add(c.shadow, u.over)
	}
}

func add(c prometheus.Counter, units int64) {
	if units > 0 {
		c.Add(float64(units))
	}
}

// parts says how the units of a hit lie to its limit.
type parts struct{ over, near, within int64 }

// split tells which units of a hit are over the limit, near it, and within it.
// A hit that was charged although it did not fit is over only with the units
// above the limit. What another limit of the request denied is none of the three.
func split(h *Hit, d *Decision) parts {
	cost, size := h.cost(), int64(h.Limit.Size())
	near := int64(float64(size) * nearRatio)
	above := func(line int64) int64 { return min(max(d.Used-line, 0), cost) }
	switch {
	case !d.Charged && d.Over:
		return parts{over: cost}
	case !d.Charged:
		return parts{}
	case d.Over:
		return parts{over: above(size), near: above(near) - above(size)}
	default:
		return parts{near: above(near), within: cost}
	}
}

func (c *ownCounters) observe(h *Hit, d *Decision, u parts) {
	if !d.Charged && !d.Over {
		add(c.withheld, h.Units())
		return
	}
	add(c.over, u.over)
	add(c.admitted, h.Units()-u.over)
}
