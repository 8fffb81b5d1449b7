package usage

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"weir/internal/limiter"
)

// merged yields the sums of rows, added up where consecutive ones agree in the
// labels that cut leaves. Limits whose hits all count under values of requests
// have none.
func merged(rows []row, cut func(*limiter.Labels)) iter.Seq2[limiter.Labels, Sums] {
	return func(yield func(limiter.Labels, Sums) bool) {
		var last limiter.Labels
		var sums Sums
		for _, r := range rows {
			labels := r.series.Labels()
			cut(&labels)
			if labels != last {
				if sums[TotalHits] > 0 && !yield(last, sums) {
					return
				}
				last, sums = labels, Sums{}
			}
			for s := range sums {
				sums[s] += r.counters[s].Load()
			}
		}
		if sums[TotalHits] > 0 {
			yield(last, sums)
		}
	}
}

// Describe tells Prometheus which metrics there are.
func (t *table) Describe(descs chan<- *prometheus.Desc) {
	for _, m := range metrics[:outcomes+1] {
		descs <- m.desc
	}
}

// Collect tells Prometheus what they are. There may be as many series as there are
// limits: those of one limit share labels, and they come in the order that
// Prometheus wants, which it takes long to bring about.
func (t *table) Collect(to chan<- prometheus.Metric) {
	rows := t.rows(time.Now())
	for l, sums := range merged(rows, func(l *limiter.Labels) { l.More, l.Rule, l.Limit = "", "", "" }) {
		labels := prometheus.MakeLabelPairs(metrics[TotalHits].desc, []string{l.Domain, l.Key1, l.Key2})
		for s, value := range sums {
			to <- &metric{metrics[s].desc, labels, value}
		}
	}
	collectLimits(rows, to)
}

// limit is a limit that was hit.
type limit struct {
	limiter.Labels
	*counters
}

// collectLimits tells Prometheus of the outcomes of each limit.
func collectLimits(rows []row, to chan<- prometheus.Metric) {
	var limits []limit
	for _, r := range rows {
		if l := r.series.Labels(); l.Rule != "" {
			limits = append(limits, limit{l, r.counters})
		}
	}
	slices.SortFunc(limits, func(a, b limit) int {
		return cmp.Or(strings.Compare(a.Domain, b.Domain), strings.Compare(a.Limit, b.Limit), strings.Compare(a.Rule, b.Rule))
	})
	for len(limits) > 0 {
		first, n := limits[0], 1
		for n < len(limits) && limits[n].Domain == first.Domain && limits[n].Limit == first.Limit {
			n++
		}
		collectAlike(limits[:n], to)
		limits = limits[n:]
	}
}

// collectAlike tells of limits that differ in their rules only.
func collectAlike(limits []limit, to chan<- prometheus.Metric) {
	rules := make([]*dto.LabelPair, len(limits))
	domain, name := pair("domain", limits[0].Domain), pair("limit", limits[0].Limit)
	for i, l := range limits {
		rules[i] = pair("rule", l.Rule)
	}
	for s := outcomes; s < allSums; s++ {
		outcome := pair("outcome", s.String())
		for i, l := range limits {
			to <- &metric{limitDesc, []*dto.LabelPair{domain, name, outcome, rules[i]}, l.counters[s].Load()}
		}
	}
}

func pair(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }

// metric is a sum with its labels.
type metric struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	value  uint64
}

// Desc tells which metric it is.
func (m *metric) Desc() *prometheus.Desc { return m.desc }

// Write tells its labels and value.
func (m *metric) Write(out *dto.Metric) error {
	value := float64(m.value)
	out.Label, out.Counter = m.labels, &dto.Counter{Value: &value}
	return nil
}
