package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"weir/internal/testenv"
)

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.sock")
	f := start(t, "--config="+directory(t, limited(3)), "--grpc-uds="+path, "--grpc-port=1")
	if f.grpc.addr() != "unix:"+path {
		t.Errorf("gRPC is at %s", f.grpc.addr())
	}
	f.wantLimit(3)
	info := testenv.Must(os.Stat(path))(t)
	if want := fs.ModeSocket | 0o660; info.Mode() != want {
		t.Errorf("the socket has mode %v, want %v", info.Mode(), want)
	}
	f.stop()
	if err := f.wantEnd(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is left behind (%v)", err)
	}
}

// stale makes a unix socket that nobody listens at, as a killed process leaves it.
func stale(t *testing.T, path string) {
	t.Helper()
	listener := testenv.Must(net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}))(t)
	listener.SetUnlinkOnClose(false)
	listener.Close()
}

func TestStaleUnixSocketIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.sock")
	stale(t, path)
	start(t, "--config="+directory(t, limited(3)), "--grpc-uds="+path).wantLimit(3)
}

func TestUnixSocketThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("file"), "precious")
	stale(t, at("stale"))
	testenv.OK(t, os.Symlink("stale", at("link")))
	live := testenv.Must(net.Listen("unix", at("live")))(t)
	defer live.Close()
	for _, test := range []struct{ name, path, want string }{
		{"a file", at("file"), "file exists and is not a socket; it is not replaced"},
		{"a directory", dir, " exists and is not a socket"},
		{"a link", at("link"), "link exists and is not a socket"},
		{"a live socket", at("live"), "live: another process listens there: address already in use"},
		{"no directory", at("no/such"), "no such file or directory"},
		{"a long path", at(strings.Repeat("x", 108)), "bytes; use at most 107"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := New(options(t, io.Discard, "--config="+directory(t, limited(3)), "--grpc-uds="+test.path))
			if err == nil || !strings.Contains(err.Error(), "binding the gRPC listener (see GRPC_UDS): ") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
	if content, err := os.ReadFile(at("file")); string(content) != "precious" {
		t.Errorf("the file holds %q (%v)", content, err)
	}
	if conn, err := net.Dial("unix", at("live")); err != nil {
		t.Errorf("nobody listens at the live socket any more: %v", err)
	} else {
		conn.Close()
	}
}

func TestAddressesThatDoNotFit(t *testing.T) {
	_, err := New(options(t, io.Discard, "--config="+directory(t, limited(3)), "--proto=tcp4", "--host=::1"))
	if err == nil || !strings.Contains(err.Error(), "see HOST and PORT") || !strings.Contains(err.Error(), "tcp4") {
		t.Errorf("got %v", err)
	}
}

func TestAllAddresses(t *testing.T) {
	const loopback4, loopback6 = "127.0.0.1", "::1"
	listener, err := net.Listen("tcp6", net.JoinHostPort(loopback6, "0"))
	ipv6 := err == nil // where there is none, IPv4 must do
	if ipv6 {
		listener.Close()
	}
	for _, test := range []struct {
		proto, host string
		v4, v6      bool
	}{
		{"tcp", "::", true, ipv6},
		{"tcp", "0.0.0.0", true, ipv6},
		{"tcp4", "0.0.0.0", true, false},
		{"tcp6", "::", false, true},
	} {
		if test.proto == "tcp6" && !ipv6 {
			continue
		}
		t.Run(test.proto+" "+test.host, func(t *testing.T) {
			port := "0"
			for host, want := range map[string]bool{loopback4: test.v4, loopback6: test.v6} {
				if want || host == loopback6 && !ipv6 {
					continue
				}
				// The test holds the port at this address. A server that listened there, too, could not start.
				var held net.Listener
				for held == nil {
					free := testenv.Must(net.Listen(test.proto, net.JoinHostPort(test.host, "0")))(t)
					_, port, _ = net.SplitHostPort(free.Addr().String())
					held, _ = net.Listen("tcp", net.JoinHostPort(host, port)) // unless somebody else does
					free.Close()
				}
				defer held.Close()
			}
			f := start(t, "--config="+directory(t, limited(3)), "--proto="+test.proto, "--host="+test.host, "--port="+port,
				"--grpc-host=", "--debug-host=", "--prometheus-addr=:0")
			_, port, err := net.SplitHostPort(f.HTTPAddr())
			if err != nil {
				t.Fatal(err)
			}
			for host, want := range map[string]bool{loopback4: test.v4, loopback6: test.v6} {
				if !want {
					continue
				}
				if code, _, err := f.request("GET", net.JoinHostPort(host, port), "/healthcheck", ""); err != nil || code != 200 {
					t.Errorf("at %s: status %d, error %v, want an answer", host, code, err)
				}
			}
		})
	}
}

func TestTLSFilesAreNamed(t *testing.T) {
	authority, other := testenv.NewAuthority(t), testenv.NewAuthority(t)
	certificate, key := authority.Issue(t, "localhost")
	_, otherKey := other.Issue(t, "localhost")
	dir := t.TempDir()
	for name, content := range map[string][]byte{"crt": certificate, "key": key, "other": otherKey, "ca": authority.PEM()} {
		write(t, filepath.Join(dir, name), string(content))
	}
	for _, test := range []struct{ name, cert, key, ca, want string }{
		{"no certificate", "none", "key", "ca", "open " + dir + "/none: no such file"},
		{"no key", "crt", "none", "ca", "open " + dir + "/none: no such file"},
		{"another key", "crt", "other", "ca", "certificate " + dir + "/crt with key " + dir + "/other: tls: private key does not match public key"},
		{"no authority", "crt", "key", "key", "authorities " + dir + "/key: no PEM certificate"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := New(options(t, io.Discard, "--config="+directory(t, limited(3)), "--grpc-server-use-tls",
				"--grpc-server-tls-cert="+dir+"/"+test.cert, "--grpc-server-tls-key="+dir+"/"+test.key, "--grpc-client-tls-cacert="+dir+"/"+test.ca))
			for _, want := range []string{"TLS of the gRPC listener", "GRPC_SERVER_TLS_CERT", test.want} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %s", err, want)
				}
			}
			if err != nil && bytes.Contains([]byte(err.Error()), otherKey[30:60]) {
				t.Errorf("the error shows a key: %v", err)
			}
		})
	}
}

