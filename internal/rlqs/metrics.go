package rlqs

import (
	"iter"
	"maps"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/descriptors"
	"weir/internal/descriptors/plaintext"
)

// Share is the share of an Envoy in a bucket, in requests per second.
type Share struct {
	Rule, Key, Envoy   string
	Demand, Share, Use float64
}

// Shares yields the shares of all Envoys of this server. The pool waits for the reader.
func (p *Pool) Shares() iter.Seq[Share] {
	return func(yield func(Share) bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for key, b := range p.buckets {
			tokens, seconds := descriptors.Refill(b.limit)
			for m := range b.members {
				share := float64(m.assigned) * float64(tokens) / float64(seconds)
				if !yield(Share{b.rule.String(), plaintext.RedisKey([]byte(key)), m.envoy.name, m.usage, share, m.admitted}) {
					return
				}
			}
		}
	}
}

var (
	byRule       = []string{"domain", "rule"}
	streamsDesc  = prometheus.NewDesc("weir_quota_streams", "Streams of Envoys with the filter rate_limit_quota.", nil, nil)
	bucketsDesc  = prometheus.NewDesc("weir_quota_buckets", "Buckets that Envoys have reported, of rules with quota_service.", byRule, nil)
	demandDesc   = prometheus.NewDesc("weir_quota_demand", "Requests per second that Envoys have reported last.", byRule, nil)
	shareDesc    = prometheus.NewDesc("weir_quota_share", "Requests per second that shares of Envoys admit.", byRule, nil)
	requestsDesc = prometheus.NewDesc("weir_quota_requests_total", "Requests that Envoys have reported, by outcome: admitted or denied.", append(byRule, "outcome"), nil)
	refusedDesc  = prometheus.NewDesc("weir_quota_refused_total", "Reports of buckets beyond the maximum number or size of a bucket ID, which get no share.", nil, nil)
)

// Describe implements prometheus.Collector.
func (p *Pool) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{streamsDesc, bucketsDesc, demandDesc, shareDesc, requestsDesc, refusedDesc} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (p *Pool) Collect(to chan<- prometheus.Metric) {
	p.mu.Lock()
	defer p.mu.Unlock()
	send := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, kind, value, labels...)
	}
	type sums struct{ buckets, demand, share float64 }
	byRule, requests := map[[2]string]sums{}, maps.Clone(p.requests)
	if tree := p.opts.Rules(); tree != nil { // series begin at 0
		for _, r := range tree.Buckets() {
			l := r.Limits[0].Series.Labels()
			byRule[[2]string{l.Domain, l.Rule}] = sums{}
			requests[[2]string{l.Domain, l.Rule}] = p.requests[[2]string{l.Domain, l.Rule}]
		}
	}
	for _, b := range p.buckets {
		l := b.limit.Series.Labels()
		s := byRule[[2]string{l.Domain, l.Rule}]
		tokens, seconds := descriptors.Refill(b.limit)
		s.buckets++
		for m := range b.members {
			s.demand += m.usage
			s.share += float64(m.assigned) * float64(tokens) / float64(seconds)
		}
		byRule[[2]string{l.Domain, l.Rule}] = s
	}
	send(streamsDesc, prometheus.GaugeValue, float64(len(p.envoys)))
	send(refusedDesc, prometheus.CounterValue, float64(p.refused))
	for rule, s := range byRule {
		send(bucketsDesc, prometheus.GaugeValue, s.buckets, rule[:]...)
		send(demandDesc, prometheus.GaugeValue, s.demand, rule[:]...)
		send(shareDesc, prometheus.GaugeValue, s.share, rule[:]...)
	}
	for rule, t := range requests {
		send(requestsDesc, prometheus.CounterValue, float64(t.allowed), rule[0], rule[1], "admitted")
		send(requestsDesc, prometheus.CounterValue, float64(t.denied), rule[0], rule[1], "denied")
	}
}
