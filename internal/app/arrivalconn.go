package app

import (
	"container/list"
	"context"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// arrivalConn is a connection of the gRPC server. Beside arrivals.read it counts the
// bytes that came, and pauses when it is told to.
type arrivalConn struct {
	net.Conn
	arrivals *arrivals
	read     atomic.Int64
	pause    atomic.Bool // before the next read
	more     bool        // the last read was as much as it could be
	close    sync.Once
	closed   chan struct{}

	// arrivals.mu guards the following.
	requests list.List // of *arrival, the oldest first
	whole    int64     // bytes of requests that became whole
}

// crowdedRead is how many bytes of a connection are read at once while there is a
// crowd: a few requests, and the next connection has its turn.
const crowdedRead = 512

func (c *arrivalConn) Read(p []byte) (int, error) {
	crowd := c.arrivals.crowd()
	if crowd || c.more {
		runtime.Gosched() // first come the calls that the last read began
	}
	if c.pause.Swap(false) {
		half := int64(c.arrivals.bounds.pause) / 2
		select {
		case <-time.After(time.Duration(half + rand.Int64N(2*half))): //nolint:gosec // so that not all go on at once, which is no secret
		case <-c.closed:
		}
	}
	if crowd {
		p = p[:min(len(p), crowdedRead)]
	}
	n, err := c.Conn.Read(p)
	c.more = n == len(p)
	c.read.Add(int64(n))
	c.arrivals.count(n)
	return n, err
}

// Close closes the connection, and ends a pause.
func (c *arrivalConn) Close() error {
	c.close.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// oldest is the request that began first. There must be one.
func (c *arrivalConn) oldest() *arrival { return c.requests.Front().Value.(*arrival) }

// held is at most how many bytes its requests hold: what came since the oldest began,
// without what became whole meanwhile. There must be a request.
func (c *arrivalConn) held() int64 { return c.read.Load() - c.whole - c.oldest().before }

// credentials make connections by inner, and arrivalConns of them.
func (a *arrivals) credentials(inner credentials.TransportCredentials) credentials.TransportCredentials {
	return arrivalCredentials{inner, a}
}

type arrivalCredentials struct {
	credentials.TransportCredentials
	arrivals *arrivals
}

// arrivalInfo leads from a call to its connection.
type arrivalInfo struct {
	credentials.AuthInfo
	conn *arrivalConn
}

func (c arrivalCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	inner, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	conn := &arrivalConn{Conn: inner, arrivals: c.arrivals, closed: make(chan struct{})}
	return conn, arrivalInfo{info, conn}, nil
}

func (c arrivalCredentials) Clone() credentials.TransportCredentials {
	return arrivalCredentials{c.TransportCredentials.Clone(), c.arrivals}
}

// registrar registers services whose requests are counted among a.
func (a *arrivals) registrar(s grpc.ServiceRegistrar) grpc.ServiceRegistrar {
	return arrivalRegistrar{s, a}
}

type arrivalRegistrar struct {
	grpc.ServiceRegistrar
	arrivals *arrivals
}

func (r arrivalRegistrar) RegisterService(desc *grpc.ServiceDesc, service any) {
	counted := *desc
	counted.Methods = nil
	for _, method := range desc.Methods {
		handle := method.Handler
		method.Handler = func(srv any, ctx context.Context, receive func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			return handle(srv, ctx, func(m any) error { return r.arrivals.receive(ctx, m, receive) }, interceptor)
		}
		counted.Methods = append(counted.Methods, method)
	}
	r.ServiceRegistrar.RegisterService(&counted, service)
}

// interceptStream counts the messages of streams among a.
func (a *arrivals) interceptStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	return handle(srv, arrivalStream{stream, a})
}

type arrivalStream struct {
	grpc.ServerStream
	arrivals *arrivals
}

func (s arrivalStream) RecvMsg(m any) error {
	return s.arrivals.receive(s.Context(), m, s.ServerStream.RecvMsg)
}
