package xds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	_ "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3" // the type of the resources
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"weir/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const configType = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

// dialer connects a client to the control plane of a test.
type dialer = func(context.Context, string) (net.Conn, error)

// inBubble runs a client for duration on the clock of the bubble, and returns it.
func inBubble(t *testing.T, opts Options, duration time.Duration, dial dialer) *Client {
	t.Helper()
	opts.Logger = slog.New(slog.DiscardHandler)
	opts.Credentials = insecure.NewCredentials()
	opts.Server, opts.Type, opts.Registerer = "passthrough:///plane", configType, prometheus.NewRegistry()
	if opts.Apply == nil {
		opts.Apply = func(context.Context, Update) error { return nil }
	}
	client := testenv.Must(New(opts))(t)
	client.dial = append(client.dial, grpc.WithContextDialer(dial))
	ctx, stop := context.WithCancel(t.Context()) // without a deadline, because rate.Limiter does not wait beyond a deadline
	defer time.AfterFunc(duration, stop).Stop()
	client.Run(ctx)
	synctest.Wait()
	return client
}

// TestWaitsGrow has a control plane that is unreachable, or that ends every stream immediately or
// after a response.
func TestWaitsGrow(t *testing.T) {
	for name, tt := range map[string]struct {
		stream func(adsStream) error // nil for an unreachable control plane
		lasts  time.Duration
		want   []time.Duration // in seconds
	}{
		"nobody there": {nil, 20 * time.Second, []time.Duration{0, 1, 4, 9, 14, 19}},
		"at once":      {func(adsStream) error { return nil }, 11 * time.Second, []time.Duration{0, 1, 3, 7}},
		"after a response": {func(s adsStream) error { return s.Send(response(configType, "1")) }, 5500 * time.Millisecond,
			[]time.Duration{0, 1, 2, 3, 4, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				started := time.Now()
				var mu sync.Mutex
				var tried []time.Duration
				try := func() {
					mu.Lock()
					defer mu.Unlock()
					tried = append(tried, time.Since(started)/time.Second)
				}
				dial := func(context.Context, string) (net.Conn, error) { try(); return nil, errors.New("nobody there") }
				if tt.stream != nil {
					dial = serve(t, func(s adsStream) error { try(); return tt.stream(s) })
				}
				inBubble(t, Options{Retry: 3 * time.Second, BackoffInitial: 2 * time.Second, BackoffMax: 5 * time.Second}, tt.lasts, dial)
				mu.Lock()
				defer mu.Unlock()
				testenv.EqualLists(t, tried, tt.want, "seconds after which it tried")
			})
		})
	}
}

// TestFirstRetryIsSoon has a stream that lasts although it has no response, with the default
// waits and several spreads.
func TestFirstRetryIsSoon(t *testing.T) {
	for _, spread := range []float64{0, 0.5, 1} {
		synctest.Test(t, func(t *testing.T) {
			var ended, again time.Time
			dial := serve(t, func(stream adsStream) error {
				if !ended.IsZero() {
					if again.IsZero() {
						again = time.Now()
					}
					<-stream.Context().Done()
					return nil
				}
				time.Sleep(20 * time.Second)
				ended = time.Now()
				return nil
			})
			opts := Options{Retry: 3 * time.Second, BackoffInitial: 10 * time.Second, BackoffMax: time.Minute, BackoffSpread: spread}
			inBubble(t, opts, 2*time.Minute, dial)
			if waited := again.Sub(ended); waited <= 0 || waited > time.Second {
				t.Errorf("spread %v: a stream was opened again after %v, want within a second", spread, waited)
			}
		})
	}
}

// TestSilentControlPlane has a control plane without resources for this node, or with a slow
// response.
func TestSilentControlPlane(t *testing.T) {
	for after, want := range map[time.Duration]int{time.Hour: 2, patience - time.Millisecond: 0} {
		synctest.Test(t, func(t *testing.T) {
			dial := serve(t, func(stream adsStream) error {
				select {
				case <-time.After(after):
					_ = stream.Send(response(configType, "1"))
				case <-stream.Context().Done():
				}
				<-stream.Context().Done()
				return nil
			})
			silent := 0
			opts := Options{Retry: time.Second, BackoffInitial: time.Second, BackoffMax: time.Second, Silent: func() { silent++ }}
			inBubble(t, opts, time.Minute, dial)
			testenv.Equal(t, silent, want, "a response after %v: times that it is told", after)
		})
	}
}

