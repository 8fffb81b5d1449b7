package server

import (
	"crypto/x509"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"weir/internal/settings/follow"
)

// Build describes the program. Fields that the build did not record are empty.
type Build struct {
	Version string
	Commit  string
	Time    string // time of the commit
	Go      string // version of Go
}

// String returns the version and the other known fields.
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

// registerProcess registers the metrics of the process, its build and its secrets. refusedSecrets
// returns the reason for each changed secret that is not used.
func registerProcess(reg prometheus.Registerer, b Build, refusedSecrets func() []string) {
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	promauto.With(reg).NewGauge(prometheus.GaugeOpts{
		Name: "weir_build_info", Help: "Always 1, with the version, commit and Go version as labels.",
		ConstLabels: prometheus.Labels{"version": b.Version, "commit": b.Commit, "go": b.Go},
	}).Set(1)
	promauto.With(reg).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weir_secrets_refused", Help: "Changed secrets and certificates that cannot be read, are invalid, or that Redis rejects. The previous ones stay in use.",
	}, func() float64 { return float64(len(refusedSecrets())) })
}

// countRefused registers a metric of refused TLS clients, and returns a function that counts a refusal.
func countRefused(reg prometheus.Registerer) func(reason string) {
	refused := promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "weir_tls_clients_refused_total", Help: "TLS handshakes of gRPC clients that failed, by reason.",
	}, []string{"reason"})
	for _, reason := range follow.Reasons {
		refused.WithLabelValues(reason)
	}
	return func(reason string) { refused.WithLabelValues(reason).Inc() }
}

// registerCertificate registers the metrics of Weir's own certificate for a connection. If Weir has no
// certificate, as on some connections where Weir is the client, it registers nothing.
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
