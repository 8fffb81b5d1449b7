package telemetry

import (
	"iter"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"weir/internal/limiter"
)

// merged adds up adjacent rows whose series cut maps to the same series. It yields the labels of
// that series with the sums, in the order of rows, and skips series without hits.
func merged(rows []row, cut func(limiter.Series) limiter.Series) iter.Seq2[limiter.LabelSet, Sums] {
	return func(yield func(limiter.LabelSet, Sums) bool) {
		for i := 0; i < len(rows); {
			var sums Sums
			series := cut(rows[i].series)
			for ; i < len(rows) && cut(rows[i].series) == series; i++ {
				sums.add(rows[i].counters)
			}
			if sums[TotalHits] > 0 && !yield(series.Labels(), sums) {
				return
			}
		}
	}
}

// Describe implements prometheus.Collector.
func (u *Usage) Describe(descs chan<- *prometheus.Desc) {
	for _, m := range metrics[:outcomes+1] {
		descs <- m.desc
	}
}

// Collect implements prometheus.Collector. There may be very many series. So the series of a limit
// share their labels, which prometheus.NewConstMetric would copy, and they are sent in Prometheus's
// order, so that it sorts them quickly.
func (u *Usage) Collect(to chan<- prometheus.Metric) {
	rows := u.rows(true)
	for l, sums := range merged(rows, limiter.Series.Keys) {
		labels := prometheus.MakeLabelPairs(metrics[TotalHits].desc, []string{l.Domain, l.Key1, l.Key2})
		for s, value := range sums {
			to <- &metric{metrics[s].desc, labels, value}
		}
	}
	for _, r := range rows {
		l := r.series.Labels()
		if l.Rule == "" {
			continue
		}
		domain, limit, rule := pair("domain", l.Domain), pair("limit", l.Limit), pair("rule", l.Rule)
		for s := outcomes; s < allSums; s++ {
			to <- &metric{limitDesc, []*dto.LabelPair{domain, limit, pair("outcome", s.String()), rule}, r.sums[s].Load()}
		}
	}
}

func pair(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }

// metric is a sum with its labels, as a prometheus.Metric.
type metric struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	value  uint64
}

func (m *metric) Desc() *prometheus.Desc { return m.desc }

func (m *metric) Write(out *dto.Metric) error {
	out.Label, out.Counter = m.labels, &dto.Counter{Value: new(float64(m.value))}
	return nil
}
