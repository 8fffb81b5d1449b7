package telemetry

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
)

// table holds the counters of every series that was hit. It is a collector of
// Prometheus.
type table struct {
	maxDetailed int // of detailed
	logger      *slog.Logger
	index       atomic.Pointer[index]

	mu       sync.RWMutex
	all      map[limiter.Series]*counters // of limits; of Levels what counts for none of them
	detailed map[detail]*detailSeries     // of values of requests; they are in all, too
	leaving  map[limiter.Series]standing  // of all

	overflow     prometheus.Counter // hits that found detailed full
	overflowOnce sync.Once
}

// index finds the counters of the limits of the rules by their IDs, which are
// consecutive but for what else made limits at the same time. They are nil until
// the limit is hit.
type index struct {
	first    uint64
	counters []atomic.Pointer[counters]
}

// setIndex makes an index for IDs from first on, in which no limit was hit.
func (t *table) setIndex(first, ids uint64) {
	t.index.Store(&index{first, make([]atomic.Pointer[counters], ids)})
}

// detail is what makes a series of a request's values: domain and limiter.Hit.Labels.
type detail struct{ domain, labels string }

// detailSeries are the counters of a detail.
type detailSeries struct {
	*counters
	series limiter.Series // of the detail
	rule   limiter.Series // of the limit that made it
}

func newTable(opts Options) *table {
	t := &table{
		maxDetailed: cmp.Or(opts.MaxDetailedSeries, 10_000),
		logger:      opts.Logger,
		all:         make(map[limiter.Series]*counters),
		detailed:    make(map[detail]*detailSeries),
		leaving:     make(map[limiter.Series]standing),
		overflow: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_detailed_series_overflow_total",
			Help: "Hits that got no series from detailed_metric or value_to_metric because there are 10,000 already.",
		}),
	}
	t.setIndex(0, 0)
	opts.Registerer.MustRegister(t, t.overflow, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weir_detailed_series", Help: "Series created from request values by detailed_metric and value_to_metric.",
	}, func() float64 {
		t.mu.RLock()
		defer t.mu.RUnlock()
		return float64(len(t.detailed))
	}))
	return t
}

// of returns the counters of a limit.
func (t *table) of(l *limiter.Limit) *counters {
	known := t.index.Load()
	i := l.ID() - known.first
	if i >= uint64(len(known.counters)) { // an override, or of older rules
		return t.ofSeries(l.Series)
	}
	c := known.counters[i].Load()
	if c == nil {
		c = t.ofSeries(l.Series) // if it is given up from here on, so is known
		known.counters[i].Store(c)
	}
	return c
}

func (t *table) ofSeries(s limiter.Series) *counters {
	t.mu.RLock()
	c := t.all[s]
	t.mu.RUnlock()
	if c == nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		c = t.ofSeriesLocked(s)
	}
	return c
}

// ofSeriesLocked is ofSeries for a caller that holds t.mu.
func (t *table) ofSeriesLocked(s limiter.Series) *counters {
	if t.all[s] == nil {
		t.all[s] = new(counters)
	}
	return t.all[s]
}

// detailOf returns the counters for values of a request to a limit, or nil if that
// would be one series too many. It allocates for values that it has not seen only.
func (t *table) detailOf(limit limiter.Series, labels []byte) *counters {
	t.mu.RLock()
	d, full := t.detailed[detail{limit.Domain(), string(labels)}], len(t.detailed) >= t.maxDetailed
	t.mu.RUnlock()
	if d != nil {
		return d.counters
	}
	if !full {
		if c := t.addDetail(detail{limit.Domain(), string(labels)}, limit.Rule()); c != nil {
			return c
		}
	}
	t.overflow.Inc()
	t.overflowOnce.Do(func() {
		t.logger.Warn("the maximum number of metric series from request values is reached, further values are counted under their rule",
			"domain", limit.Domain(), "max", t.maxDetailed)
	})
	return nil
}

func (t *table) addDetail(d detail, rule limiter.Series) *counters {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.detailed[d]; known != nil {
		return known.counters
	}
	if len(t.detailed) >= t.maxDetailed {
		return nil
	}
	series := limiter.NewLabelSet(d.domain, d.labels).Series()
	t.detailed[d] = &detailSeries{t.ofSeriesLocked(series), series, rule}
	return t.all[series]
}

// row is a series with its counters.
type row struct {
	series limiter.Series
	*counters
}

// rows returns all series in order. Nobody has to wait for what is done with
// them. The reader gives up those of rules that are gone, so that a request
// need not.
func (t *table) rows(now time.Time) []row {
	t.expire(now)
	t.mu.RLock()
	rows := make([]row, 0, len(t.all))
	for series, c := range t.all {
		rows = append(rows, row{series, c})
	}
	t.mu.RUnlock()
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(string(a.series), string(b.series)) })
	return rows
}
