package limiter

import (
	"iter"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Series holds the labels under which a limit's hits are counted. Prometheus
// knows the first two levels of a rule, statsd all of them.
//
// Labels come from the configuration, so that traffic cannot add series, but
// for rules that ask for the values of requests: see Hit.Labels.
type Series struct {
	Domain string
	Key1   string // first level of the rule: key, or key_value
	Key2   string // second level, empty if there is none
	More   string // further levels, joined by '.'
}

// OwnSeries holds, beside Series.Domain, the label values of metrics that a
// limit shares with no other. Limits have them that are not alone in their rule.
type OwnSeries struct {
	Rule  string // keys and values that lead to the rule
	Limit string // tells the limits of a rule apart
}

// LevelEnd ends each level of Hit.Labels. No label holds it.
const LevelEnd = 0

// NewSeries returns the series of a domain and of levels that are spelled like
// Hit.Labels.
func NewSeries(domain, labels string) Series {
	const end = string(rune(LevelEnd))
	s := Series{Domain: domain}
	s.Key1, labels, _ = strings.Cut(labels, end)
	s.Key2, labels, _ = strings.Cut(labels, end)
	s.More = strings.ReplaceAll(strings.TrimSuffix(labels, end), end, ".")
	return s
}

// Units are the sums of a series, in units of cost. docs/metrics.md tells what
// each means.
type Units struct {
	TotalHits, OverLimit, NearLimit, WithinLimit, ShadowMode, OverLimitWithLocalCache uint64
}

func (u *Units) add(v Units) {
	u.TotalHits += v.TotalHits
	u.OverLimit += v.OverLimit
	u.NearLimit += v.NearLimit
	u.WithinLimit += v.WithinLimit
	u.ShadowMode += v.ShadowMode
	u.OverLimitWithLocalCache += v.OverLimitWithLocalCache
}

// seriesCounters count the Units of one series.
type seriesCounters struct {
	total, over, near, within, shadow, remembered atomic.Uint64
}

func (c *seriesCounters) units() Units {
	return Units{
		TotalHits: c.total.Load(), OverLimit: c.over.Load(), NearLimit: c.near.Load(),
		WithinLimit: c.within.Load(), ShadowMode: c.shadow.Load(), OverLimitWithLocalCache: c.remembered.Load(),
	}
}

// seriesTable holds the counters of every series. It is a collector of
// Prometheus, which sees the sums of the series that differ only in More.
type seriesTable struct {
	maxDetailed int // of detailed
	logger      *slog.Logger

	mu       sync.RWMutex
	all      map[Series]*seriesCounters
	detailed map[detail]*detailSeries // those with values of requests; they are in all, too
	own      map[ownKey]*ownCounters

	leaving    leaving[Series] // of all
	ownLeaving leaving[ownKey] // of own
	epoch      atomic.Uint64   // changes when counters were given up

	ownHits *prometheus.CounterVec // what is counted in own

	overflow     prometheus.Counter // hits that found detailed full
	overflowOnce sync.Once
}

// detail is what makes a series of a request's values: domain and Hit.Labels.
type detail struct{ domain, labels string }

// detailSeries are the counters of a detail.
type detailSeries struct {
	*seriesCounters
	series Series // of the detail
	rule   Series // of the limit that made it
}

func newSeriesTable(opts Options) *seriesTable {
	t := &seriesTable{
		maxDetailed: opts.MaxDetailedSeries,
		logger:      opts.Logger,
		all:         make(map[Series]*seriesCounters),
		detailed:    make(map[detail]*detailSeries),
		own:         make(map[ownKey]*ownCounters),
		leaving:     make(leaving[Series]),
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
func (t *seriesTable) of(s Series) *seriesCounters {
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
func (t *seriesTable) locked(s Series) *seriesCounters {
	c := t.all[s]
	if c == nil {
		c = new(seriesCounters)
		t.all[s] = c
	}
	return c
}

// detailOf returns the counters for values of a request to a rule, or nil if that
// would be one series too many. It allocates for values that it has not seen only.
func (t *seriesTable) detailOf(rule Series, labels []byte) *seriesCounters {
	t.mu.RLock()
	d, full := t.detailed[detail{rule.Domain, string(labels)}], len(t.detailed) >= t.maxDetailed
	t.mu.RUnlock()
	if d != nil {
		return d.seriesCounters
	}
	var c *seriesCounters
	if !full {
		c = t.addDetail(detail{rule.Domain, string(labels)}, rule)
	}
	if c == nil {
		t.overflow.Inc()
		t.overflowOnce.Do(func() {
			t.logger.Warn("values of requests made as many series of metrics as is allowed, further ones are counted under their rule",
				"domain", rule.Domain, "setting", "MAX_DETAILED_SERIES", "max", t.maxDetailed)
		})
	}
	return c
}

func (t *seriesTable) addDetail(d detail, rule Series) *seriesCounters {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.detailed[d]; known != nil {
		return known.seriesCounters
	}
	if len(t.detailed) >= t.maxDetailed {
		return nil
	}
	series := NewSeries(d.domain, d.labels)
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
		all := make([]counted, 0, len(t.all))
		for s, c := range t.all {
			all = append(all, counted{s, c})
		}
		t.mu.RUnlock()
		for _, c := range all {
			if !yield(c.Series, c.units()) {
				return
			}
		}
	}
}

// counted is a series with its counters.
type counted struct {
	Series
	*seriesCounters
}

// seriesMetrics are the metrics of envoyproxy/ratelimit, with their values.
var seriesMetrics = []struct {
	desc  *prometheus.Desc
	value func(Units) uint64
}{
	{seriesDesc("total_hits", "Units asked for."), func(u Units) uint64 { return u.TotalHits }},
	{seriesDesc("over_limit", "Units over the limit."), func(u Units) uint64 { return u.OverLimit }},
	{seriesDesc("near_limit", "Units above NEAR_LIMIT_RATIO of the limit, and not over it."), func(u Units) uint64 { return u.NearLimit }},
	{seriesDesc("within_limit", "Units admitted."), func(u Units) uint64 { return u.WithinLimit }},
	{seriesDesc("shadow_mode", "Units that would have been denied, but for the shadow mode of the limit."), func(u Units) uint64 { return u.ShadowMode }},
	{seriesDesc("over_limit_with_local_cache", "Units over the limit that were denied without asking the store."), func(u Units) uint64 { return u.OverLimitWithLocalCache }},
}

func seriesDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("ratelimit_service_rate_limit_"+name, help, []string{"domain", "key1", "key2"}, nil)
}

// Describe tells Prometheus which metrics there are.
func (t *seriesTable) Describe(descs chan<- *prometheus.Desc) {
	for _, m := range seriesMetrics {
		descs <- m.desc
	}
}

// Collect tells Prometheus what they are.
func (t *seriesTable) Collect(metrics chan<- prometheus.Metric) {
	sums := make(map[Series]Units)
	for s, u := range t.each() {
		s.More = ""
		u.add(sums[s])
		sums[s] = u
	}
	for s, u := range sums {
		for _, m := range seriesMetrics {
			metrics <- prometheus.MustNewConstMetric(m.desc, prometheus.CounterValue, float64(m.value(u)), s.Domain, s.Key1, s.Key2)
		}
	}
}
