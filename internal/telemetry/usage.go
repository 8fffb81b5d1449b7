package telemetry

import (
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"weir/internal/limiter"
)

// maxDetailed is the maximum number of series from values of requests (see limiter.Hit.Labels).
// Further values are counted under their limit.
const maxDetailed = 10_000

// Usage counts the units requested from limits, and is safe for concurrent use.
type Usage struct {
	nearRatio float32
	logger    *slog.Logger

	mu       sync.RWMutex                 // guards all, next, rest and detailed; to iterate, use each
	all      map[limiter.Series]*counters // counters of limits and of values of requests
	next     map[limiter.Series]*counters // if not nil, the map that soon replaces all; new series are added to both maps
	rest     map[limiter.Series]*counters // sums of removed series, see remove; replaced when all is replaced
	detailed map[detail]*detailSeries     // series of values of requests; their counters are also in all

	changed atomic.Pointer[iter.Seq[*limiter.Limit]] // limits of the last Keep, or nil if expire has marked their series

	storeErrors  prometheus.Counter
	unknown      prometheus.Counter // settlements of unknown reservations
	overflow     prometheus.Counter // hits whose series did not fit in detailed
	overflowOnce sync.Once
}

// detail is the key of a series from values of a request: the domain and limiter.Hit.Labels.
type detail struct{ domain, labels string }

// detailSeries are the counters of a detail.
type detailSeries struct {
	*counters
	series limiter.Series // key in Usage.all
	rule   limiter.Series // rule of the limit for which it was added
}

// New returns a Usage, and registers its metrics. Units above the fraction nearRatio of a limit
// count as near the limit.
func New(reg prometheus.Registerer, logger *slog.Logger, nearRatio float32) *Usage {
	register := promauto.With(reg)
	u := &Usage{
		nearRatio: nearRatio,
		logger:    logger,
		all:       make(map[limiter.Series]*counters),
		detailed:  make(map[detail]*detailSeries),
		storeErrors: register.NewCounter(prometheus.CounterOpts{
			Name: "weir_store_errors_total", Help: "Requests that neither the store nor a failure mode decided.",
		}),
		unknown: register.NewCounter(prometheus.CounterOpts{
			Name: "weir_unknown_reservations_total",
			Help: "Settlements that changed nothing, because the window of the reservation ended, it was settled before, or the token is invalid.",
		}),
		overflow: register.NewCounter(prometheus.CounterOpts{
			Name: "weir_detailed_series_overflow_total",
			Help: "Hits that got no series from detailed_metric or value_to_metric because there are 10,000 already.",
		}),
	}
	register.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weir_detailed_series", Help: "Series created from request values by detailed_metric and value_to_metric.",
	}, func() float64 {
		u.mu.RLock()
		defer u.mu.RUnlock()
		return float64(len(u.detailed))
	})
	reg.MustRegister(u)
	return u
}

// CountFailure counts a request that neither the store nor a failure mode decided.
func (u *Usage) CountFailure() { u.storeErrors.Inc() }

// Sums yields the sums of all limits with hits, in the order of their labels. It adds up the sums of
// limits whose labels differ only in Rule and Limit, which are empty in the result.
func (u *Usage) Sums() iter.Seq2[limiter.LabelSet, Sums] {
	return merged(u.rows(false), limiter.Series.Levels)
}

// of returns the counters of a series, and adds them if they are missing.
func (u *Usage) of(s limiter.Series) *counters {
	u.mu.RLock()
	c := u.all[s]
	u.mu.RUnlock()
	if c == nil {
		u.mu.Lock()
		defer u.mu.Unlock()
		c = u.ofLocked(s)
	}
	return c
}

// ofLocked is like of, for a caller that has locked u.mu.
func (u *Usage) ofLocked(s limiter.Series) *counters {
	if u.all[s] == nil {
		u.all[s] = new(counters)
		if u.next != nil {
			u.next[s] = u.all[s]
		}
	}
	return u.all[s]
}

// detailOf returns the counters for values of a request, or nil if the number of series is at its
// maximum. It allocates only for new values.
func (u *Usage) detailOf(limit limiter.Series, labels []byte) *counters {
	u.mu.RLock()
	d, full := u.detailed[detail{limit.Domain(), string(labels)}], len(u.detailed) >= maxDetailed
	u.mu.RUnlock()
	if d == nil && !full {
		d = u.addDetail(detail{limit.Domain(), string(labels)}, limit.Rule())
	}
	if d != nil {
		return d.counters
	}
	u.overflow.Inc()
	u.overflowOnce.Do(func() {
		u.logger.Warn("the maximum number of metric series from request values is reached, further values are counted under their rule",
			"domain", limit.Domain(), "max", maxDetailed)
	})
	return nil
}

// addDetail returns the series of d, which it adds if it is missing, or nil if there is no room.
func (u *Usage) addDetail(d detail, rule limiter.Series) *detailSeries {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.detailed[d] == nil && len(u.detailed) < maxDetailed {
		series := limiter.NewLabelSet(d.domain, d.labels).Series()
		u.detailed[d] = &detailSeries{u.ofLocked(series), series, rule}
		u.detailed[d].detail = true
	}
	return u.detailed[d]
}

// row is a series with its counters.
type row struct {
	series limiter.Series
	*counters
}

// rows returns all series and the sums of removed series, sorted. If byKeys is false, it omits removed
// sums that have only the labels of Series.Keys, because statsd needs more labels.
func (u *Usage) rows(byKeys bool) []row {
	u.mu.RLock()
	all, rest, rows := u.all, u.rest, make([]row, 0, len(u.all)+len(u.rest))
	u.mu.RUnlock()
	for series, c := range each(&u.mu, all) {
		rows = append(rows, row{series, c})
	}
	for series, c := range rest {
		if byKeys || series != series.Keys() {
			rows = append(rows, row{series, c})
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(string(a.series), string(b.series)) })
	return rows
}
