package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/grpc/test/bufconn"

	"weir/internal/rlqs"
	"weir/internal/rls"
	"weir/internal/settings"
	"weir/internal/testenv"
)

// TestBoundOfConcurrentRequests sends many requests while Redis does not answer. 0 is no bound.
func TestBoundOfConcurrentRequests(t *testing.T) {
	const requests = 300
	for value, refused := range map[string]int{"1": requests - 1, "0": 0} {
		t.Run(value, func(t *testing.T) {
			t.Setenv("MAX_CONCURRENT_REQUESTS", value)
			onRedis, asked, release := heldRedis(t)
			f := start(t, append(onRedis, "--config="+directory(t, limited(1000)))...)
			f.wantHealth(true, "OK")
			answers := make(chan codes.Code, requests)
			for range requests {
				go func() {
					_, err := f.ask(context.Background(), "alice")
					answers <- status.Code(err)
				}()
			}
			<-asked // Redis has a request but does not answer
			for range refused {
				testenv.Equal(t, <-answers, codes.ResourceExhausted, "a second request at a time")
			}
			close(release)
			for range requests - refused {
				testenv.Equal(t, <-answers, codes.OK, "a request within the bound")
			}
		})
	}
}

// TestBoundOfTheDuration sends a request while Redis does not answer.
func TestBoundOfTheDuration(t *testing.T) {
	t.Setenv("REQUEST_TIMEOUT", "50ms")
	onRedis, _, release := heldRedis(t)
	defer close(release)
	f := start(t, append(onRedis, "--config="+directory(t, limited(3)))...)
	f.wantHealth(true, "OK")
	began := time.Now()
	testenv.Becomes(t, "without an answer of Redis", codes.Unavailable, func() codes.Code { // a busy machine may miss such a short timeout
		_, err := f.ask(t.Context(), "alice")
		return status.Code(err)
	})
	if took := time.Since(began); took > heldPatience/2 {
		t.Errorf("it took %v", took)
	}
}

// TestStreamsOfAConnection reads the HTTP/2 settings that the server sends to clients.
func TestStreamsOfAConnection(t *testing.T) {
	for value, want := range map[string]uint32{"": 200, "0": 0, "1": 1} {
		t.Run(value, func(t *testing.T) {
			t.Setenv("GRPC_MAX_CONCURRENT_STREAMS", value)
			f := start(t, "--config="+directory(t, limited(3)))
			testenv.Must(f.ask(t.Context(), "alice"))(t)
			testenv.Equal(t, streamsSetting(t, f.grpc.addr()), want, "SETTINGS_MAX_CONCURRENT_STREAMS")
			if value != "1" {
				return
			}
			watch := testenv.Must(grpc_health_v1.NewHealthClient(f.conn).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{}))(t)
			testenv.Must(watch.Recv())(t)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err := f.ask(ctx, "alice")
			testenv.Equal(t, status.Code(err), codes.DeadlineExceeded, "a second call at a time, which waits")
		})
	}
}

// streamsSetting returns SETTINGS_MAX_CONCURRENT_STREAMS of a server, or 0 if it is not set.
func streamsSetting(t *testing.T, addr string) uint32 {
	t.Helper()
	frame := testenv.Must(greet(t, addr).ReadFrame())(t)
	streams, _ := frame.(*http2.SettingsFrame).Value(http2.SettingMaxConcurrentStreams)
	return streams
}

// TestPings pings as often as Envoy may, without requests. By default, gRPC closes such a connection.
func TestPings(t *testing.T) {
	t.Parallel()
	f := start(t, "--config="+directory(t, limited(3)))
	conn := greet(t, f.grpc.addr())
	for n := range byte(5) { // by default gRPC closes after four
		if n > 0 {
			testenv.Pass(1100 * time.Millisecond) // more than the second that the server requires between pings
		}
		testenv.OK(t, conn.WritePing(false, [8]byte{n}))
		for answered := false; !answered; {
			ping, ok := testenv.Must(conn.ReadFrame())(t).(*http2.PingFrame)
			answered = ok && ping.IsAck() && ping.Data == [8]byte{n}
		}
	}
}

// greet opens an HTTP/2 connection with the preface and empty SETTINGS.
func greet(t *testing.T, addr string) *http2.Framer {
	t.Helper()
	conn := testenv.Must(net.Dial("tcp", addr))(t)
	t.Cleanup(func() { conn.Close() })
	testenv.OK(t, conn.SetDeadline(time.Now().Add(patience)))
	testenv.Must(io.WriteString(conn, http2.ClientPreface))(t)
	framer := http2.NewFramer(conn, conn)
	testenv.OK(t, framer.WriteSettings())
	return framer
}

func TestHeadersThatNobodyReadsAreDropped(t *testing.T) {
	header := metadata.Pairs("traceparent", "a", "attack-bin", "b", "attack-bin", "c", ":authority", "d")
	testenv.Must(newArrivals().beforeCall(propagator.Fields())(t.Context(), &tap.Info{Header: header}))(t)
	if want := metadata.Pairs("traceparent", "a"); !reflect.DeepEqual(header, want) {
		t.Errorf("%v are left, want %v", header, want)
	}
}

