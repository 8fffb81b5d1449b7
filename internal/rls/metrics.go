package rls

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics bear the names that the dashboards of the reference know.
type metrics struct {
	requests      prometheus.Counter
	seconds       prometheus.Observer
	storeErrors   prometheus.Counter
	serviceErrors prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "ratelimit_service", Name: "total_requests", Help: "gRPC requests.",
	}, []string{"grpc_method"})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "ratelimit_service", Name: "response_time_seconds", Help: "Time from a decoded gRPC request to its answer.",
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .02, .05, .1, .25, 1},
	}, []string{"grpc_method"})
	errors := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "ratelimit_service", Name: "should_rate_limit_error",
		Help: "Requests without a decision: redis_error, the store of whatever kind failed; service_error, the request is bad or there are no rules.",
	}, []string{"err_type"})
	reg.MustRegister(requests, seconds, errors)
	return &metrics{
		requests:      requests.WithLabelValues(methodName),
		seconds:       seconds.WithLabelValues(methodName),
		storeErrors:   errors.WithLabelValues("redis_error"),
		serviceErrors: errors.WithLabelValues("service_error"),
	}
}

// observe counts one gRPC request that began at start.
func (m *metrics) observe(start time.Time) {
	m.requests.Inc()
	m.seconds.Observe(time.Since(start).Seconds())
}
