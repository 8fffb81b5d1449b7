package testenv

import (
	"net"
	"testing"

	"google.golang.org/grpc"
)

// ServeGRPC runs a server on a free port until the test ends, and returns its address
// as host:port.
func ServeGRPC(t testing.TB, server *grpc.Server) string {
	t.Helper()
	listener := Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}
