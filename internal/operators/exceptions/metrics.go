package exceptions

import (
	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/plan"
)

// metrics are those of a Keeper.
type metrics struct {
	inForce prometheus.Gauge
	used    *prometheus.CounterVec
	errors  prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	used := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_exceptions_used_total", Help: "Descriptors that an exception was applied to.",
	}, []string{"effect"})
	m := &metrics{
		used:    used,
		inForce: prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_exceptions", Help: "Exceptions in force."}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_exceptions_load_errors_total", Help: "Failed tries to learn of the exceptions that other servers added or removed.",
		}),
	}
	for _, effect := range plan.Effects {
		used.WithLabelValues(string(effect))
	}
	reg.MustRegister(m.inForce, used, m.errors)
	return m
}