// describe asks reflection for the names of the services, and for the methods
// of the one of Envoy.
func describe(ctx context.Context, conn *grpc.ClientConn) (services, methods []string, err error) {
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		return nil, nil, err
	}
	ask := func(request *reflectionpb.ServerReflectionRequest) (*reflectionpb.ServerReflectionResponse, error) {
		if err := stream.Send(request); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		return stream.Recv()
	}
	list, err := ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
	if err != nil {
		return nil, nil, err
	}
	for _, service := range list.GetListServicesResponse().GetService() {
		services = append(services, service.Name)
	}
	const service = "envoy.service.ratelimit.v3.RateLimitService"
	found, err := ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service}})
	if err != nil {
		return nil, nil, err
	}
	for _, encoded := range found.GetFileDescriptorResponse().GetFileDescriptorProto() {
		var file descriptorpb.FileDescriptorProto
		if err := proto.Unmarshal(encoded, &file); err != nil {
			return nil, nil, err
		}
		for _, s := range file.Service {
			for _, method := range s.Method {
				methods = append(methods, s.GetName()+"."+method.GetName())
			}
		}
	}
	return services, methods, nil
}

func TestReflection(t *testing.T) {
	f := start(t, "--config="+directory(t, limited(3)))
	services, methods, err := describe(t.Context(), f.conn)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(services, methods)
	want := "[envoy.service.ratelimit.v3.RateLimitService grpc.health.v1.Health grpc.reflection.v1.ServerReflection grpc.reflection.v1alpha.ServerReflection] [RateLimitService.ShouldRateLimit]"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	f.stop() // the stream is still open
	if err := f.wantEnd(); err != nil {
		t.Error(err)
	}
}

