package queue

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"weir/internal/limiter/redis/conn"
)

// kindQueueFull is the kind of error of requests that were rejected without asking Redis.
const kindQueueFull conn.Kind = "queue_full"

// Metrics measures the calls to Redis.
type Metrics struct {
	calls    prometheus.Counter
	requests prometheus.Histogram
	seconds  prometheus.Histogram
	errors   map[conn.Kind]prometheus.Counter
}

// NewMetrics registers the metrics with reg, unless reg is nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	create := promauto.With(reg)
	errors := create.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_redis_errors_total", Help: "Failed calls to Redis, requests rejected because too many are waiting, and requests that Redis answered too late, by kind.",
	}, []string{"kind"})
	m := &Metrics{
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
		errors: make(map[conn.Kind]prometheus.Counter, len(conn.Kinds)+1),
	}
	for _, k := range append(conn.Kinds, kindQueueFull) {
		m.errors[k] = errors.WithLabelValues(string(k))
	}
	return m
}
