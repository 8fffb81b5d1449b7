package server

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"

	"weir/internal/testenv"
)

// TestUnixSockets binds existing and new paths. Only a socket that a killed process left behind is
// replaced. A name that begins with @ is not a file.
func TestUnixSockets(t *testing.T) {
	t.Chdir(t.TempDir())
	abstract := fmt.Sprintf("@weir-%d", time.Now().UnixNano())
	write(t, "file", "precious")
	write(t, abstract, "precious")
	stale := testenv.Must(net.ListenUnix("unix", &net.UnixAddr{Name: "stale", Net: "unix"}))(t)
	stale.SetUnlinkOnClose(false)
	stale.Close()
	testenv.OK(t, os.Symlink("stale", "link"))
	live := testenv.Must(net.Listen("unix", "live"))(t)
	defer live.Close()
	for path, want := range map[string]string{
		"file": "file exists and is not a socket; it is not replaced", ".": " exists and is not a socket", "link": "link exists and is not a socket",
		"live": "live: another process listens there: address already in use", "no/such": "no such file or directory",
		strings.Repeat("x", 108): "bytes; use at most 107",
	} {
		if _, err := listenUnix(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
	for _, path := range []string{"stale", "new", abstract} {
		listener := testenv.Must(listenUnix(path))(t)
		testenv.Must(net.Dial("unix", path))(t).Close()
		if info, err := os.Stat(path); path != abstract && (err != nil || info.Mode() != fs.ModeSocket|0o660) {
			t.Errorf("%s is %v, error %v", path, info.Mode(), err)
		}
		listener.Close()
		if _, err := os.Lstat(path); path != abstract && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left behind (%v)", path, err)
		}
	}
	for _, path := range []string{"file", abstract} {
		if content, err := os.ReadFile(path); string(content) != "precious" {
			t.Errorf("%s holds %q (%v)", path, content, err)
		}
	}
}

func TestAllAddresses(t *testing.T) {
	listener, err := net.Listen("tcp6", "[::1]:0")
	ipv6 := err == nil // without IPv6, IPv4 is enough
	if ipv6 {
		listener.Close()
	}
	for _, test := range []struct{ proto, host, v4, v6 string }{
		{"tcp", "::", "127.0.0.1", "::1"},
		{"tcp", "0.0.0.0", "127.0.0.1", "::1"},
		{"tcp4", "0.0.0.0", "127.0.0.1", ""},
		{"tcp6", "::", "", "::1"},
	} {
		if test.proto == "tcp6" && !ipv6 {
			continue
		}
		t.Run(test.proto+" "+test.host, func(t *testing.T) {
			f := start(t, "--config="+directory(t, limited(3)), "--proto="+test.proto, "--host="+test.host,
				"--grpc-host=", "--debug-host=", "--prometheus-addr=:0")
			at, port, err := net.SplitHostPort(f.HTTPAddr())
			if err != nil || at == "::" != (ipv6 && test.v6 != "") {
				t.Fatalf("listens at %s, error %v", at, err)
			}
			for _, host := range []string{test.v4, test.v6} {
				if host == "" || host == "::1" && !ipv6 {
					continue
				}
				if code, _, err := f.request("GET", net.JoinHostPort(host, port), "/healthcheck", ""); err != nil || code != 200 {
					t.Errorf("at %s: status %d, error %v, want an answer", host, code, err)
				}
			}
		})
	}
}

// TestReflection lists the services on a stream that ends with the server.
func TestReflection(t *testing.T) {
	f := start(t, "--config="+directory(t, limited(3)))
	stream := testenv.Must(reflectionpb.NewServerReflectionClient(f.conn).ServerReflectionInfo(t.Context()))(t)
	testenv.OK(t, stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}))
	list := testenv.Must(stream.Recv())(t)
	var got []string
	for _, service := range list.GetListServicesResponse().GetService() {
		got = append(got, service.Name)
	}
	if want := []string{"envoy.service.rate_limit_quota.v3.RateLimitQuotaService", "envoy.service.ratelimit.v3.RateLimitService", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	f.stop()
	testenv.OK(t, f.wantEnd())
}