// TestCallsAndConnectionsEnd opens calls of each kind without a message; the server ends them. A
// watched health check with a message stays open, and a host may open nine tenths of maxStreams. An
// idle connection is closed later than Envoy would close it.
func TestCallsAndConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := bufconn.Listen(1 << 20)
		a, h := newArrivals(), newHealth()
		s := grpc.NewServer(grpcOptions(settings.Listen{}, insecure.NewCredentials(), h, a, nil)...)
		rls.New(rls.Options{Registerer: prometheus.NewRegistry()}).Register(s)
		grpc_health_v1.RegisterHealthServer(s, h.grpc)
		rlqs.NewPool(time.Now(), rlqs.Options{}).Register(s)
		go func() { _ = s.Serve(listener) }()
		ctx, stop := context.WithCancel(t.Context())
		go a.run(ctx)
		conn := testenv.Must(grpc.NewClient("passthrough:///", grpc.WithIdleTimeout(0), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) })))(t)
		watching, endWatch := context.WithCancel(t.Context())
		watch := testenv.Must(grpc_health_v1.NewHealthClient(conn).Watch(watching, &grpc_health_v1.HealthCheckRequest{}))(t)
		testenv.Must(watch.Recv())(t)
		for _, method := range []string{ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName, grpc_health_v1.Health_Check_FullMethodName, grpc_health_v1.Health_Watch_FullMethodName} {
			began := time.Now()
			call := testenv.Must(conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, method))(t)
			err := call.RecvMsg(new(grpc_health_v1.HealthCheckResponse))
			if took := time.Since(began); status.Code(err) != codes.DeadlineExceeded || took < patienceOfCalls-moment || took > patienceOfCalls {
				t.Errorf("%s: got %v after %v, want DEADLINE_EXCEEDED after %v", method, err, took, patienceOfCalls)
			}
		}
		h.setStoreFound(true)
		h.setRulesLoaded()
		h.setAssignedRead()
		if answer, err := watch.Recv(); err != nil || answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("a followed health check: %v, %v", answer, err)
		}
		ctx, leave := context.WithCancel(t.Context())
		for range maxStreams - maxStreams/10 - 1 {
			more := testenv.Must(grpc_health_v1.NewHealthClient(conn).Watch(ctx, &grpc_health_v1.HealthCheckRequest{}))(t)
			testenv.Must(more.Recv())(t)
		}
		more := testenv.Must(grpc_health_v1.NewHealthClient(conn).Watch(ctx, &grpc_health_v1.HealthCheckRequest{}))(t)
		_, err := more.Recv()
		testenv.Equal(t, status.Code(err), codes.ResourceExhausted, "one more than nine tenths of %d followed health checks", maxStreams)
		soon, end := context.WithTimeout(t.Context(), time.Second)
		quotas := testenv.Must(quotav3.NewRateLimitQuotaServiceClient(conn).StreamRateLimitQuotas(soon))(t)
		_, err = quotas.Recv()
		testenv.Equal(t, status.Code(err), codes.DeadlineExceeded, "an Envoy that divides a limit beside many followed health checks")
		end()
		leave()
		endWatch()
		began := time.Now()
		conn.WaitForStateChange(t.Context(), connectivity.Ready)
		if took := time.Since(began); took < time.Hour || took > maxIdle {
			t.Errorf("an idle connection ends after %v, want %v", took, maxIdle)
		}
		conn.Close()
		s.Stop()
		stop()
	})
}

// TestStreamsOfHosts opens streams from many hosts. However many one host opens, each other can open a few.
func TestStreamsOfHosts(t *testing.T) {
	s := &streams{byHost: map[string]int{}}
	open := func(host string, tries, want int) {
		t.Helper()
		opened := 0
		for range tries {
			if s.add(host, 1, 200) {
				opened++
			}
		}
		testenv.Equal(t, opened, want, "%s: opened of %d", host, tries)
	}
	open("10.0.0.1", 300, 180)
	open("10.0.0.2", 3, 2)
	for i := range 9 {
		open(fmt.Sprint("10.0.1.", i), 2, 2)
	}
	open("10.0.0.3", 1, 0)
	s.add("10.0.0.1", -1, 200)
	open("10.0.0.1", 1, 0)
	open("10.0.0.3", 1, 1)
	for range 179 {
		s.add("10.0.0.1", -1, 200)
	}
	open("10.0.0.3", 300, 159)
	if s.byHost["10.0.0.1"] != 0 || len(s.byHost) != 11 || s.sum != 180 {
		t.Errorf("got %d streams of %v", s.sum, s.byHost)
	}
}

// TestCallsAreHurried opens calls without a message. If more wait than are allowed, the oldest ends.
// While memory is scarce, all of them end soon.
func TestCallsAreHurried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newArrivals()
		a.Arrivals = rls.NewArrivals(2)
		begin := func() context.Context {
			return testenv.Must(a.beforeCall(nil)(t.Context(), &tap.Info{}))(t)
		}
		ctx, stop := context.WithCancel(t.Context())
		go a.run(ctx)
		oldest, arrived := begin(), rls.Arrived(begin())
		first := begin()
		if oldest.Err() != nil || first.Err() != nil {
			t.Error("a call ends at once")
		}
		second, begun := begin(), time.Now()
		if oldest.Err() == nil || first.Err() != nil || second.Err() != nil {
			t.Errorf("of one call too many, got %v, %v and %v, want the end of the oldest", oldest.Err(), first.Err(), second.Err())
		}
		for first.Err() == nil || second.Err() == nil {
			a.scarce <- struct{}{}
			time.Sleep(moment / 10)
		}
		if took := time.Since(begun); took < moment/2 || took > 2*moment {
			t.Errorf("a call ends after %v", took)
		}
		if err := begin().Err(); err != nil || arrived.Err() != nil {
			t.Errorf("a new call and one with its message: %v, %v", err, arrived.Err())
		}
		stop()
	})
}
