package rls

import (
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"golang.org/x/time/rate"

	"weir/internal/descriptors"
	"weir/internal/plan"
)

// metrics bear the names that the dashboards of the reference know.
type metrics struct {
	grpc, json    entrance
	storeErrors   prometheus.Counter
	serviceErrors prometheus.Counter
	globalShadow  prometheus.Counter
	overloads     prometheus.Counter

	admitted, denied prometheus.Counter // requests that were decided
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
		Namespace: "ratelimit_service", Name: "response_time_seconds", Help: "Response time by gRPC method, or /json.",
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .02, .05, .1, .25, 1},
	}, []string{"grpc_method"})
	errors := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "ratelimit_service", Name: "should_rate_limit_error",
		Help: "Requests without a decision: redis_error, the store (of any kind) failed; service_error, the request is invalid or there are no rules; overload, MAX_CONCURRENT_REQUESTS was exceeded.",
	}, []string{"err_type"})
	globalShadow := prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "ratelimit_service", Name: "global_shadow_mode", Help: "Requests admitted only because SHADOW_MODE is on.",
	})
	decided := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "weir", Name: "decided_requests_total", Help: "Decided requests by outcome: admitted or denied.",
	}, []string{"outcome"})
	reg.MustRegister(requests, seconds, errors, globalShadow, decided)
	return &metrics{
		grpc:          entrance{requests.WithLabelValues(methodName), seconds.WithLabelValues(methodName)},
		json:          entrance{requests.WithLabelValues(jsonMethod), seconds.WithLabelValues(jsonMethod)},
		storeErrors:   errors.WithLabelValues("redis_error"),
		serviceErrors: errors.WithLabelValues("service_error"),
		globalShadow:  globalShadow,
		overloads:     errors.WithLabelValues("overload"),
		admitted:      decided.WithLabelValues("admitted"),
		denied:        decided.WithLabelValues("denied"),
	}
}

// decided counts a request that was decided.
func (m *metrics) decided(r *plan.Result) {
	if r.Denied {
		m.denied.Inc()
	} else {
		m.admitted.Inc()
	}
	if r.WouldBeDenied() {
		m.globalShadow.Inc()
	}
}

// Totals returns how many requests were decided so far, and how many of them denied.
func (s *Service) Totals() (decided, denied uint64) {
	denied = total(s.metrics.denied)
	return total(s.metrics.admitted) + denied, denied
}

func total(c prometheus.Counter) uint64 {
	var m dto.Metric
	_ = c.Write(&m) // which a counter always can
	return uint64(m.GetCounter().GetValue())
}

// observe counts one request that began at start.
func (e entrance) observe(start time.Time) {
	e.requests.Inc()
	e.seconds.Observe(time.Since(start).Seconds())
}

// unmatched counts and logs what is admitted only because no rule is for it, be it
// meant so or a domain or key that is spelled in two ways.
type unmatched struct {
	descriptors *prometheus.CounterVec // by domain, of those that there are rules for
	requests    prometheus.Counter     // for other domains
	logger      *slog.Logger
	tell        rate.Sometimes
}

func newUnmatched(reg prometheus.Registerer, logger *slog.Logger) *unmatched {
	u := &unmatched{
		descriptors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "weir", Name: "unmatched_descriptors_total", Help: "Descriptors that match no rule of their domain. They are admitted and not counted.",
		}, []string{"domain"}),
		requests: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "weir", Name: "unknown_domain_requests_total", Help: "Requests for domains without rules. They are admitted and not counted.",
		}),
		logger: logger,
		tell:   rate.Sometimes{Interval: tellEvery},
	}
	reg.MustRegister(u.descriptors, u.requests)
	return u
}

// note counts the n descriptors of a request, at least one, that match no rule.
// It does not allocate unless it logs.
func (u *unmatched) note(tree *descriptors.Tree, domain string, n int) {
	if label := tree.DomainLabel(domain); label != "" {
		u.descriptors.WithLabelValues(label).Add(float64(n))
		return
	}
	u.requests.Inc()
	u.tell.Do(func() {
		domain := strings.Clone(domain[:min(len(domain), maxToldDomain)]) // its bytes are the call's
		others := tree.DomainNames()
		u.logger.Warn("admitted a request for a domain without rules",
			"domain", domain, "there_are", others[:min(len(others), maxToldOthers)])
	})
}

const (
	tellEvery     = time.Minute // at most
	maxToldDomain = 128         // bytes of a request's domain in the log
	maxToldOthers = 20          // domains of the rules in the log
)
