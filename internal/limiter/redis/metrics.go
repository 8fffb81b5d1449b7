package redis

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics measures the calls to Redis.
type metrics struct {
	calls    prometheus.Counter
	requests prometheus.Histogram
	seconds  prometheus.Histogram
	errors   map[kind]prometheus.Counter

	breakerOpen *prometheus.GaugeVec // by backend
}

// newMetrics registers the metrics with reg, unless that is nil.
func newMetrics(reg prometheus.Registerer) *metrics {
	create := promauto.With(reg)
	errors := create.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_redis_errors_total", Help: "Failed calls to Redis, requests rejected because too many are waiting, and requests that Redis answered too late, by kind.",
	}, []string{"kind"})
	m := &metrics{
		calls: create.NewCounter(prometheus.CounterOpts{
			Name: "weir_redis_calls_total", Help: "Calls to Redis, each for one batch of requests.",
		}),
		requests: create.NewHistogram(prometheus.HistogramOpts{
			Name: "weir_redis_batch_requests", Help: "Requests per call to Redis.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 11),
		}),
		seconds: create.NewHistogram(prometheus.HistogramOpts{
			Name: "weir_redis_call_seconds", Help: "Duration of a call to Redis.",
			Buckets: prometheus.ExponentialBuckets(100e-6, 2, 14),
		}),
		breakerOpen: create.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weir_redis_breaker_open", Help: "1 while Weir does not ask Redis because it does not answer, else 0. Absent for a cluster.",
		}, []string{"redis"}),
		errors: make(map[kind]prometheus.Counter, len(kinds)),
	}
	for _, k := range kinds {
		m.errors[k] = errors.WithLabelValues(string(k))
	}
	return m
}
