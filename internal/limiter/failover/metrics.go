package failover

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"weir/internal/limiter"
)

// metrics counts what is decided without the store.
type metrics struct {
	decisions [limiter.FailureLocal + 1]prometheus.Counter // by mode
}

// newMetrics registers the metrics with reg, unless that is nil.
func newMetrics(reg prometheus.Registerer) *metrics {
	decisions := promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "weir_failure_mode_decisions_total",
		Help: "Hits that the store could not decide, by the failure mode that did; error left the request undecided.",
	}, []string{"mode"})
	m := new(metrics)
	for mode := limiter.FailureError; mode <= limiter.FailureLocal; mode++ {
		m.decisions[mode] = decisions.WithLabelValues(mode.String())
	}
	return m
}

// count counts so many hits of a mode.
func (m *metrics) count(mode limiter.FailureMode, hits int) {
	m.decisions[mode].Add(float64(hits))
}
