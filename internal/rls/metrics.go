package rls

import (
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	dto "github.com/prometheus/client_model/go"
	"golang.org/x/time/rate"

	"weir/internal/descriptors"
)

// metrics bear the names that the dashboards of the reference know.
type metrics struct {
	grpc, json entrance

	storeErrors, serviceErrors, overloads prometheus.Counter // requests without a decision
	admitted, denied, globalShadow        prometheus.Counter // requests that were decided

	unmatched      *prometheus.CounterVec // descriptors by domain, of those that there are rules for
	unknownDomains prometheus.Counter     // requests for others
	logger         *slog.Logger
	warn           rate.Sometimes
}

// entrance measures the requests that come one way.
type entrance struct {
	requests prometheus.Counter
	seconds  prometheus.Observer
}

func newMetrics(reg prometheus.Registerer, logger *slog.Logger) *metrics {
	counter := func(namespace, name, help string, labels ...string) *prometheus.CounterVec {
		return promauto.With(reg).NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	}
	requests := counter("ratelimit_service", "total_requests", "Requests by gRPC method, or /json.", "grpc_method")
	seconds := promauto.With(reg).NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "ratelimit_service", Name: "response_time_seconds", Help: "Response time by gRPC method, or /json.",
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .02, .05, .1, .25, 1},
	}, []string{"grpc_method"})
	errors := counter("ratelimit_service", "should_rate_limit_error",
		"Requests without a decision: redis_error, the store (of any kind) failed; service_error, the request is invalid or there are no rules; overload, MAX_CONCURRENT_REQUESTS was exceeded.",
		"err_type")
	decided := counter("weir", "decided_requests_total", "Decided requests by outcome: admitted or denied.", "outcome")
	return &metrics{
		grpc:           entrance{requests.WithLabelValues(methodName), seconds.WithLabelValues(methodName)},
		json:           entrance{requests.WithLabelValues("/json"), seconds.WithLabelValues("/json")},
		storeErrors:    errors.WithLabelValues("redis_error"),
		serviceErrors:  errors.WithLabelValues("service_error"),
		overloads:      errors.WithLabelValues("overload"),
		admitted:       decided.WithLabelValues("admitted"),
		denied:         decided.WithLabelValues("denied"),
		globalShadow:   counter("ratelimit_service", "global_shadow_mode", "Requests admitted only because SHADOW_MODE is on.").WithLabelValues(),
		unmatched:      counter("weir", "unmatched_descriptors_total", "Descriptors that match no rule of their domain. They are admitted and not counted.", "domain"),
		unknownDomains: counter("weir", "unknown_domain_requests_total", "Requests for domains without rules. They are admitted and not counted.").WithLabelValues(),
		logger:         logger,
		warn:           rate.Sometimes{Interval: logEvery},
	}
}

// Totals returns how many requests were decided so far, and how many of them denied.
func (s *Service) Totals() (decided, denied uint64) {
	total := func(c prometheus.Counter) uint64 {
		var m dto.Metric
		_ = c.Write(&m) // which a counter always can
		return uint64(m.GetCounter().GetValue())
	}
	denied = total(s.metrics.denied)
	return total(s.metrics.admitted) + denied, denied
}

// observe counts one request that began at start.
func (e entrance) observe(start time.Time) {
	e.requests.Inc()
	e.seconds.Observe(time.Since(start).Seconds())
}

const (
	logEvery  = time.Minute // one warning of an unknown domain in this time
	maxDomain = 128         // bytes of a request's domain in the log
	maxOthers = 20          // domains of the rules in the log
)

// noteUnmatched counts the n descriptors of a request, at least one, that match no rule,
// and logs an unknown domain. They are admitted, be it meant so or a domain or key that is
// spelled in two ways. It does not allocate unless it logs.
func (m *metrics) noteUnmatched(tree *descriptors.Tree, domain string, n int) {
	if label := tree.DomainLabel(domain); label != "" {
		m.unmatched.WithLabelValues(label).Add(float64(n))
		return
	}
	m.unknownDomains.Inc()
	m.warn.Do(func() {
		domain := strings.Clone(domain[:min(len(domain), maxDomain)]) // its bytes are the call's
		others := tree.DomainNames()
		m.logger.Warn("admitted a request for a domain without rules",
			"domain", domain, "there_are", others[:min(len(others), maxOthers)])
	})
}
