package app

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"weir/internal/settings"
)

// listeners are bound addresses, each for one server.
type listeners struct{ grpc, http, debug, metrics net.Listener }

// listen binds all addresses or none. The error names every one that could not
// be bound, and the setting that it comes from.
func listen(s settings.Listen, logger *slog.Logger) (l listeners, err error) {
	network := string(s.Proto)
	tcp := func(address string) func() (net.Listener, error) {
		return func() (net.Listener, error) { return listenTCP(network, address) }
	}
	grpcSetting, grpc := "GRPC_HOST and GRPC_PORT", tcp(s.GRPCPort.On(s.GRPCHost))
	if s.GRPCUDS != "" {
		grpcSetting, grpc = "GRPC_UDS", func() (net.Listener, error) { return listenUnix(s.GRPCUDS) }
	}
	var bound []net.Listener
	var without []string // listeners that do without IPv6
	var errs []error
	for _, b := range []struct {
		name, setting string
		listen        func() (net.Listener, error)
		listener      *net.Listener
	}{
		{"gRPC", grpcSetting, grpc, &l.grpc},
		{"HTTP", "HOST and PORT", tcp(s.Port.On(s.Host)), &l.http},
		{"debug", "DEBUG_HOST and DEBUG_PORT", tcp(s.DebugPort.On(s.DebugHost)), &l.debug},
		{"metrics", "PROMETHEUS_ADDR", tcp(string(s.PrometheusAddr)), &l.metrics},
	} {
		listener, err := b.listen()
		if err != nil {
			errs = append(errs, fmt.Errorf("binding the %s listener (see %s): %w", b.name, b.setting, err))
			continue
		}
		if _, ok := listener.(withoutIPv6); ok {
			without = append(without, b.name)
		}
		*b.listener, bound = listener, append(bound, listener)
	}
	if errs != nil {
		for _, listener := range bound {
			listener.Close()
		}
		return listeners{}, errors.Join(errs...)
	}
	if without != nil {
		logger.Warn("this machine has no IPv6, listening on IPv4 alone", "listeners", strings.Join(without, " "))
	}
	return l, nil
}