// TestListenersToDoWithout starts while the operators' listeners are turned off or their addresses are taken.
func TestListenersToDoWithout(t *testing.T) {
	taken := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t) // without sharing
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	const lost = `msg="a listener cannot be bound; serving without it" listener=`
	for _, test := range []struct {
		name           string
		args           []string
		debug, metrics bool // whether the listener is bound
		logged         string
	}{
		{"all there", nil, true, true, ""},
		{"debug taken", []string{"--debug-port=" + port}, false, true, "level=ERROR " + lost + `debug settings="DEBUG_HOST and DEBUG_PORT" err="listen tcp ` + taken.Addr().String()},
		{"metrics taken", []string{"--prometheus-addr=127.0.0.1:" + port}, true, false, "level=ERROR " + lost + "metrics settings=PROMETHEUS_ADDR"},
		{"wanted metrics taken", []string{"--use-prometheus=true", "--prometheus-addr=127.0.0.1:" + port}, true, false, "level=ERROR " + lost + "metrics settings=PROMETHEUS_ADDR"},
		{"metrics wanted", []string{"--use-prometheus=true"}, true, true, ""},
		{"no metrics wanted", []string{"--use-prometheus=false", "--prometheus-addr=127.0.0.1:" + port}, true, false, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := start(t, append(test.args, "--config="+directory(t, limited(3)))...)
			f.wantHealth(true, "OK")
			f.wantLimit(3)
			for addr, there := range map[string]bool{f.debug.addr() + "/stats": test.debug, f.metrics.addr() + "/metrics": test.metrics} {
				if there {
					f.wantAnswer("GET", addr, "", 200, "ratelimit_service_total_requests")
				} else if !strings.HasPrefix(addr, "none/") {
					t.Errorf("there is somebody at %s", addr)
				}
			}
			if log := f.log.String(); !strings.Contains(log, test.logged) || test.logged == "" && strings.Contains(log, lost) {
				t.Errorf("want %q in the log\n%s", test.logged, log)
			}
			f.stop()
			testenv.OK(t, f.wantEnd())
		})
	}
}

// TestListenersAreWhereTheSettingsSay sets an address for each listener.
func TestListenersAreWhereTheSettingsSay(t *testing.T) {
	for variable, value := range map[string]string{
		"HOST": "127.0.0.2", "PORT": "1", "GRPC_HOST": "127.0.0.3", "GRPC_PORT": "2",
		"DEBUG_HOST": "127.0.0.4", "DEBUG_PORT": "3", "PROMETHEUS_ADDR": "127.0.0.5:4", "PROTO": "tcp4",
	} {
		t.Setenv(variable, value)
	}
	var got []string
	for _, p := range bindings(fromEnvironment(t).Listen) {
		got = append(got, p.name+" "+p.network+" "+p.address)
	}
	want := []string{"gRPC tcp4 127.0.0.3:2", "HTTP tcp4 127.0.0.2:1", "debug tcp4 127.0.0.4:3", "metrics tcp4 127.0.0.5:4"}
	testenv.EqualLists(t, got, want, "names and addresses")
	t.Setenv("GRPC_UDS", "/run/weir.sock")
	if p := bindings(fromEnvironment(t).Listen)[0]; p.network != "unix" || p.address != "/run/weir.sock" {
		t.Errorf("with a socket gRPC is at %s %s", p.network, p.address)
	}
}

// TestServersOverlap starts a second server on all addresses of the first and stops the first, as in
// an upgrade on one machine.
func TestServersOverlap(t *testing.T) {
	args := []string{"--config=" + directory(t, limited(3)), "--redis-url=" + miniredis.RunT(t).Addr()}
	config := net.ListenConfig{Control: func(network, _ string, socket syscall.RawConn) error {
		return sharePort(network, "any", socket)
	}}
	var held []net.Listener // reserves the ports until both servers listen
	for _, flag := range []string{"--grpc-port=", "--port=", "--debug-port=", "--prometheus-addr=127.0.0.1:"} {
		listener := testenv.Must(config.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		args, held = append(args, flag+port), append(held, listener)
	}
	old, young := start(t, args...), start(t, args...)
	for _, listener := range held {
		listener.Close()
	}
	old.wantHealth(true, "OK")
	old.stop()
	testenv.OK(t, old.wantEnd())
	young.wantHealth(true, "OK")
	young.wantLimit(3)
	young.wantAnswer("GET", young.debug.addr(), "/", 200, "Weir v0-test")
	young.wantAnswer("GET", young.metrics.addr(), "/metrics", 200, "ratelimit_service_total_requests")
}

// TestServersThatCountAloneDoNotOverlap starts a second server without Redis on an address of the
// first. The two would not share counters.
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
			_ = second.life.stop(patience)
			continue
		}
		testenv.Contains(t, err.Error(), "(see "+settings+")", addr, "address already in use")
	}
}
