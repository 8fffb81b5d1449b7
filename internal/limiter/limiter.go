package limiter

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
)

// Limiter decides requests on a store and measures what it decided.
type Limiter struct {
	store   Store
	metrics *metrics
}

// New returns a Limiter on store whose metrics are registered with reg.
func New(store Store, reg prometheus.Registerer) *Limiter {
	return &Limiter{store, newMetrics(reg)}
}

// Decide decides the hits of one request as Store.Decide does; no hits are
// admitted without asking the store.
func (l *Limiter) Decide(ctx context.Context, hits []Hit, out []Decision) (denied bool, err error) {
	if len(hits) == 0 {
		return false, nil
	}
	denied, err = l.store.Decide(ctx, hits, out)
	if err != nil {
		l.metrics.storeErrors.Inc()
		return false, err
	}
	for i := range hits {
		l.metrics.observe(&hits[i], &out[i])
	}
	return denied, nil
}
