package rls

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics bear the names that the dashboards of the reference know.
type metrics struct {
	grpc, json    entrance
	storeErrors   prometheus.Counter
	serviceErrors prometheus.Counter
	globalShadow  prometheus.Counter
	overloads     prometheus.Counter
}

// entrance measures the requests that come one way.
type entrance struct {
	requests prometheus.Counter
	seconds  prometheus.Observer
}

// jsonMethod is what stands for a gRPC method where a request came to /json.
const jsonMethod = "/json"

func newMetrics(reg prometheus.Registerer) *metrics {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "ratelimit_service", Name: "total_requests", Help: "Requests by gRPC method, or /json.",
	}, []string{"grpc_method"})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "ratelimit_service", Name: "response_time_seconds", Help: "Time from a request to its answer, by gRPC method, or /json.",
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .02, .05, .1, .25, 1},
	}, []string{"grpc_method"})
	errors := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "ratelimit_service", Name: "should_rate_limit_error",
		Help: "Requests without a decision: redis_error, the store of whatever kind failed; service_error, the request is bad or there are no rules; overload, it was refused because of MAX_CONCURRENT_REQUESTS.",
	}, []string{"err_type"})
	globalShadow := prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "ratelimit_service", Name: "global_shadow_mode", Help: "Requests that were admitted because SHADOW_MODE is on.",
	})
	reg.MustRegister(requests, seconds, errors, globalShadow)
	return &metrics{
		grpc:          entrance{requests.WithLabelValues(methodName), seconds.WithLabelValues(methodName)},
		json:          entrance{requests.WithLabelValues(jsonMethod), seconds.WithLabelValues(jsonMethod)},
		storeErrors:   errors.WithLabelValues("redis_error"),
		serviceErrors: errors.WithLabelValues("service_error"),
		globalShadow:  globalShadow,
		overloads:     errors.WithLabelValues("overload"),
	}
}

// observe counts one request that began at start.
func (e entrance) observe(start time.Time) {
	e.requests.Inc()
	e.seconds.Observe(time.Since(start).Seconds())
}
