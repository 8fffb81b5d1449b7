package telemetry

import (
	"iter"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
)

// Usage counts what is asked of limits.
type Usage struct {
	series      *table
	nearRatio   float32
	storeErrors prometheus.Counter
}

// Options says how Usage counts.
type Options struct {
	Registerer prometheus.Registerer // of the metrics
	// NearLimitRatio is the part of a limit from which usage is near it.
	NearLimitRatio float32
	// MaxDetailedSeries bounds how many series the values of requests can make
	// (see limiter.Hit.Labels), 10,000 if it is 0. Beyond it they are counted under their
	// limit.
	MaxDetailedSeries int
	Logger            *slog.Logger // told once if there are so many
}

// New returns a Usage that has counted nothing.
func New(opts Options) *Usage {
	u := &Usage{
		series:    newTable(opts),
		nearRatio: opts.NearLimitRatio,
		storeErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_store_errors_total", Help: "Requests that neither the store nor a failure mode decided.",
		}),
	}
	opts.Registerer.MustRegister(u.storeErrors)
	return u
}

// Count counts the hits of a request that was decided.
func (u *Usage) Count(hits []limiter.Hit, decisions []limiter.Decision) {
	for i := range hits {
		u.count(&hits[i], &decisions[i])
	}
}

// CountFailure counts a request that the store could not decide.
func (u *Usage) CountFailure() { u.storeErrors.Inc() }

// Keep sets which limits there are from now on. Series that none of them counts
// under are given up when they have been idle for ten minutes, those of values of
// requests with the rule that made them. One that is needed again begins with 0.
func (u *Usage) Keep(limits iter.Seq[*limiter.Limit]) { u.series.keep(limits, time.Now()) }

// Sums yields the sums of the limits that agree in all labels but Rule and Limit,
// which are empty. The labels are in order. Limits that were not hit have none.
func (u *Usage) Sums() iter.Seq2[limiter.LabelSet, Sums] {
	return merged(u.series.rows(time.Now()), func(labels *limiter.LabelSet) { labels.Rule, labels.Limit = "", "" })
}
