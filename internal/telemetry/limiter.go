// Package telemetry asks a store for decisions and counts what it decided, for
// Prometheus and statsd.
package telemetry

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
)

// Limiter decides requests on a store and counts what it decided.
type Limiter struct {
	store       limiter.Store
	series      *table
	nearRatio   float32
	storeErrors prometheus.Counter
}

// Options says how a Limiter counts.
type Options struct {
	Registerer prometheus.Registerer // of the metrics
	// NearLimitRatio is the part of a limit from which usage is near it.
	NearLimitRatio float32
	// MaxDetailedSeries bounds how many series the values of requests can make
	// (see limiter.Hit.Labels). Beyond it they are counted under their limit.
	MaxDetailedSeries int
	Logger            *slog.Logger // told once if there are so many
}

// New returns a Limiter on store.
func New(store limiter.Store, opts Options) *Limiter {
	l := &Limiter{
		store:     store,
		series:    newTable(opts),
		nearRatio: opts.NearLimitRatio,
		storeErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_store_errors_total", Help: "Requests that the store could not decide.",
		}),
	}
	opts.Registerer.MustRegister(l.storeErrors)
	return l
}

// Decide decides the hits of one request as limiter.Store does; no hits are
// admitted without asking the store.
func (l *Limiter) Decide(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (denied bool, err error) {
	if len(hits) == 0 {
		return false, nil
	}
	denied, err = l.store.Decide(ctx, hits, out)
	if err != nil {
		l.storeErrors.Inc()
		return false, err
	}
	for i := range hits {
		l.count(&hits[i], &out[i])
	}
	return denied, nil
}

// Keep sets which limits there are from now on. Series that none of them counts
// under are given up when they have been idle for ten minutes, those of values of
// requests with the rule that made them. One that is needed again begins with 0.
func (l *Limiter) Keep(limits iter.Seq[*limiter.Limit]) { l.series.keep(limits, time.Now()) }

// Sums yields the sums of the limits that agree in all labels but Rule and Limit,
// which are empty. The labels are in order. Limits that were not hit have none.
func (l *Limiter) Sums() iter.Seq2[limiter.LabelSet, Sums] {
	return merged(l.series.rows(time.Now()), func(labels *limiter.LabelSet) { labels.Rule, labels.Limit = "", "" })
}
