package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	grpchealth "google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"weir/internal/testenv"
)

// unfinishedServer answers health checks within the bounds, and returns what connects to it.
func unfinishedServer(t *testing.T, bounds unfinishedBounds) (*unfinished, func() *grpc.ClientConn) {
	t.Helper()
	u := newUnfinished(bounds, prometheus.NewRegistry())
	server := grpc.NewServer(grpc.Creds(u.credentials(insecure.NewCredentials())), grpc.StreamInterceptor(u.interceptStream))
	grpc_health_v1.RegisterHealthServer(u.registrar(server), grpchealth.NewServer())
	addr := testenv.ServeGRPC(t, server)
	return u, func() *grpc.ClientConn {
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
}

// beginCall calls a method and sends no request.
func beginCall(t *testing.T, conn *grpc.ClientConn, method string) grpc.ClientStream {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// finish sends the request after all.
func finish(stream grpc.ClientStream) error {
	_ = stream.SendMsg(&grpc_health_v1.HealthCheckRequest{}) // what became of it is told by RecvMsg
	_ = stream.CloseSend()
	return stream.RecvMsg(&grpc_health_v1.HealthCheckResponse{})
}

func TestLateRequests(t *testing.T) {
	u, connect := unfinishedServer(t, unfinishedBounds{bytes: 1 << 20, streams: 2, ownStreams: 1, timeout: 100 * time.Millisecond})
	conn := connect()
	for i, method := range []string{grpc_health_v1.Health_Check_FullMethodName, grpc_health_v1.Health_Watch_FullMethodName} {
		err := beginCall(t, conn, method).RecvMsg(&grpc_health_v1.HealthCheckResponse{})
		if want := "the rest of the request did not come within 100ms"; status.Code(err) != codes.DeadlineExceeded || status.Convert(err).Message() != want {
			t.Errorf("%s: got %v, want DEADLINE_EXCEEDED: %s", method, err, want)
		}
		if got := testutil.ToFloat64(u.late.count); got != float64(i+1) {
			t.Errorf("%v are counted, want %d", got, i+1)
		}
	}
	testenv.Eventually(t, func() error { // the client hears of the end before the server has left the call
		if n := u.streams.Load(); n != 0 {
			return fmt.Errorf("%d streams last", n)
		}
		return nil
	})
	watch := beginCall(t, conn, grpc_health_v1.Health_Watch_FullMethodName)
	if err := finish(watch); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- watch.RecvMsg(&grpc_health_v1.HealthCheckResponse{}) }()
	select {
	case err := <-ended:
		t.Errorf("a request that was whole ends: %v", err)
	case <-ctx.Done():
	}
}

// TestCrowdedRequests opens requests on one connection until they are too many:
// only its own end.
func TestCrowdedRequests(t *testing.T) {
	const most = 32
	u, connect := unfinishedServer(t, unfinishedBounds{bytes: most * requestCost, timeout: patience, pause: time.Millisecond})
	other := beginCall(t, connect(), grpc_health_v1.Health_Check_FullMethodName)
	conn := connect()
	var streams []grpc.ClientStream
	for range 3 * most {
		streams = append(streams, beginCall(t, conn, grpc_health_v1.Health_Check_FullMethodName))
	}
	if err := streams[0].RecvMsg(&grpc_health_v1.HealthCheckResponse{}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the oldest: got %v, want RESOURCE_EXHAUSTED", err)
	}
	if testutil.ToFloat64(u.crowded.count) == 0 {
		t.Error("none is counted")
	}
	if err := finish(other); err != nil {
		t.Errorf("the request of another connection: %v", err)
	}
}

// TestHeldBytes sends messages that never end until they hold too much.
func TestHeldBytes(t *testing.T) {
	const most = 1 << 20
	u, connect := unfinishedServer(t, unfinishedBounds{bytes: most, timeout: patience, pause: time.Millisecond})
	other := beginCall(t, connect(), grpc_health_v1.Health_Check_FullMethodName)
	conn := connect()
	var first grpc.ClientStream
	large := &grpc_health_v1.HealthCheckRequest{Service: strings.Repeat("x", most/4)}
	for range 8 {
		stream := beginCall(t, conn, grpc_health_v1.Health_Check_FullMethodName)
		if err := stream.SendMsg(large); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = stream
		}
	}
	if err := first.RecvMsg(&grpc_health_v1.HealthCheckResponse{}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the oldest: got %v, want RESOURCE_EXHAUSTED", err)
	}
	if err := finish(other); err != nil {
		t.Errorf("the request of another connection: %v", err)
	}
	testenv.Eventually(t, func() error {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.weigh()
		if held := u.held(); held > most {
			return fmt.Errorf("%d bytes are held, want at most %d", held, most)
		}
		return nil
	})
	// What is whole is not held, however much it is.
	whole := connect()
	waits := beginCall(t, whole, grpc_health_v1.Health_Check_FullMethodName)
	for range 20 {
		if _, err := grpc_health_v1.NewHealthClient(whole).Check(t.Context(), large); status.Code(err) != codes.NotFound {
			t.Fatal(err)
		}
	}
	if err := finish(waits); err != nil {
		t.Errorf("a request beside many whole ones: %v", err)
	}
}

