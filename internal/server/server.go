package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"google.golang.org/grpc"

	"weir/internal/server/admin"
)

// server is something that serves a listener until it is stopped.
type server struct {
	name     string
	listener net.Listener
	serve    func(net.Listener) error
	// stop refuses new connections and lets requests in flight finish until ctx
	// ends.
	stop func(ctx context.Context) error
}

// run serves until the server is stopped, and returns what went wrong before.
func (s *server) run() error {
	err := s.serve(s.listener)
	if err == nil || errors.Is(err, http.ErrServerClosed) || errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return fmt.Errorf("serving %s: %w", s.name, err)
}

// addr is where the server listens, host:port or unix:path. There may be none.
func (s *server) addr() string {
	if s == nil {
		return "none"
	}
	addr := s.listener.Addr()
	if addr.Network() == "unix" {
		return "unix:" + addr.String()
	}
	return addr.String()
}

// close stops the server and frees its address, whether or not it ever served.
func (s *server) close(ctx context.Context) error {
	err := s.stop(ctx)
	_ = s.listener.Close() // a server that served has closed it
	return err
}

// How many connections are open at a time. That of HTTP is for clients without gRPC.
const debugConnections, metricsConnections, serviceConnections = 256, 64, 4096

func httpServer(name string, listener net.Listener, handler http.Handler, maxConnections int, logger *slog.Logger) *server {
	s := admin.NewServer(handler, maxConnections, logger)
	stop := func(ctx context.Context) error {
		if err := s.Shutdown(ctx); err != nil {
			return errors.Join(fmt.Errorf("requests cut off: %w", err), s.Close())
		}
		return nil
	}
	return &server{name, listener, s.Serve, stop}
}
