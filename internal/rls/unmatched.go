package rls

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/descriptors"
)

// unmatched tells of what is admitted only because no rule is for it, be it
// meant so or a domain or key that is spelled in two ways.
type unmatched struct {
	descriptors *prometheus.CounterVec // by domain, of those that there are rules for
	requests    prometheus.Counter     // for other domains
	logger      *slog.Logger
	told        atomic.Pointer[time.Time] // when the log was told last
}

func newUnmatched(reg prometheus.Registerer, logger *slog.Logger) *unmatched {
	u := &unmatched{
		descriptors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "weir", Name: "unmatched_descriptors_total", Help: "Descriptors that no rule of their domain matches, which are admitted and not counted.",
		}, []string{"domain"}),
		requests: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "weir", Name: "unknown_domain_requests_total", Help: "Requests for domains that there are no rules for, which are admitted and not counted.",
		}),
		logger: logger,
	}
	reg.MustRegister(u.descriptors, u.requests)
	return u
}

// note counts the n descriptors of a request, at least one, that match no rule.
// It does not allocate unless it tells the log.
func (u *unmatched) note(tree *descriptors.Tree, domain string, n int) {
	if label := tree.DomainLabel(domain); label != "" {
		u.descriptors.WithLabelValues(label).Add(float64(n))
		return
	}
	u.requests.Inc()
	u.tell(tree, domain)
}

const (
	tellEvery     = time.Minute // at most
	maxToldDomain = 128         // bytes of a request's domain in the log
	maxToldOthers = 20          // domains of the rules in the log
)

// tell tells the log of a request for a domain without rules, unless it was told
// of one a short while ago.
func (u *unmatched) tell(tree *descriptors.Tree, domain string) {
	last := u.told.Load()
	if last != nil && time.Since(*last) < tellEvery {
		return
	}
	now := time.Now()
	if !u.told.CompareAndSwap(last, &now) {
		return // another request was faster
	}
	domain = strings.Clone(domain[:min(len(domain), maxToldDomain)]) // its bytes are the call's
	others := tree.DomainNames()
	u.logger.Warn("a request names a domain without rules, it is admitted",
		"domain", domain, "there_are", others[:min(len(others), maxToldOthers)])
}
