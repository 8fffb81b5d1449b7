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
	"weir/internal/plan"
)

// metrics has the metrics of a Service, most under the names that dashboards for
// envoyproxy/ratelimit expect.
type metrics struct {
	grpc, json endpoint

	storeErrors, serviceErrors, overloads prometheus.Counter // requests without a decision
	admitted, denied, globalShadow        prometheus.Counter // decided requests

	unmatched      *prometheus.CounterVec // descriptors by domain, for domains with rules
	unknownDomains prometheus.Counter     // requests for domains without rules
	logger         *slog.Logger
	warn           rate.Sometimes
	warnOfQuotas   rate.Sometimes
}

// endpoint has the metrics of requests by gRPC or by HTTP.
type endpoint struct {
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
		grpc:           endpoint{requests.WithLabelValues(methodName), seconds.WithLabelValues(methodName)},
		json:           endpoint{requests.WithLabelValues("/json"), seconds.WithLabelValues("/json")},
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
		warnOfQuotas:   rate.Sometimes{Interval: logEvery},
	}
}

// Totals are numbers of requests since the start. Denied requests also count as decided.
type Totals struct{ Decided, Denied, Undecided uint64 }

// Totals returns the numbers of requests. Undecided requests were answered with an error.
func (s *Service) Totals() (t Totals) {
	total := func(c prometheus.Counter) uint64 {
		var m dto.Metric
		_ = c.Write(&m) // never fails for a counter
		return uint64(m.GetCounter().GetValue())
	}
	t.Denied = total(s.metrics.denied)
	t.Decided = total(s.metrics.admitted) + t.Denied
	t.Undecided = total(s.metrics.storeErrors) + total(s.metrics.serviceErrors) + total(s.metrics.overloads)
	return t
}

// observe counts a request and measures its time since start.
func (e endpoint) observe(start time.Time) {
	e.requests.Inc()
	e.seconds.Observe(time.Since(start).Seconds())
}

const (
	logEvery  = time.Minute // minimum interval between two warnings of the same kind
	maxDomain = 128         // maximum length of a request's domain in the log, in bytes
	maxOthers = 20          // maximum number of domains with rules in the log
)

// noteUnmatched counts the n descriptors of a request that match no rule. If the domain has no
// rules, it counts and logs the request instead. Both may be intended, or may be due to a
// misspelled domain or key. noteUnmatched allocates only if it logs.
func (m *metrics) noteUnmatched(tree *descriptors.Tree, request *plan.Request, n int) {
	domain := request.Domain
	if label := tree.DomainLabel(domain); label != "" {
		m.unmatched.WithLabelValues(label).Add(float64(n))
		for i := range request.Descriptors {
			if rule, _ := tree.MatchBucket(domain, request.Descriptors[i].Entries); rule != nil {
				m.warnOfQuotas.Do(func() {
					m.logger.Warn("admitted a request for a rule with quota_service, which limits only Envoys with the filter rate_limit_quota", "rule", rule.String(), "location", rule.Location())
				})
			}
		}
		return
	}
	m.unknownDomains.Inc()
	m.warn.Do(func() {
		domain := strings.Clone(domain[:min(len(domain), maxDomain)]) // a copy, because the bytes belong to the call
		others := tree.DomainNames()
		m.logger.Warn("admitted a request for a domain without rules",
			"domain", domain, "there_are", others[:min(len(others), maxOthers)])
	})
}
