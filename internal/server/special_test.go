package server

import (
	"context"
	"crypto/tls"
	"io"
	"path/filepath"
	"regexp"
	"strings"
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
	// watched returns the duration and the error of a call of Watch on a server with flags. The call lasts at most most.
	watched := func(t *testing.T, most time.Duration, args ...string) (time.Duration, codes.Code) {
		f, began := start(t, append(args, "--config="+directory(t, limited(3)))...), time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), most)
		defer cancel()
		watch := testenv.Must(grpc_health_v1.NewHealthClient(f.conn).Watch(ctx, &grpc_health_v1.HealthCheckRequest{}))(t)
		for {
			if _, err := watch.Recv(); err != nil {
				return time.Since(began), status.Code(err)
			}
		}
	}
	// outlasts checks that a call lasts longer than with an age and a grace.
	outlasts := func(t *testing.T, args ...string) {
		short, code := watched(t, patience, "--grpc-max-connection-age=50ms", "--grpc-max-connection-age-grace=50ms")
		testenv.Equal(t, code, codes.Unavailable, "code of a call after the grace")
		if long, code := watched(t, short+500*time.Millisecond, args...); code != codes.DeadlineExceeded {
			t.Errorf("a call with %v ends after %v with %v, otherwise after %v", args, long, code, short)
		}
	}
	// plane starts a control plane with a certificate for names, issued by authority.
	plane := func(t *testing.T, authority *testenv.Authority, names ...string) []string {
		pair := testenv.Must(tls.X509KeyPair(authority.Issue(t, names...)))(t)
		p := testenv.StartControlPlane(t, grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
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
		"MAX_CONCURRENT_REQUESTS":     nil, // TestBoundOfConcurrentRequests
		"REDIS_POOL_SIZE":             nil, // TestRedisCluster
		"REDIS_TLS_CACERT":            nil, // TestRedisTLS
		"REDIS_URL":                   nil, // TestServes
		"USE_PROMETHEUS":              nil, // TestListenersToDoWithout
		"USE_STATSD":                  nil, // TestStatsd

		"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT": nil, // TestChargeAsSet
		"EVENTS_URL": func(t *testing.T) {
			if o := options(t, io.Discard); openEvents(o, nil, nil, nil) != nil {
				t.Error("events are sent")
			}
		},
		"GRPC_MAX_CONNECTION_AGE": func(t *testing.T) {
			outlasts(t, "--grpc-max-connection-age=0s", "--grpc-max-connection-age-grace=50ms")
		},
		"GRPC_MAX_CONNECTION_AGE_GRACE": func(t *testing.T) {
			outlasts(t, "--grpc-max-connection-age=50ms", "--grpc-max-connection-age-grace=0s")
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
		"REQUEST_TIMEOUT": func(t *testing.T) {
			t.Setenv("REQUEST_TIMEOUT", "0s")
			start(t, "--config="+directory(t, limited(3))).wantLimit(3)
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
