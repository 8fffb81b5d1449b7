package app

import "github.com/prometheus/client_golang/prometheus"

// loadMetrics count loads of the rules, under the names that dashboards of
// envoyproxy/ratelimit know.
type loadMetrics struct {
	success, failure prometheus.Counter
}

func newLoadMetrics(reg prometheus.Registerer) *loadMetrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "ratelimit_service", Name: name, Help: help})
	}
	m := &loadMetrics{
		success: counter("config_load_success", "Loads of the rules that succeeded."),
		failure: counter("config_load_error", "Loads of the rules that failed and left the old ones serving."),
	}
	reg.MustRegister(m.success, m.failure)
	return m
}
