package rlqs

import (
	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/descriptors/plaintext"
)

// Share is the share of an Envoy in a bucket, in requests per second.
type Share struct {
	Rule   string  `json:"rule"`
	Key    string  `json:"key"`   // as Redis has it, as text
	Envoy  string  `json:"envoy"` // its address
	Demand float64 `json:"demand"`
	Share  float64 `json:"share"`
	Use    float64 `json:"use"` // what it admitted
}

// Shares returns the shares of all Envoys of this server.
func (p *Pool) Shares() (list []Share) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := range p.envoys {
		for _, m := range e.members {
			list = append(list, Share{m.rule.String(), plaintext.RedisKey([]byte(m.key)), e.name, m.usage, m.rate(m.assigned), m.admitted})
		}
	}
	return list
}

var (
	byRule      = []string{"domain", "rule"}
	streamsDesc = prometheus.NewDesc("weir_quota_streams", "Streams of Envoys with the filter rate_limit_quota.", nil, nil)
	bucketsDesc = prometheus.NewDesc("weir_quota_buckets", "Buckets that Envoys have reported, of rules with quota_service.", byRule, nil)
	demandDesc  = prometheus.NewDesc("weir_quota_demand", "Requests per second that Envoys have reported last.", byRule, nil)
	shareDesc   = prometheus.NewDesc("weir_quota_share", "Requests per second that shares of Envoys admit.", byRule, nil)
	refusedDesc = prometheus.NewDesc("weir_quota_refused_total", "Reports of buckets beyond the maximum number or size of a bucket ID, which get no share.", nil, nil)
)

// Describe implements prometheus.Collector.
func (p *Pool) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{streamsDesc, bucketsDesc, demandDesc, shareDesc, refusedDesc} {
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
	to <- prometheus.MustNewConstMetric(refusedDesc, prometheus.CounterValue, float64(p.refused))
	for rule, s := range rules {
		to <- prometheus.MustNewConstMetric(bucketsDesc, prometheus.GaugeValue, s.buckets, rule[:]...)
		to <- prometheus.MustNewConstMetric(demandDesc, prometheus.GaugeValue, s.demand, rule[:]...)
		to <- prometheus.MustNewConstMetric(shareDesc, prometheus.GaugeValue, s.share, rule[:]...)
	}
}
