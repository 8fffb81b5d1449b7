package xds

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	connected prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		connected: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "weir", Subsystem: "xds", Name: "connected",
			Help: "Whether there is a stream to the control plane, 1 or 0.",
		}),
	}
	reg.MustRegister(m.connected)
	return m
}
