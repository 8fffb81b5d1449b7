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
	type place struct {
		name, setting, network, address string
		listener                        *net.Listener
	}
	tcp := string(s.Proto)
	grpc := place{"gRPC", "GRPC_HOST and GRPC_PORT", tcp, s.GRPCPort.On(s.GRPCHost), &l.grpc}
	if s.GRPCUDS != "" {
		grpc = place{"gRPC", "GRPC_UDS", "unix", s.GRPCUDS, &l.grpc}
	}
	var bound []net.Listener
	var without []string // listeners that do without IPv6
	var errs []error
	for _, p := range []place{
		grpc,
		{"HTTP", "HOST and PORT", tcp, s.Port.On(s.Host), &l.http},
		{"debug", "DEBUG_HOST and DEBUG_PORT", tcp, s.DebugPort.On(s.DebugHost), &l.debug},
		{"metrics", "PROMETHEUS_ADDR", tcp, string(s.PrometheusAddr), &l.metrics},
	} {
		listener, err := bind(p.network, p.address)
		if err != nil {
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
		logger.Warn("this machine has no IPv6, listening on IPv4 alone", "listeners", strings.Join(without, " "))
	}
	return l, nil
}

// bind binds an address. The host :: means all addresses, those of IPv4
// included, and these alone on a machine without IPv6.
func bind(network, address string) (net.Listener, error) {
	if network == "unix" {
		return listenUnix(address)
	}
	return net.Listen(network, address)
}

func isIPv4(listener net.Listener) bool {
	addr, ok := listener.Addr().(*net.TCPAddr)
	return ok && addr.IP.To4() != nil
}
