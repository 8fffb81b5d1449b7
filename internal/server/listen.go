package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"weir/internal/settings"
)

// listeners are bound addresses, each for one server. Requests are answered
// without debug and metrics, too: these may be nil.
type listeners struct{ grpc, http, debug, metrics net.Listener }

// place is an address to bind.
type place struct {
	name, setting    string
	network, address string
	listener         *net.Listener
	// lost is how severe it is to go on without, if that is possible at all. It is
	// nil for what Envoy needs.
	lost *slog.Level
}

// places are the addresses that the settings name.
func (l *listeners) places(s settings.Listen) []place {
	tcp := string(s.Proto)
	unwell, bad := slog.LevelWarn, slog.LevelError
	grpc := place{"gRPC", "GRPC_HOST and GRPC_PORT", tcp, s.GRPCPort.On(s.GRPCHost), &l.grpc, nil}
	if s.GRPCUDS != "" {
		grpc = place{"gRPC", "GRPC_UDS", "unix", s.GRPCUDS, &l.grpc, nil}
	}
	list := []place{
		grpc,
		{"HTTP", "HOST and PORT", tcp, s.Port.On(s.Host), &l.http, nil},
		{"debug", "DEBUG_HOST and DEBUG_PORT", tcp, s.DebugPort.On(s.DebugHost), &l.debug, &bad},
	}
	metrics := place{"metrics", "PROMETHEUS_ADDR", tcp, s.PrometheusAddr, &l.metrics, &unwell}
	switch {
	case s.UsePrometheus == "true":
		metrics.lost = &bad
	case s.UsePrometheus == "false":
		return list
	}
	return append(list, metrics)
}

// listen binds all addresses, or none if one is missing that is needed. The
// error names every one of these, and the setting that it comes from.
func listen(s settings.Settings, logger *slog.Logger) (listeners, error) {
	var l listeners
	config := listenConfig(s)
	var bound []net.Listener
	var without []string // listeners that do without IPv6
	var errs []error
	for _, p := range l.places(s.Listen) {
		listener, err := bind(config, p.network, p.address)
		switch {
		case err != nil && p.lost != nil:
			logger.Log(context.Background(), *p.lost, "a listener cannot be bound; serving without it", "listener", p.name, "settings", p.setting, "err", err)
			continue
		case err != nil:
			errs = append(errs, fmt.Errorf("binding the %s listener (see %s): %w", p.name, p.setting, err))
			continue
		}
		if isIPv4(listener) && strings.HasPrefix(p.address, "[::]:") {
			without = append(without, p.name)
		}
		*p.listener, bound = listener, append(bound, listener)
	}
	if errs != nil {
		for _, listener := range bound {
			listener.Close()
		}
		return listeners{}, errors.Join(errs...)
	}
	if without != nil {
		logger.Warn("this machine has no IPv6; listening on IPv4 only", "listeners", strings.Join(without, " "))
	}
	return l, nil
}

// listenConfig lets servers share ports that share their counters, too. Those that
// count in memory would each admit the whole of every limit, unnoticed.
func listenConfig(s settings.Settings) net.ListenConfig {
	if s.Redis.Main.URL == "" {
		return net.ListenConfig{}
	}
	return net.ListenConfig{Control: sharePort}
}

// bind binds an address. The host :: means all addresses, those of IPv4
// included, and these alone on a machine without IPv6.
func bind(config net.ListenConfig, network, address string) (net.Listener, error) {
	if network == "unix" {
		return listenUnix(address)
	}
	return config.Listen(context.Background(), network, address)
}

func isIPv4(listener net.Listener) bool {
	addr, ok := listener.Addr().(*net.TCPAddr)
	return ok && addr.IP.To4() != nil
}
