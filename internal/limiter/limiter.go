package limiter

import (
	"context"
	"iter"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
)

// Limiter decides requests on a store and measures what it decided.
type Limiter struct {
	store   Store
	metrics *metrics
}

// Options says how a Limiter measures.
type Options struct {
	Registerer prometheus.Registerer // of the metrics
	// NearLimitRatio is the part of a limit from which usage is near it.
	NearLimitRatio float32
	// MaxDetailedSeries bounds how many series the values of requests can make
	// (see Hit.Labels). Beyond it they share the Series of their limit.
	MaxDetailedSeries int
	Logger            *slog.Logger // told once if there are so many
}

// New returns a Limiter on store whose metrics are registered with reg, with
// the options that are the defaults of the server.
func New(store Store, reg prometheus.Registerer) *Limiter {
	return NewWith(store, Options{
		Registerer:        reg,
		NearLimitRatio:    0.8,
		MaxDetailedSeries: 10_000,
		Logger:            slog.New(slog.DiscardHandler),
	})
}

// NewWith returns a Limiter on store.
func NewWith(store Store, opts Options) *Limiter {
	return &Limiter{store, newMetrics(opts)}
}

// Units yields the sums of every series that was hit, in no order.
func (l *Limiter) Units() iter.Seq2[Series, Units] { return l.metrics.series.each() }

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
