package server

import (
	"iter"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"weir/internal/telemetry"
	"weir/internal/telemetry/statsd"
)

// addStatsd adds the clients of statsd and DogStatsD that the settings turn on. They send the metrics
// of limits and serviceMetrics.
func addStatsd(o Options, life *lifecycle, usage *telemetry.Usage, serviceMetrics prometheus.Gatherer) {
	s := o.Settings.Metrics
	if s.DisableStats {
		return
	}
	opts := statsd.Options{
		Source:   statsdSource(usage, serviceMetrics),
		Network:  string(s.StatsdProtocol),
		Address:  s.StatsdPort.On(s.StatsdHost),
		Interval: s.StatsFlushInterval,
		Tags:     s.ExtraTags,
		Logger:   o.Logger,
	}
	if s.UseStatsd == "true" || s.UseStatsd == "" && !s.UseDogStatsd {
		plain := opts
		plain.Quiet = s.UseStatsd == ""
		life.background("statsd", statsd.New(plain).Run)
	}
	if s.UseDogStatsd {
		opts.Network, opts.DogStatsD = "udp", true
		for _, m := range s.Mogrifiers {
			opts.Rules = append(opts.Rules, statsd.Rule(m))
		}
		life.background("DogStatsD", statsd.New(opts).Run)
	}
}

// statsdSource yields the metrics of limits and serviceMetrics under the names of
// envoyproxy/ratelimit.
func statsdSource(l *telemetry.Usage, serviceMetrics prometheus.Gatherer) iter.Seq[statsd.Sum] {
	return func(yield func(statsd.Sum) bool) {
		var name []byte
		for labels, sums := range l.Sums() {
			name = append(name[:0], "ratelimit.service.rate_limit."...)
			for _, label := range []string{labels.Domain, labels.Key1, labels.Key2, labels.More} {
				if label != "" {
					name = append(append(name, label...), '.')
				}
			}
			for sum, total := range sums {
				if total > 0 && !yield(statsd.Sum{Name: append(name, telemetry.Sum(sum).String()...), Total: total}) {
					return
				}
			}
		}
		families, _ := serviceMetrics.Gather() // an error of one metric does not affect the others
		for _, f := range families {
			if strings.HasPrefix(f.GetName(), "weir_") { // for Prometheus only
				continue
			}
			for _, m := range f.GetMetric() {
				for _, sum := range statsdSums(f.GetName(), m) {
					if !yield(sum) {
						return
					}
				}
			}
		}
	}
}

// statsdNames are envoyproxy/ratelimit's names for the service metrics that have a label. The
// label's value replaces LABEL.
var statsdNames = map[string]string{
	"ratelimit_service_total_requests":          "ratelimit_server.LABEL.total_requests",
	"ratelimit_service_response_time_seconds":   "ratelimit_server.LABEL.response_time",
	"ratelimit_service_should_rate_limit_error": "ratelimit.service.call.should_rate_limit.LABEL",
}

// statsdSums returns the value of a counter or, for a histogram of seconds, one timing for each
// bucket, with the bucket's upper bound as its duration.
func statsdSums(family string, m *dto.Metric) (sums []statsd.Sum) {
	name := []byte("ratelimit.service." + strings.TrimPrefix(family, "ratelimit_service_"))
	if known, ok := statsdNames[family]; ok {
		name = []byte(strings.Replace(known, "LABEL", strings.TrimPrefix(m.GetLabel()[0].GetValue(), "/"), 1))
	}
	h := m.GetHistogram()
	if h == nil {
		return []statsd.Sum{{Name: name, Total: uint64(m.GetCounter().GetValue())}}
	}
	var below uint64
	var bound time.Duration
	for _, b := range h.GetBucket() {
		bound = time.Duration(b.GetUpperBound() * float64(time.Second))
		sums = append(sums, statsd.Sum{Name: name, Total: b.GetCumulativeCount() - below, Took: bound})
		below = b.GetCumulativeCount()
	}
	// Longer times are in no bucket. Any duration beyond the last bound represents them.
	return append(sums, statsd.Sum{Name: name, Total: h.GetSampleCount() - below, Took: 2 * bound})
}