// TestSilentReplicas has a name with three addresses, of which only the last responds. The client
// stays connected while it looks for that one.
func TestSilentReplicas(t *testing.T) {
	var replicas []resolver.Endpoint
	for i := range 3 {
		listener := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
		server := grpc.NewServer()
		discovery.RegisterAggregatedDiscoveryServiceServer(server, planeFunc{stream: func(s adsStream) error {
			if i == 2 {
				_ = s.Send(response(configType, "1"))
			}
			<-s.Context().Done()
			return nil
		}})
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(server.Stop)
		replicas = append(replicas, resolver.Endpoint{Addresses: []resolver.Address{{Addr: listener.Addr().String()}}})
	}
	var log testenv.Log
	applied := false
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	client := testenv.Must(New(Options{
		Server: "plane:18002", Credentials: insecure.NewCredentials(), Type: configType, Retry: time.Second, BackoffInitial: time.Second, BackoffMax: time.Second,
		Apply:  func(context.Context, Update) error { applied = true; stop(); return nil },
		Logger: slog.New(slog.NewTextHandler(&log, nil)), Registerer: prometheus.NewRegistry(),
	}))(t)
	names := manual.NewBuilderWithScheme("dns")
	names.InitialState(resolver.State{Endpoints: replicas})
	client.names, client.patience = names, 100*time.Millisecond
	client.Run(ctx)
	if got := client.Status(); !got.Connected || !applied || strings.Count(log.String(), "is connected") != 1 {
		t.Errorf("status: %+v; silent: %v; log:\n%s", got, client.silent, log.String())
	}
}

// TestServerThatSaysNothing has a peer that accepts connections and never answers. The client
// must give up.
func TestServerThatSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := Options{Retry: time.Hour, BackoffInitial: time.Hour, BackoffMax: time.Hour}
		client := inBubble(t, opts, time.Minute, func(context.Context, string) (net.Conn, error) {
			conn, other := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, other) }()
			return conn, nil
		})
		if err := client.Status().Err; err == nil || !strings.HasPrefix(err.Error(), "connecting: ") {
			t.Errorf("got %v", err)
		}
	})
}

// TestLargeResponse has a valid response, a response that is too large, and, as after a restart
// of the control plane, a valid response that reuses the version of the first.
func TestLargeResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		streams := 0
		dial := serve(t, func(stream adsStream) error {
			request, err := stream.Recv()
			if err != nil || request.GetVersionInfo() != "" || request.GetResponseNonce() != "" {
				t.Errorf("the first request of a stream is %v, error %v", request, err)
			}
			streams++
			values := map[int]string{1: "first", 2: strings.Repeat("x", 2000)}
			if err := stream.Send(response(configType, "1", cmp.Or(values[streams], "other"))); err != nil {
				return err
			}
			_, err = stream.Recv()
			if streams == 1 && err == nil {
				return nil
			}
			<-stream.Context().Done()
			return nil
		})
		var applied []string
		opts := Options{MaxMessageSize: 1000, Retry: time.Second, BackoffInitial: time.Second, BackoffMax: time.Second, Apply: func(_ context.Context, u Update) error {
			applied = append(applied, u.Version+" "+string(u.Resources[0].GetValue()))
			return nil
		}}
		problem := inBubble(t, opts, 10*time.Second, dial).Status().Err
		if want := []string{"1 first", "1 other"}; !slices.Equal(applied, want) || problem == nil || !strings.Contains(problem.Error(), "at most 1000 bytes at once (see XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES)") {
			t.Errorf("applied %q, want %q; the last stream ended with %v", applied, want, problem)
		}
	})
}

// TestManyMessages decodes responses of an allowed size whose messages would fill the memory.
func TestManyMessages(t *testing.T) {
	options := Options{Type: configType, MaxMessageSize: 4 << 20}
	const descriptor, many = "\x1a\x00", "more than 209715 messages in a response"
	for name, tt := range map[string]struct {
		response *discovery.DiscoveryResponse
		refused  bool
	}{
		"resources":   {&discovery.DiscoveryResponse{Resources: slices.Repeat([]*anypb.Any{{}}, 2<<20)}, true},
		"descriptors": {response(configType, "1", strings.Repeat(descriptor, 2<<20)), true},
		"half":        {response(configType, "1", strings.Repeat(descriptor, 100_000), strings.Repeat(descriptor, 100_000)), false},
		"broken":      {response(configType, "1", "\x1a\xff"), false},
	} {
		data := mem.BufferSlice{mem.SliceBuffer(testenv.Must(proto.Marshal(tt.response))(t))}
		err := newCodec(encoding.GetCodecV2("proto"), &options).Unmarshal(data, new(discovery.DiscoveryResponse))
		if refused := err != nil && strings.Contains(err.Error(), many); refused != tt.refused || !refused && err != nil {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestBadServer(t *testing.T) {
	_, err := New(Options{Server: "cp\x7f:1", Credentials: insecure.NewCredentials(), Registerer: prometheus.NewRegistry()})
	testenv.Contains(t, fmt.Sprint(err), `control plane "cp\x7f:1": `)
}

type adsStream = discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer

type planeFunc struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer
	stream func(adsStream) error
}

func (p planeFunc) StreamAggregatedResources(s adsStream) error {
	return p.stream(s)
}

// serve serves streams within the bubble, and returns a dialer for them.
func serve(t *testing.T, stream func(adsStream) error) dialer {
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(server, planeFunc{stream: stream})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }
}
