package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"weir/internal/settings"
)

// place is an address to bind, for one server.
type place struct {
	name, settings   string
	network, address string
	required         bool // nothing goes on without
}

// places are the addresses that the settings name.
func places(s settings.Listen) []place {
	tcp := string(s.Proto)
	list := []place{
		{"gRPC", "GRPC_HOST and GRPC_PORT", tcp, s.GRPCPort.On(s.GRPCHost), true},
		{"HTTP", "HOST and PORT", tcp, s.Port.On(s.Host), true},
		{"debug", "DEBUG_HOST and DEBUG_PORT", tcp, s.DebugPort.On(s.DebugHost), false},
	}
	if s.GRPCUDS != "" {
		list[0] = place{"gRPC", "GRPC_UDS", "unix", s.GRPCUDS, true}
	}
	if s.UsePrometheus != "false" {
		list = append(list, place{"metrics", "PROMETHEUS_ADDR", tcp, s.PrometheusAddr, false})
	}
	return list
}

// listen binds all places, or none if one is missing that is required. It returns listeners
// by name. The error names every one that is missing, and the setting that it comes from.
func listen(s settings.Settings, logger *slog.Logger) (map[string]net.Listener, error) {
	var config net.ListenConfig
	if s.Redis.Main.URL != "" { // servers that count in memory would each admit the whole of every limit
		config.Control = sharePort
	}
	bound := map[string]net.Listener{}
	var errs []error
	for _, p := range places(s.Listen) {
		var listener net.Listener
		var err error
		if p.network == "unix" {
			listener, err = listenUnix(p.address)
		} else {
			listener, err = config.Listen(context.Background(), p.network, p.address)
		}
		switch {
		case err == nil:
			bound[p.name] = listener
		case p.required:
			errs = append(errs, fmt.Errorf("binding the %s listener (see %s): %w", p.name, p.settings, err))
		default:
			logger.Error("a listener cannot be bound; serving without it", "listener", p.name, "settings", p.settings, "err", err)
		}
	}
	if errs != nil {
		for _, listener := range bound {
			listener.Close()
		}
	}
	return bound, errors.Join(errs...)
}

// sharePort lets other processes of the same user listen at the address, too, if
// they do the same: the system spreads new connections over them. So one server
// can take the place of another on the same machine, as envoyproxy/ratelimit lets
// it. A port that the system is to choose is not shared.
func sharePort(_, address string, socket syscall.RawConn) error {
	if strings.HasSuffix(address, ":0") {
		return nil
	}
	var refused error
	err := socket.Control(func(fd uintptr) {
		refused = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	return errors.Join(err, refused)
}

// listenUnix binds a unix socket at path, in the place of one that nobody listens at any
// more. It is removed when the listener is closed. A path that begins with @ is a name that
// Linux keeps without a file.
func listenUnix(path string) (net.Listener, error) {
	if most := len(syscall.RawSockaddrUnix{}.Path) - 1; len(path) > most {
		return nil, fmt.Errorf("%s: the path has %d bytes; use at most %d", path, len(path), most)
	}
	if strings.HasPrefix(path, "@") {
		return net.Listen("unix", path)
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o660); err != nil { //nolint:gosec // owner and group connect, which takes the right to write
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// removeStale removes the socket that a process left behind which could not
// clean up, and nothing else.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s exists and is not a socket; it is not replaced", path)
	}
	conn, err := net.Dial("unix", path)
	switch {
	case err == nil:
		conn.Close()
		return fmt.Errorf("%s: another process listens there: %w", path, syscall.EADDRINUSE)
	case !errors.Is(err, syscall.ECONNREFUSED):
		return err
	}
	return os.Remove(path)
}