// TestTLSOnUnixSocket sets both, which are then used together.
func TestTLSOnUnixSocket(t *testing.T) {
	authority := testenv.NewAuthority(t)
	certificate, key := authority.Issue(t, "localhost")
	dir := t.TempDir()
	write(t, dir+"/crt", string(certificate))
	write(t, dir+"/key", string(key))
	f := start(t, "--config="+directory(t, limited(3)), "--grpc-uds="+dir+"/sock",
		"--grpc-server-use-tls", "--grpc-server-tls-cert="+dir+"/crt", "--grpc-server-tls-key="+dir+"/key")
	if _, err := f.ask(t.Context(), "alice"); status.Code(err) != codes.Unavailable {
		t.Errorf("without TLS: %v", err)
	}
	write(t, dir+"/ca", string(authority.PEM()))
	transport := testenv.Must(credentials.NewClientTLSFromFile(dir+"/ca", "localhost"))(t)
	f.conn.Close()
	f.conn = testenv.Must(grpc.NewClient(f.grpc.addr(), grpc.WithTransportCredentials(transport)))(t)
	f.wantLimit(3)
}

// TestListenersToDoWithout takes the addresses that only operators look at, or
// asks for none.
func TestListenersToDoWithout(t *testing.T) {
	taken := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t) // by a program that does not share
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	const lost = `msg="a listener cannot be bound; serving without it" listener=`
	for _, test := range []struct {
		name           string
		args           []string
		debug, metrics bool // are there
		logged         string
	}{
		{"all there", nil, true, true, ""},
		{"debug taken", []string{"--debug-port=" + port}, false, true, "level=ERROR " + lost + `debug settings="DEBUG_HOST and DEBUG_PORT" err="listen tcp ` + taken.Addr().String()},
		{"metrics taken", []string{"--prometheus-addr=127.0.0.1:" + port}, true, false, "level=WARN " + lost + "metrics settings=PROMETHEUS_ADDR"},
		{"wanted metrics taken", []string{"--use-prometheus=true", "--prometheus-addr=127.0.0.1:" + port}, true, false, "level=ERROR " + lost + "metrics settings=PROMETHEUS_ADDR"},
		{"metrics wanted", []string{"--use-prometheus=true"}, true, true, ""},
		{"no metrics wanted", []string{"--use-prometheus=false", "--prometheus-addr=127.0.0.1:" + port}, true, false, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := start(t, append(test.args, "--config="+directory(t, limited(3)))...)
			f.wantHealth(true, "OK")
			f.wantLimit(3)
			for addr, there := range map[string]bool{f.debug.addr(): test.debug, f.metrics.addr(): test.metrics} {
				if (addr != "none") != there {
					t.Errorf("debug is at %s, metrics are at %s", f.debug.addr(), f.metrics.addr())
				}
			}
			if test.debug {
				f.wantAnswer("GET", f.debug.addr(), "/stats", 200, "ratelimit_service_total_requests")
			}
			if test.metrics {
				f.wantAnswer("GET", f.metrics.addr(), "/metrics", 200, "ratelimit_service_total_requests")
			}
			if log := f.log.String(); !strings.Contains(log, test.logged) || test.logged == "" && strings.Contains(log, lost) {
				t.Errorf("want %q in the log\n%s", test.logged, log)
			}
			f.stop()
			if err := f.wantEnd(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestListenersAreWhereTheSettingsSay gives each an address of its own.
func TestListenersAreWhereTheSettingsSay(t *testing.T) {
	for variable, value := range map[string]string{
		"HOST": "127.0.0.2", "PORT": "1", "GRPC_HOST": "127.0.0.3", "GRPC_PORT": "2",
		"DEBUG_HOST": "127.0.0.4", "DEBUG_PORT": "3", "PROMETHEUS_ADDR": "127.0.0.5:4", "PROTO": "tcp4",
	} {
		t.Setenv(variable, value)
	}
	type at struct{ name, network, address string }
	var got []at
	for _, p := range places(fromEnvironment(t).Listen) {
		got = append(got, at{p.name, p.network, p.address})
	}
	want := []at{
		{"gRPC", "tcp4", "127.0.0.3:2"}, {"HTTP", "tcp4", "127.0.0.2:1"},
		{"debug", "tcp4", "127.0.0.4:3"}, {"metrics", "tcp4", "127.0.0.5:4"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	t.Setenv("GRPC_UDS", "/run/weir.sock")
	if p := places(fromEnvironment(t).Listen)[0]; p.network != "unix" || p.address != "/run/weir.sock" {
		t.Errorf("with a socket gRPC is at %s %s", p.network, p.address)
	}
}
