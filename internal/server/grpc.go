package server

import (
	"context"
	"fmt"
	"maps"
	"net"
	"runtime"
	"slices"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/tap"

	"weir/internal/rls"
	"weir/internal/settings"
)

const (
	// streamWorkers are goroutines that serve one call after the other. Each call in a
	// goroutine of its own would let that one's stack grow first, again and again: a
	// tenth of the CPU time of a decision. If all wait for Redis, gRPC starts more.
	streamWorkers = 64

	// window is how many bytes of requests may be under way on a connection, which is
	// a thousand large ones. A fixed one, because gRPC measures the network for one of
	// its own choice by pinging Envoy without end: a twentieth of the CPU time of a
	// decision, and a tenth of its latency.
	window = 1 << 20

	// maxHeaders is how large the headers of a request may be, counted as in RFC 9113:
	// with 32 bytes more for each. gRPC's own bound of 16 MiB can be reached with 4 KiB,
	// because HPACK repeats a header in one byte. An Envoy sends less than 1 KiB, to
	// which tracing adds a client's tracestate, and initial_metadata other headers of clients:
	// by default 60 KiB together. Envoy lets a request pass whose headers are refused here.
	maxHeaders = 80 << 10

	// readBuffer is how much of a connection is read at once: dozens of requests. Each
	// connection keeps such a buffer.
	readBuffer = 4 << 10

	// patienceOfCalls is how long a connection may take for its handshakes, and, while
	// there are crowded goroutines, a call from its headers to its answer.
	patienceOfCalls = 10 * time.Second
	crowded         = 5000
)

// maxConnections is how many gRPC connections are open at a time, of about 30 KiB each: at
// most half as many as the process may have files.
func maxConnections() int {
	const most = 16 << 10
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return most
	}
	return int(min(most, files.Cur/2))
}

// grpcOptions bound what a client may take. Who may be a client is for TLS and the
// network to say.
func grpcOptions(l settings.Listen, transport credentials.TransportCredentials, h *health, headersRead []string) []grpc.ServerOption {
	options := append(rls.ServerOptions(),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.StaticConnWindowSize(window),
		grpc.StaticStreamWindowSize(window),
		grpc.Creds(transport),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.ReadBufferSize(readBuffer),
		grpc.ConnectionTimeout(patienceOfCalls),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge:      l.GRPCMaxConnectionAge,
			MaxConnectionAgeGrace: l.GRPCMaxConnectionAgeGrace,
		}),
		// Envoy's connection_keepalive pings more often than gRPC puts up with.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.InTapHandle(beforeCall(headersRead, crowded)),
		grpc.ChainStreamInterceptor(h.endStreams),
	)
	if most := l.GRPCMaxConcurrentStreams; most > 0 {
		options = append(options, grpc.MaxConcurrentStreams(uint32(most)))
	}
	return options
}

// beforeCall sees a call before its message. It drops the headers that nobody reads,
// because a few bytes of HPACK can stand for many. While many calls are open, it gives
// each a deadline, which also ends one whose message does not become complete. A deadline
// for every call would be a twelfth of the CPU time of a decision. Health checks that are
// watched last as long as they like.
func beforeCall(headersRead []string, crowded int) tap.ServerInHandle {
	return func(ctx context.Context, info *tap.Info) (context.Context, error) {
		maps.DeleteFunc(info.Header, func(name string, _ []string) bool { return !slices.Contains(headersRead, name) })
		if runtime.NumGoroutine() < crowded || info.FullMethodName == grpc_health_v1.Health_Watch_FullMethodName {
			return ctx, nil
		}
		ctx, cancel := context.WithTimeout(ctx, patienceOfCalls) //nolint:gosec // gRPC cancels the context that this one is of
		_ = cancel
		return ctx, nil
	}
}

func grpcServer(listener net.Listener, s *grpc.Server) *part {
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

// fairListener makes connections that take turns.
type fairListener struct{ net.Listener }

// Accept implements net.Listener.
func (l fairListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &fairConn{Conn: conn}, nil
}

// turn is how many bytes of a connection are read at once that sends faster than it is
// read.
const turn = 256

// fairConn is a connection that is read little by little while it has more to read, and
// lets others have a turn before. Otherwise it keeps a processor for 10 ms.
type fairConn struct {
	net.Conn
	more bool // the last read was as much as it could be
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
