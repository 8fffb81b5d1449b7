package limiter

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

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

// Collect tells Prometheus what they are. There may be as many series as there are
// limits: all metrics of one share its labels, and they come in the order that
// Prometheus wants, which it takes long to bring about.
func (t *seriesTable) Collect(metrics chan<- prometheus.Metric) {
	sums := make(map[Series]Units)
	for s, u := range t.each() {
		s.More = ""
		u.add(sums[s])
		sums[s] = u
	}
	for _, s := range slices.SortedFunc(maps.Keys(sums), compareLabels) {
		labels := prometheus.MakeLabelPairs(seriesMetrics[0].desc, []string{s.Domain, s.Key1, s.Key2})
		for _, m := range seriesMetrics {
			metrics <- &seriesMetric{m.desc, labels, float64(m.value(sums[s]))}
		}
	}
}

func compareLabels(a, b Series) int {
	return cmp.Or(strings.Compare(a.Domain, b.Domain), strings.Compare(a.Key1, b.Key1), strings.Compare(a.Key2, b.Key2))
}

// seriesMetric is one of seriesMetrics with the labels of a series.
type seriesMetric struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	value  float64
}

// Desc tells which metric it is.
func (m *seriesMetric) Desc() *prometheus.Desc { return m.desc }

// Write tells its labels and value.
func (m *seriesMetric) Write(out *dto.Metric) error {
	out.Label, out.Counter = m.labels, &dto.Counter{Value: &m.value}
	return nil
}
