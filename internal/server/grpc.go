package server

import (
	"context"
	"fmt"
	"maps"
	"net"
	"runtime"
	"slices"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/net/netutil"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/tap"

	"weir/internal/operators"
	"weir/internal/rlqs"
	"weir/internal/rls"
	"weir/internal/settings"
)

const (
	// streamWorkers is the number of goroutines that serve one call after another. In a new goroutine
	// for each call, the stack would have to grow each time, which takes a tenth of the CPU time of a
	// decision. If all of them are busy, as when Redis is slow, gRPC starts a goroutine for the call.
	streamWorkers = 64

	// window is the flow-control window of a connection in bytes, which is enough for a thousand
	// large requests. It is fixed, because gRPC would otherwise measure the network by constant
	// pings, which cost a twentieth of the CPU time and a tenth of the latency of a decision.
	window = 1 << 20

	// maxHeaders is the maximum size in bytes of a request's headers, where each header counts 32
	// bytes more than its text (RFC 9113). gRPC's default is 16 MiB, which a client can reach with
	// 4 KiB, because HPACK repeats a header in one byte. Envoy's own headers take less than 1 KiB.
	// Envoy may add headers of its client (tracestate and initial_metadata), by default up to
	// 60 KiB in all. If the server refused such a call, Envoy would let the request pass.
	maxHeaders = 80 << 10

	// readBuffer is the size of a connection's read buffer, enough for dozens of requests.
	readBuffer = 4 << 10

	// patienceOfCalls bounds the handshakes of a connection, and the wait for a call's message.
	patienceOfCalls = 10 * time.Second

	// maxIdle is the time after which an idle connection is closed. By default, Envoy closes it after 1 h.
	maxIdle = 65 * time.Minute

	// maxStreams is the maximum number of open quota streams, and separately of all other streams,
	// such as watched health checks. A stream takes about 25 KiB. An Envoy has one quota stream for
	// each domain, and a proxy may forward the streams of hundreds of Envoys.
	maxStreams = 1000
)

// maxConnections returns the maximum number of gRPC connections, of about 30 KiB each: they may take
// a quarter of the memory limit and half of the file descriptors.
func maxConnections() int {
	most := affordable(16<<10, 4*30<<10)
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return most
	}
	return int(min(uint64(most), files.Cur/2))
}

// newGRPC returns the gRPC server for requests, quotas and health checks. tracing may be nil.
func newGRPC(o Options, life *lifecycle, listener net.Listener, transport credentials.TransportCredentials, tracing *sdktrace.TracerProvider, h *health, a *arrivals, requests *rls.Service, quotas *rlqs.Pool) *component {
	headersRead := []string{operators.RequestIDHeader, operators.ResponseCodeHeader}
	if tracing != nil || o.Settings.DecisionLog.Decisions != "off" {
		headersRead = append(headersRead, propagator.Fields()...)
	}
	options := grpcOptions(o.Settings.Listen, transport, h, a, headersRead)
	if tracing != nil {
		options = append(options, traced(tracing))
	}
	s := grpc.NewServer(options...)
	requests.Register(s)
	quotas.Register(s)
	grpc_health_v1.RegisterHealthServer(s, h.grpc)
	reflection.Register(s)
	life.background("arrivals", a.run) // until the gRPC server has drained
	stop := func(ctx context.Context) error {
		ended := context.AfterFunc(ctx, s.Stop) // makes GracefulStop return
		s.GracefulStop()
		if !ended() {
			return fmt.Errorf("requests cut off: %w", ctx.Err())
		}
		return nil
	}
	return served("gRPC", fairListener{netutil.LimitListener(listener, maxConnections())}, s.Serve, stop)
}

// grpcOptions returns options that bound the resources that a client can use. TLS and network policy
// decide who may connect.
func grpcOptions(l settings.Listen, transport credentials.TransportCredentials, h *health, a *arrivals, headersRead []string) []grpc.ServerOption {
	options := append(rls.ServerOptions(),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.StaticConnWindowSize(window),
		grpc.StaticStreamWindowSize(window),
		grpc.Creds(transport),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.ReadBufferSize(readBuffer),
		grpc.ConnectionTimeout(patienceOfCalls),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle:     maxIdle,
			MaxConnectionAge:      l.GRPCMaxConnectionAge,
			MaxConnectionAgeGrace: l.GRPCMaxConnectionAgeGrace,
		}),
		// Envoy's connection_keepalive may ping more often than gRPC allows by default.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.InTapHandle(a.beforeCall(headersRead)),
		grpc.ChainStreamInterceptor(h.endStreams(maxStreams)),
	)
	if most := l.GRPCMaxConcurrentStreams; most > 0 {
		options = append(options, grpc.MaxConcurrentStreams(uint32(most)))
	}
	return options
}

// arrivals cancels each call whose message is not complete after patienceOfCalls or, while memory is
// scarce, after about the duration moment.
type arrivals struct {
	*rls.Arrivals
	scarce chan struct{} // has an element if a garbage collection found memory scarce
}

const moment = patienceOfCalls / 40

// newArrivals returns arrivals for the runtime's memory limit. Waiting calls, of about 15 KiB each,
// may take a quarter of it.
func newArrivals() *arrivals {
	return &arrivals{rls.NewArrivals(affordable(20_000, 4*15<<10)), make(chan struct{}, 1)}
}

// run ends late calls until ctx is done. Then it ends all calls that still wait for their messages.
func (a *arrivals) run(ctx context.Context) {
	tick, last := time.Tick(moment), time.Now()
	for {
		select {
		case <-ctx.Done():
			a.Turn(0)
			return
		case <-tick:
			a.Turn(int(patienceOfCalls/moment) - 1)
		case <-a.scarce:
			if time.Since(last) < moment/2 { // on busy processors, a message may take that long
				continue
			}
			a.Turn(1)
		}
		last = time.Now()
	}
}

// beforeCall returns a hook that runs before a call's message arrives. It drops all headers except
// headersRead, because a few bytes of HPACK may expand to large headers.
func (a *arrivals) beforeCall(headersRead []string) tap.ServerInHandle {
	return func(ctx context.Context, info *tap.Info) (context.Context, error) {
		maps.DeleteFunc(info.Header, func(name string, _ []string) bool { return !slices.Contains(headersRead, name) })
		return a.Begin(ctx), nil
	}
}

// fairListener accepts connections as fairConns.
type fairListener struct{ net.Listener }

// Accept implements net.Listener.
func (l fairListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &fairConn{Conn: conn}, nil
}

// turn is the maximum size, in bytes, of a read from a client that sends faster than the server reads.
const turn = 256

// fairConn is a connection that, while it has more to read, lets other goroutines run before each read
// and reads at most turn bytes. Otherwise, its goroutine would keep a processor for 10 ms.
type fairConn struct {
	net.Conn
	more bool // the last read filled its buffer
}

// Read implements net.Conn.
func (c *fairConn) Read(p []byte) (int, error) {
	if c.more {
		runtime.Gosched()
		p = p[:min(len(p), turn)]
	}
	n, err := c.Conn.Read(p)
	c.more = n == len(p)
	return n, err
}
