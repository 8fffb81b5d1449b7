package server

import (
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"weir/internal/testenv"
)

// shared takes a port of the system that others may share, until it is released.
func shared(t *testing.T) (addr, port string, release func()) {
	t.Helper()
	config := net.ListenConfig{Control: func(network, _ string, socket syscall.RawConn) error {
		return sharePort(network, "any", socket)
	}}
	listener := testenv.Must(config.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	_, port, _ = net.SplitHostPort(listener.Addr().String())
	return listener.Addr().String(), port, func() { listener.Close() }
}

// TestServersOverlap starts a second server on all addresses of the first, which
// then ends, as an upgrade on one machine does it.
func TestServersOverlap(t *testing.T) {
	args := []string{"--config=" + directory(t, limited(3)), "--redis-url=" + miniredis.RunT(t).Addr()}
	var releases []func()
	for _, flag := range []string{"--grpc-port=", "--port=", "--debug-port="} {
		_, port, release := shared(t)
		args, releases = append(args, flag+port), append(releases, release)
	}
	metrics, _, release := shared(t)
	args, releases = append(args, "--prometheus-addr="+metrics), append(releases, release)

	old, young := start(t, args...), start(t, args...)
	for _, release := range releases {
		release()
	}
	old.wantHealth(true, "OK")
	old.stop()
	testenv.OK(t, old.wantEnd())
	young.wantHealth(true, "OK")
	young.wantLimit(3)
	young.wantAnswer("GET", young.debug.addr(), "/", 200, "Weir v0-test")
	young.wantAnswer("GET", young.metrics.addr(), "/metrics", 200, "ratelimit_service_total_requests")
}

// TestServersThatCountAloneDoNotOverlap starts a second server without Redis on an
// address of the first, with which it would share no counter.
func TestServersThatCountAloneDoNotOverlap(t *testing.T) {
	for flag, settings := range map[string]string{"--grpc-port=": "GRPC_HOST and GRPC_PORT", "--port=": "HOST and PORT"} {
		addr := testenv.OwnAddr(t)
		_, port, _ := net.SplitHostPort(addr)
		args := []string{"--config=" + directory(t, limited(3)), flag + port}
		f := start(t, args...)
		f.wantLimit(3)
		second, err := New(options(t, io.Discard, args...))
		if err == nil {
			t.Errorf("two servers share %s", addr)
			_ = second.stop()
			continue
		}
		for _, want := range []string{"(see " + settings + ")", addr, "address already in use"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the error %v does not name %s", err, want)
			}
		}
	}
}
