package limiter

import (
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// seriesTable holds the counters of every series. It is a collector of
// Prometheus, which sees the sums of the series that differ only in More.
type seriesTable struct {
	maxDetailed int // of detailed
	logger      *slog.Logger

	mu       sync.RWMutex
	all      map[SeriesName]*seriesCounters
	detailed map[detail]*detailSeries // those with values of requests; they are in all, too
	own      map[ownKey]*ownCounters

	leaving    leaving[SeriesName] // of all
	ownLeaving leaving[ownKey]     // of own
	epoch      atomic.Uint64       // changes when counters were given up

	ownHits *prometheus.CounterVec // what is counted in own

	overflow     prometheus.Counter // hits that found detailed full
	overflowOnce sync.Once
}

// detail is what makes a series of a request's values: domain and Hit.Labels.
type detail struct{ domain, labels string }

// detailSeries are the counters of a detail.
type detailSeries struct {
	*seriesCounters
	series SeriesName // of the detail
	rule   SeriesName // of the limit that made it
}

func newSeriesTable(opts Options) *seriesTable {
	t := &seriesTable{
		maxDetailed: opts.MaxDetailedSeries,
		logger:      opts.Logger,
		all:         make(map[SeriesName]*seriesCounters),
		detailed:    make(map[detail]*detailSeries),
		own:         make(map[ownKey]*ownCounters),
		leaving:     make(leaving[SeriesName]),
		ownLeaving:  make(leaving[ownKey]),
		ownHits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_limit_hits_total",
			Help: "Units asked of one of several limits of a rule: admitted; over, they did not fit it; withheld, they did but another limit denied the request.",
		}, []string{"domain", "rule", "limit", "outcome"}),
		overflow: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_detailed_series_overflow_total",
			Help: "Hits that detailed_metric or value_to_metric would have given a new series, but for MAX_DETAILED_SERIES.",
		}),
	}
	opts.Registerer.MustRegister(t, t.ownHits, t.overflow, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weir_detailed_series", Help: "Series that detailed_metric and value_to_metric made of the values of requests.",
	}, func() float64 {
		t.mu.RLock()
		defer t.mu.RUnlock()
		return float64(len(t.detailed))
	}))
	return t
}

// of returns the counters of a series.
func (t *seriesTable) of(s SeriesName) *seriesCounters {
	t.mu.RLock()
	c := t.all[s]
	t.mu.RUnlock()
	if c != nil {
		return c
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.locked(s)
}

// locked is of, for who has locked t.
func (t *seriesTable) locked(s SeriesName) *seriesCounters {
	c := t.all[s]
	if c == nil {
		c = new(seriesCounters)
		t.all[s] = c
	}
	return c
}

// detailOf returns the counters for values of a request to a rule, or nil if that
// would be one series too many. It allocates for values that it has not seen only.
func (t *seriesTable) detailOf(rule SeriesName, labels []byte) *seriesCounters {
	t.mu.RLock()
	d, full := t.detailed[detail{rule.domain(), string(labels)}], len(t.detailed) >= t.maxDetailed
	t.mu.RUnlock()
	if d != nil {
		return d.seriesCounters
	}
	var c *seriesCounters
	if !full {
		c = t.addDetail(detail{rule.domain(), string(labels)}, rule)
	}
	if c == nil {
		t.overflow.Inc()
		t.overflowOnce.Do(func() {
			t.logger.Warn("values of requests made as many series of metrics as is allowed, further ones are counted under their rule",
				"domain", rule.domain(), "setting", "MAX_DETAILED_SERIES", "max", t.maxDetailed)
		})
	}
	return c
}

func (t *seriesTable) addDetail(d detail, rule SeriesName) *seriesCounters {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.detailed[d]; known != nil {
		return known.seriesCounters
	}
	if len(t.detailed) >= t.maxDetailed {
		return nil
	}
	series := NewSeries(d.domain, d.labels).Name()
	c := t.locked(series)
	t.detailed[d] = &detailSeries{c, series, rule}
	return c
}

// each yields all series in no order, with their sums. Nobody has to wait for
// what is done with them. Whoever reads them gives up those of rules that are
// gone, so that a request need not.
func (t *seriesTable) each() iter.Seq2[Series, Units] {
	return func(yield func(Series, Units) bool) {
		t.expire(time.Now())
		t.mu.RLock()
		all := make([]namedCounters, 0, len(t.all))
		for name, c := range t.all {
			all = append(all, namedCounters{name, c})
		}
		t.mu.RUnlock()
		for _, c := range all {
			if !yield(c.name.Series(), c.units()) {
				return
			}
		}
	}
}

// namedCounters are the counters of a series with its name.
type namedCounters struct {
	name SeriesName
	*seriesCounters
}
