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

// binding is an address to bind for a listener.
type binding struct {
	name, settings   string // name of the listener, and the settings of its address
	network, address string
	required         bool // the server cannot start without it
}

// bindings returns the addresses in the settings.
func bindings(s settings.Listen) []binding {
	tcp := string(s.Proto)
	list := []binding{
		{"gRPC", "GRPC_HOST and GRPC_PORT", tcp, s.GRPCPort.On(s.GRPCHost), true},
		{"HTTP", "HOST and PORT", tcp, s.Port.On(s.Host), true},
		{"debug", "DEBUG_HOST and DEBUG_PORT", tcp, s.DebugPort.On(s.DebugHost), false},
	}
	if s.GRPCUDS != "" {
		list[0] = binding{"gRPC", "GRPC_UDS", "unix", s.GRPCUDS, true}
	}
	if s.UsePrometheus != "false" {
		list = append(list, binding{"metrics", "PROMETHEUS_ADDR", tcp, s.PrometheusAddr, false})
	}
	return list
}

// listen binds all addresses and returns the listeners by name. If a required listener cannot be
// bound, it closes all others. The error names each required listener that failed, and its settings.
func listen(s settings.Settings, logger *slog.Logger) (map[string]net.Listener, error) {
	var config net.ListenConfig
	if s.Redis.Main.URL != "" { // servers that count in memory would each admit the full limits
		config.Control = sharePort
	}
	bound := map[string]net.Listener{}
	var errs []error
	for _, b := range bindings(s.Listen) {
		var listener net.Listener
		var err error
		if b.network == "unix" {
			listener, err = listenUnix(b.address)
		} else {
			listener, err = config.Listen(context.Background(), b.network, b.address)
		}
		switch {
		case err == nil:
			bound[b.name] = listener
		case b.required:
			errs = append(errs, fmt.Errorf("binding the %s listener (see %s): %w", b.name, b.settings, err))
		default:
			logger.Error("a listener cannot be bound; serving without it", "listener", b.name, "settings", b.settings, "err", err)
		}
	}
	if errs != nil {
		for _, listener := range bound {
			listener.Close()
		}
	}
	return bound, errors.Join(errs...)
}

// sharePort lets processes of one user share an address if all of them use sharePort. The system spreads new
// connections over them, so that a server can replace another on the same machine, as in
// envoyproxy/ratelimit. Port 0, which lets the system choose, is not shared.
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

// listenUnix binds a Unix socket at path, and replaces a stale socket. Closing the listener removes
// the socket. A path that begins with @ is the name of an abstract socket of Linux, without a file.
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
	if err := os.Chmod(path, 0o660); err != nil { //nolint:gosec // owner and group may connect, which needs the write permission
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// removeStale removes the socket at path. It fails if a process listens there or path is not a socket.
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
