package server

import (
	"crypto/x509"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"weir/internal/settings/follow"
)

// Build says what was built. Fields that the build did not record are empty.
type Build struct {
	Version string
	Commit  string
	Time    string // of the commit
	Go      string // its version
}

// String returns the version, and what else is known.
func (b Build) String() string {
	text := b.Version
	if b.Commit != "" {
		text += ", revision " + b.Commit
	}
	if b.Time != "" {
		text += ", " + b.Time
	}
	return text + ", " + b.Go
}

// registerProcess registers the metrics of the process, of what was built and of its secrets.
func (a *App) registerProcess() {
	reg, b := a.opts.Registry, a.opts.Build
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	promauto.With(reg).NewGauge(prometheus.GaugeOpts{
		Name: "weir_build_info", Help: "Always 1, with the version, commit and Go version as labels.",
		ConstLabels: prometheus.Labels{"version": b.Version, "commit": b.Commit, "go": b.Go},
	}).Set(1)
	promauto.With(reg).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weir_secrets_refused", Help: "Changed secrets that cannot be read or that Redis rejects. The previous ones stay in use.",
	}, func() float64 { return float64(len(a.oldSecrets())) })
}

// loadMetrics count loads of the rules, under the names that dashboards of
// envoyproxy/ratelimit know, and say how the last load ended.
type loadMetrics struct {
	success, failure prometheus.Counter
	good, successAt  prometheus.Gauge
}

func newLoadMetrics(reg prometheus.Registerer) *loadMetrics {
	auto := promauto.With(reg)
	return &loadMetrics{
		success: auto.NewCounter(prometheus.CounterOpts{
			Name: "ratelimit_service_config_load_success", Help: "Successful loads of the rules.",
		}),
		failure: auto.NewCounter(prometheus.CounterOpts{
			Name: "ratelimit_service_config_load_error", Help: "Failed loads of the rules. The previous rules stay in use.",
		}),
		good: auto.NewGauge(prometheus.GaugeOpts{
			Name: "weir_config_last_reload_successful", Help: "1 if the last load of the rules succeeded, 0 if it failed or there was none.",
		}),
		successAt: auto.NewGauge(prometheus.GaugeOpts{
			Name: "weir_config_last_reload_success_timestamp_seconds", Help: "Unix time of the last successful load of the rules, 0 before the first.",
		}),
	}
}

// registerCertificate registers the metrics of the certificate that Weir shows on a
// connection. A client without one has none.
func registerCertificate(reg prometheus.Registerer, connection string, files *follow.TLS) {
	if len(files.TLS().Certificates) == 0 {
		return
	}
	show := func(name, help string, at func(*x509.Certificate) time.Time) {
		promauto.With(reg).NewGaugeFunc(prometheus.GaugeOpts{
			Name: "weir_tls_certificate_" + name + "_timestamp_seconds", Help: help, ConstLabels: prometheus.Labels{"connection": connection},
		}, func() float64 { return float64(at(files.TLS().Certificates[0].Leaf).Unix()) })
	}
	show("not_before", "Unix time from which Weir's own certificate for a connection is valid.", func(c *x509.Certificate) time.Time { return c.NotBefore })
	show("not_after", "Unix time at which Weir's own certificate for a connection expires.", func(c *x509.Certificate) time.Time { return c.NotAfter })
}
