package memory

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics reports whether the memory for counters suffices.
type metrics struct {
	evictions prometheus.Counter
}

// newMetrics registers the metrics of a store with reg, unless it is nil.
func newMetrics(reg prometheus.Registerer, counters func() int) *metrics {
	factory := promauto.With(reg)
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weir_memory_counters",
		Help: "Counters kept in memory, expired ones included that are not cleared away yet.",
	}, func() float64 { return float64(counters()) })
	return &metrics{
		evictions: factory.NewCounter(prometheus.CounterOpts{
			Name: "weir_memory_evictions_total",
			Help: "Counters dropped before they expired because memory was full; their limits started anew.",
		}),
	}
}