// TestYoungRequests leaves no request of a connection ended before it is old, however
// many there are.
func TestYoungRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnfinished(unfinishedBounds{bytes: 4 * leastShare, timeout: patience}, prometheus.NewRegistry())
		young, old := newUnfinishedConn(nil, u), newUnfinishedConn(nil, u)
		open := func(c *unfinishedConn, n uint32) {
			for range n {
				c.came(http2.FrameHeaders, 0, c.newest+2)
				u.begin(&unfinishedRequest{conn: c, call: silent{}})
			}
		}
		open(old, 40)
		u.sweep()
		open(young, 100)
		u.sweep()
		if young.requests.Len() != 100 || old.requests.Len() >= 40 {
			t.Errorf("%d of 100 young requests and %d of 40 old ones are left, want all and fewer", young.requests.Len(), old.requests.Len())
		}
		u.timer.Stop()
	})
}

// silent is a call that cannot be told.
type silent struct{}

func (silent) WriteStatus(*status.Status) error { return nil }

// TestStreamsThatLast follows the health more often than is permitted.
func TestStreamsThatLast(t *testing.T) {
	u, connect := unfinishedServer(t, unfinishedBounds{bytes: 1 << 20, streams: 3, ownStreams: 2, timeout: patience, pause: time.Millisecond})
	follow := func(conn *grpc.ClientConn) (grpc.ClientStream, error) {
		stream := beginCall(t, conn, grpc_health_v1.Health_Watch_FullMethodName)
		return stream, finish(stream)
	}
	first := connect()
	for i, want := range []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted} {
		if _, err := follow(first); status.Code(err) != want {
			t.Errorf("stream %d of a connection: got %v, want %v", i+1, err, want)
		}
	}
	second := connect()
	if _, err := follow(second); err != nil {
		t.Error(err)
	}
	if _, err := follow(second); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("stream 4 of all: got %v, want RESOURCE_EXHAUSTED", err)
	}
	first.Close()
	testenv.Eventually(t, func() error {
		if n := u.streams.Load(); n != 1 {
			return fmt.Errorf("%d streams are counted, want 1", n)
		}
		return nil
	})
	if _, err := follow(second); err != nil {
		t.Errorf("when others have ended: %v", err)
	}
}

// TestLoadOfWholeRequests makes calls of every kind: none is counted when it is over.
func TestLoadOfWholeRequests(t *testing.T) {
	u, connect := unfinishedServer(t, unfinishedBounds{bytes: 1 << 20, streams: 8, ownStreams: 8, timeout: patience, pause: time.Millisecond})
	conn := connect()
	client := grpc_health_v1.NewHealthClient(conn)
	for range 50 {
		if _, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "none"}); status.Code(err) != codes.NotFound {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		watch, err := client.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
		if err == nil {
			_, err = watch.Recv()
		}
		if cancel(); err != nil {
			t.Fatal(err)
		}
		if err := conn.Invoke(t.Context(), "/no/method", &grpc_health_v1.HealthCheckRequest{}, &grpc_health_v1.HealthCheckResponse{}); status.Code(err) != codes.Unimplemented {
			t.Fatal(err)
		}
	}
	left := beginCall(t, conn, grpc_health_v1.Health_Check_FullMethodName)
	wantLoad := func(want int64) {
		t.Helper()
		testenv.Eventually(t, func() error {
			if got := u.load.Load(); got != want {
				return fmt.Errorf("%d requests are counted, want %d", got, want)
			}
			return nil
		})
	}
	wantLoad(1)
	conn.Close()
	wantLoad(0)
	_ = left
}

// TestAnswersThatWait sees connections whose answers do not go out in ten seconds: only
// those of streams may last.
func TestAnswersThatWait(t *testing.T) {
	for _, tt := range []struct {
		name   string
		begin  func(c *unfinishedConn)
		closed bool
	}{
		{"without a request", func(*unfinishedConn) {}, false},
		{"a request that is being decided", func(c *unfinishedConn) { c.came(http2.FrameHeaders, 0, 1) }, false},
		{"the answer has begun", func(c *unfinishedConn) {
			c.came(http2.FrameHeaders, 0, 1)
			c.went(http2.FrameHeaders, 0, 1)
		}, true},
		{"the client has left the call", func(c *unfinishedConn) {
			c.came(http2.FrameHeaders, 0, 1)
			c.went(http2.FrameHeaders, 0, 1)
			c.came(http2.FrameRSTStream, 0, 1)
		}, false},
		{"the answer is sent", func(c *unfinishedConn) {
			c.came(http2.FrameHeaders, 0, 1)
			c.went(http2.FrameHeaders, 0, 1)
			c.went(http2.FrameHeaders, http2.FlagHeadersEndStream, 1)
		}, false},
		{"a followed health check", func(c *unfinishedConn) {
			c.came(http2.FrameHeaders, 0, 1)
			c.streams.Add(1)
			c.went(http2.FrameHeaders, 0, 1)
		}, false},
		{"nobody reads", func(c *unfinishedConn) { go c.Write([]byte("answer")) }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := newUnfinished(unfinishedBounds{bytes: 1 << 20, timeout: 10 * time.Second}, prometheus.NewRegistry())
				server, client := net.Pipe()
				defer client.Close()
				c := newUnfinishedConn(server, u)
				tt.begin(c)
				synctest.Wait()
				for range lateTicks - 1 {
					u.sweep()
				}
				if !u.conns[c] {
					t.Error("it is closed too early")
				}
				u.sweep()
				u.sweep()
				synctest.Wait()
				select {
				case <-c.closed:
					if !tt.closed {
						t.Error("it is closed")
					}
				default:
					if tt.closed {
						t.Error("it is not closed")
					}
				}
				c.Close()
				u.timer.Stop()
			})
		})
	}
}

