package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"weir/internal/settings"
	"weir/internal/testenv"
)

// TestSpecialValues has a row for each setting whose help gives 0, or no value, a special meaning:
// a test of that meaning, or nil and the name of another test.
func TestSpecialValues(t *testing.T) {
	// watched returns the duration and the error of a call of Watch on a server with flags. ctx bounds the call.
	watched := func(ctx context.Context, t *testing.T, args ...string) (time.Duration, codes.Code) {
		f, began := start(t, append(args, "--config="+directory(t, limited(3)))...), time.Now()
		watch := testenv.Must(grpc_health_v1.NewHealthClient(f.conn).Watch(ctx, &grpc_health_v1.HealthCheckRequest{}))(t)
		for {
			if _, err := watch.Recv(); err != nil {
				return time.Since(began), status.Code(err)
			}
		}
	}
	// outlasts checks that a call lasts longer than with other flags.
	outlasts := func(t *testing.T, args, others []string) {
		short, _ := watched(t.Context(), t, others...)
		ctx, cancel := context.WithTimeout(t.Context(), short+500*time.Millisecond)
		defer cancel()
		if long, code := watched(ctx, t, args...); code != codes.DeadlineExceeded {
			t.Errorf("a call with %v ends after %v with %v, with %v after %v", args, long, code, others, short)
		}
	}
	// plane starts a control plane with a certificate for names, issued by authority.
	plane := func(t *testing.T, authority *testenv.Authority, names ...string) []string {
		pair := testenv.Must(credentialsOf(authority.Issue(t, names...)))(t)
		p := testenv.StartControlPlane(t, grpc.Creds(pair))
		p.Set("1", sent("x", 3))
		return fromControlPlane(p, "--config-grpc-xds-server-use-tls")
	}
	authority := testenv.NewAuthority(t)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	write(t, ca, string(authority.PEM()))

	rows := map[string]func(*testing.T){
		"CONFIG_PATH": nil, "RUNTIME_ROOT": nil, "DEBUG_HOST": nil, // TestSettings
		"REDIS_SOCKET_TYPE":           nil, // TestAddresses
		"GRPC_MAX_CONCURRENT_STREAMS": nil, // TestStreamsOfAConnection
		"REDIS_POOL_SIZE":             nil, // TestRedisCluster
		"REDIS_TLS_CACERT":            nil, // TestRedisTLS
		"REDIS_URL":                   nil, // TestServes
		"USE_PROMETHEUS":              nil, // TestListenersToDoWithout

		"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT": nil, // TestChargeAsSet
		"EVENTS_URL": func(t *testing.T) {
			if o := options(t, io.Discard); openEvents(o, nil, nil, nil) != nil {
				t.Error("events are sent")
			}
		},
		"GRPC_MAX_CONNECTION_AGE": func(t *testing.T) {
			outlasts(t, []string{"--grpc-max-connection-age=0s", "--grpc-max-connection-age-grace=50ms"}, []string{"--grpc-max-connection-age=50ms", "--grpc-max-connection-age-grace=50ms"})
		},
		"GRPC_MAX_CONNECTION_AGE_GRACE": func(t *testing.T) {
			outlasts(t, []string{"--grpc-max-connection-age=50ms", "--grpc-max-connection-age-grace=0s"}, []string{"--grpc-max-connection-age=50ms", "--grpc-max-connection-age-grace=50ms"})
		},
		"CONFIG_GRPC_XDS_SERVER_TLS_CACERT": func(t *testing.T) {
			start(t, plane(t, authority, "127.0.0.1")...).wantLog("certificate signed by unknown authority")
		},
		"CONFIG_GRPC_XDS_SERVER_TLS_SAN": func(t *testing.T) {
			start(t, append(plane(t, authority, "plane.example"), "--config-grpc-xds-server-tls-cacert="+ca)...).wantLog("cannot validate certificate for 127.0.0.1")
			start(t, append(plane(t, authority, "127.0.0.1"), "--config-grpc-xds-server-tls-cacert="+ca)...).wantLimit(3)
		},
		"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES": func(t *testing.T) {
			p := testenv.StartControlPlane(t)
			p.Set("1", sent(strings.Repeat("x", 4<<20-1000), 3))
			start(t, fromControlPlane(p, "--xds-client-max-msg-size-in-bytes=0")...).wantLimit(3)
			p.Set("2", sent(strings.Repeat("x", 4<<20), 3))
			start(t, fromControlPlane(p, "--xds-client-max-msg-size-in-bytes=0")...).wantLog("at most 4194304 bytes at once")
		},
		"MAX_CONCURRENT_REQUESTS": func(t *testing.T) {
			onRedis, asked, release := heldRedis(t)
			f := start(t, append(onRedis, "--config="+directory(t, limited(1000)), "--max-concurrent-requests=0")...)
			f.wantHealth(true, "OK")
			var running sync.WaitGroup
			for range 300 {
				running.Go(func() {
					if _, err := f.ask(context.Background(), "alice"); err != nil {
						t.Error(err)
					}
				})
			}
			<-asked
			close(release)
			running.Wait()
		},
		"REQUEST_TIMEOUT": func(t *testing.T) {
			t.Setenv("REQUEST_TIMEOUT", "0s")
			start(t, "--config="+directory(t, limited(3))).wantLimit(3)
		},
		"USE_STATSD": func(t *testing.T) {
			tcp := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t).(*net.TCPListener)
			defer tcp.Close()
			udp := testenv.Must(net.ListenPacket("udp", tcp.Addr().String()))(t)
			defer udp.Close()
			testenv.OK(t, udp.SetDeadline(time.Now().Add(patience)))
			args := []string{"--config=" + directory(t, limited(3)), fmt.Sprint("--statsd-port=", tcp.Addr().(*net.TCPAddr).Port), "--statsd-host=127.0.0.1", "--stats-flush-interval=10ms"}
			f := start(t, append(args, "--use-dog-statsd")...)
			for range 3 {
				testenv.Must(f.ask(t.Context(), "alice"))(t)
				if _, _, err := udp.ReadFrom(make([]byte, 1<<16)); err != nil {
					t.Fatal(err)
				}
			}
			testenv.OK(t, tcp.SetDeadline(time.Now()))
			if _, err := tcp.Accept(); err == nil {
				t.Error("statsd gets metrics, too")
			}
			testenv.OK(t, tcp.SetDeadline(time.Now().Add(patience)))
			start(t, args...)
			testenv.Must(tcp.Accept())(t).Close()
		},
		"TRACING_SERVICE_INSTANCE_ID": func(t *testing.T) {
			one := testenv.Must(openExporters(fromEnvironment(t).Tracing, false))(t).service.String()
			if id := regexp.MustCompile(`service.instance.id=[0-9a-f-]{36}`).FindString(one); id == "" || strings.Contains(testenv.Must(openExporters(fromEnvironment(t).Tracing, false))(t).service.String(), id) {
				t.Errorf("%s has no ID of its own", one)
			}
		},
	}
	for _, flag := range kong.Must(&struct{ settings.Settings }{}, kong.NoDefaultHelp()).Model.Flags {
		if len(flag.Envs) == 0 || !regexp.MustCompile(`(?i)(^|[ .(])(0|unset|none): `).MatchString(flag.Help) || strings.HasPrefix(flag.Envs[0], "REDIS_PERSECOND_") { // like REDIS_...
			continue
		}
		t.Run(flag.Envs[0], func(t *testing.T) {
			if row, found := rows[flag.Envs[0]]; !found {
				t.Errorf("no test says what is meant by: %s", flag.Help)
			} else if row != nil {
				row(t)
			}
		})
	}
}

// credentialsOf returns the credentials of a server with this certificate and key.
func credentialsOf(certificate, key []byte) (credentials.TransportCredentials, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	return credentials.NewServerTLSFromCert(&pair), err
}
