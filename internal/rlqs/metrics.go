package rlqs

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
)

// Share is the share of an Envoy in a bucket.
type Share struct {
	Domain   string
	Entries  []limiter.Entry // as they are counted
	Patterns []string        // patterns that replace values, see limiter.Keys
	Key      string
	Limit    *limiter.Limit
	Rates
}

// Rates are an Envoy's requests per second.
type Rates struct {
	Envoy  string  `json:"envoy"` // address of the Envoy's connection
	Demand float64 `json:"demand"`
	Share  float64 `json:"share"`
	Held   float64 `json:"held"` // more than Share while a larger share has not expired
	Use    float64 `json:"use"`  // requests that the Envoy admitted
}

// Shares returns shares of Envoys on this server, largest demand first. The parameter most limits
// their number.
func (p *Pool) Shares(now time.Time, most int) (list []Share) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var members []*member
	before := func(a, b *member) int { return cmp.Or(cmp.Compare(b.usage, a.usage), strings.Compare(a.key, b.key)) }
	for e := range p.envoys {
		for _, m := range e.members {
			i, _ := slices.BinarySearchFunc(members, m, before)
			members = slices.Insert(members, i, m)
			members = members[:min(len(members), most)]
		}
	}
	for _, m := range members {
		var u usage
		_ = u.set(1, m.id, 0) // cannot fail, because the ID was read from a report
		domain, _ := m.rule.Entries()
		_, entries := m.tree.MatchBucket(domain, u.entries)
		list = append(list, Share{
			domain, m.rule.Counted(entries), m.rule.Patterns, m.key, m.limit,
			Rates{m.envoy.name, m.usage, m.rate(m.assigned), m.rate(m.held(now)), m.admitted},
		})
	}
	return list
}

var (
	byRule        = []string{"domain", "rule"}
	streamsDesc   = prometheus.NewDesc("weir_quota_streams", "Streams of Envoys with the filter rate_limit_quota.", nil, nil)
	bucketsDesc   = prometheus.NewDesc("weir_quota_buckets", "Buckets that Envoys have reported, of rules with quota_service.", byRule, nil)
	demandDesc    = prometheus.NewDesc("weir_quota_demand", "Requests per second that Envoys have reported last.", byRule, nil)
	shareDesc     = prometheus.NewDesc("weir_quota_share", "Requests per second that shares of Envoys admit.", byRule, nil)
	unmatchedDesc = prometheus.NewDesc("weir_quota_unmatched_total", "Reports of buckets without a rule, which Envoy admits.", nil, nil)
	refusedDesc   = prometheus.NewDesc("weir_quota_refused_total", "Reports of buckets beyond the maximum number or size of a bucket ID, which get no share.", nil, nil)
)

// Describe implements prometheus.Collector.
func (p *Pool) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{streamsDesc, bucketsDesc, demandDesc, shareDesc, unmatchedDesc, refusedDesc} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (p *Pool) Collect(to chan<- prometheus.Metric) {
	p.mu.Lock()
	defer p.mu.Unlock()
	type sums struct{ buckets, demand, share float64 }
	rules := map[[2]string]sums{}
	if tree := p.opts.Rules(); tree != nil { // series begin at 0
		for _, r := range tree.Buckets() {
			l := r.Limits[0].Series.Labels()
			rules[[2]string{l.Domain, l.Rule}] = sums{}
		}
	}
	for _, b := range p.buckets {
		l := b.limit.Series.Labels()
		s := rules[[2]string{l.Domain, l.Rule}]
		s.buckets++
		for m := range b.members {
			s.demand += m.usage
			s.share += m.rate(m.assigned)
		}
		rules[[2]string{l.Domain, l.Rule}] = s
	}
	to <- prometheus.MustNewConstMetric(streamsDesc, prometheus.GaugeValue, float64(len(p.envoys)))
	to <- prometheus.MustNewConstMetric(unmatchedDesc, prometheus.CounterValue, float64(p.unmatched))
	to <- prometheus.MustNewConstMetric(refusedDesc, prometheus.CounterValue, float64(p.refused))
	for rule, s := range rules {
		to <- prometheus.MustNewConstMetric(bucketsDesc, prometheus.GaugeValue, s.buckets, rule[:]...)
		to <- prometheus.MustNewConstMetric(demandDesc, prometheus.GaugeValue, s.demand, rule[:]...)
		to <- prometheus.MustNewConstMetric(shareDesc, prometheus.GaugeValue, s.share, rule[:]...)
	}
}