// TestConnectionsGiveWay opens one connection more than there may be: the one gives way
// that has no request and was read longest ago.
func TestConnectionsGiveWay(t *testing.T) {
	bounds := defaultUnfinishedBounds
	bounds.conns = 3
	u, connect := unfinishedServer(t, bounds)
	var conns []*grpc.ClientConn
	check := func(conn *grpc.ClientConn) {
		t.Helper()
		if _, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	for range bounds.conns {
		conns = append(conns, connect())
		check(conns[len(conns)-1])
	}
	stream := beginCall(t, conns[0], grpc_health_v1.Health_Check_FullMethodName)
	testenv.Eventually(t, func() error {
		if n := u.load.Load(); n != 1 {
			return fmt.Errorf("%d requests are open, want 1", n)
		}
		return nil
	})
	check(conns[2]) // the client may have sent the last frames of its first use in any order
	check(connect())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if !conns[1].WaitForStateChange(ctx, connectivity.Ready) {
		t.Error("the idlest connection stays open")
	}
	if err := finish(stream); err != nil {
		t.Errorf("a request on another one ends with %v", err)
	}
	if state := conns[2].GetState(); state != connectivity.Ready {
		t.Errorf("a connection that was used later is %v", state)
	}
}

// receiving returns a connection on which a client has sent so much, and the client's end.
func receiving(t *testing.T, sent []byte) (c *unfinishedConn, client net.Conn) {
	t.Helper()
	client, server := net.Pipe()
	c = newUnfinishedConn(server, newUnfinished(defaultUnfinishedBounds, prometheus.NewRegistry()))
	t.Cleanup(func() { client.Close(); c.Close() })
	go client.Write(sent)
	return c, client
}

func TestLittleIsReadOfWhoGivesUp(t *testing.T) {
	var sent bytes.Buffer
	sent.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&sent, nil)
	headers := http2.HeadersFrameParam{StreamID: 1, EndHeaders: true}
	if err := errors.Join(framer.WriteHeaders(headers), framer.WriteRSTStream(1, http2.ErrCodeCancel)); err != nil {
		t.Fatal(err)
	}
	first := sent.Len()
	if err := errors.Join(framer.WriteRSTStream(1, http2.ErrCodeCancel), framer.WriteData(3, true, make([]byte, 3*readBuffer))); err != nil {
		t.Fatal(err)
	}
	c, _ := receiving(t, sent.Bytes())
	for _, want := range []int{crowdedRead, readBuffer} { // the second reset is of nothing
		if _, err := io.ReadFull(c, make([]byte, first)); err != nil {
			t.Fatal(err)
		}
		first = readBuffer - crowdedRead
		n, err := c.Read(make([]byte, readBuffer))
		if n != want || err != nil {
			t.Errorf("%d bytes are read, want %d (error: %v)", n, want, err)
		}
	}
}

func TestManySettings(t *testing.T) {
	var sent bytes.Buffer
	sent.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&sent, nil)
	for range maxSettings / 2 {
		windows := http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1}
		if err := framer.WriteSettings(windows, windows); err != nil {
			t.Fatal(err)
		}
	}
	usual := sent.Len()
	if err := framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize}); err != nil {
		t.Fatal(err)
	}
	c, client := receiving(t, sent.Bytes())
	if _, err := io.ReadFull(c, make([]byte, usual)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, readBuffer)); !errors.Is(err, errSettings) {
		t.Errorf("after one more setting: %v, want %v", err, errSettings)
	}
	if _, err := client.Write([]byte{0}); err == nil {
		t.Error("the connection is still open")
	}
}

func TestDropHeaders(t *testing.T) {
	header := metadata.Pairs("traceparent", "a", "attack-bin", "b", "attack-bin", "c", ":authority", "d")
	if _, err := dropHeaders(propagator.Fields()...)(t.Context(), &tap.Info{Header: header}); err != nil {
		t.Fatal(err)
	}
	if want := metadata.Pairs("traceparent", "a"); !reflect.DeepEqual(header, want) {
		t.Errorf("%v are left, want %v", header, want)
	}
}
