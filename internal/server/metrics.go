package server

import (
	"crypto/tls"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Build says what was built. Fields that the build did not record are empty.
type Build struct {
	Version string
	Commit  string
	Go      string // its version
}

// registerBuild registers the metric of what was built.
func registerBuild(reg prometheus.Registerer, b Build) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "weir", Name: "build_info", Help: "Always 1, with the version, commit and Go version as labels.",
		ConstLabels: prometheus.Labels{"version": b.Version, "commit": b.Commit, "go": b.Go},
	}, func() float64 { return 1 }))
}

// loadMetrics count loads of the rules, under the names that dashboards of
// envoyproxy/ratelimit know, and say how the last load ended.
type loadMetrics struct {
	success, failure prometheus.Counter
	good, successAt  prometheus.Gauge
}

func newLoadMetrics(reg prometheus.Registerer) *loadMetrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "ratelimit_service", Name: name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "weir", Subsystem: "config", Name: name, Help: help})
	}
	m := &loadMetrics{
		success:   counter("config_load_success", "Successful loads of the rules."),
		failure:   counter("config_load_error", "Failed loads of the rules. The previous rules stay in use."),
		good:      gauge("last_reload_successful", "1 if the last load of the rules succeeded, 0 if it failed or there was none."),
		successAt: gauge("last_reload_success_timestamp_seconds", "Unix time of the last successful load of the rules, 0 before the first."),
	}
	reg.MustRegister(m.success, m.failure, m.good, m.successAt)
	return m
}

// succeeded counts a load that succeeded at this time.
func (m *loadMetrics) succeeded(at time.Time) {
	m.success.Inc()
	m.good.Set(1)
	m.successAt.Set(float64(at.UnixMilli()) / 1e3)
}

// failed counts a load that failed.
func (m *loadMetrics) failed() {
	m.failure.Inc()
	m.good.Set(0)
}

// certificates shows from when until when Weir's own certificates of a connection
// are valid.
type certificates struct {
	notBefore, notAfter *prometheus.Desc
	config              func() *tls.Config // that is in use
}

// registerCertificates registers the metrics of the certificates that Weir shows on a
// connection. A client without a certificate has none.
func registerCertificates(reg prometheus.Registerer, connection string, config func() *tls.Config) {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("weir_tls_certificate_"+name+"_timestamp_seconds", help, nil, prometheus.Labels{"connection": connection})
	}
	reg.MustRegister(&certificates{
		notBefore: desc("not_before", "Unix time from which Weir's own certificate for a connection is valid."),
		notAfter:  desc("not_after", "Unix time at which Weir's own certificate for a connection expires."),
		config:    config,
	})
}

// Describe implements prometheus.Collector.
func (c *certificates) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.notBefore
	descs <- c.notAfter
}

// Collect implements prometheus.Collector.
func (c *certificates) Collect(metrics chan<- prometheus.Metric) {
	for _, own := range c.config().Certificates { // at most one
		metrics <- prometheus.MustNewConstMetric(c.notBefore, prometheus.GaugeValue, float64(own.Leaf.NotBefore.Unix()))
		metrics <- prometheus.MustNewConstMetric(c.notAfter, prometheus.GaugeValue, float64(own.Leaf.NotAfter.Unix()))
	}
}
