package server

import (
	"container/list"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// unfinishedConn is a connection of the gRPC server. It counts the bytes that came and
// the requests that are open, and pauses when it is told to.
type unfinishedConn struct {
	net.Conn
	unfinished *unfinished
	read       atomic.Int64
	last       atomic.Int64 // when it was read last: what had come on all connections then
	pause      atomic.Bool  // before the next read
	more       bool         // the last read was as much as it could be
	resets     bool         // the last read gave up requests that were not answered
	settings   int          // of HTTP/2 that came
	close      sync.Once
	closed     chan struct{}

	load     atomic.Int64 // requests that are open, but for those that are being decided
	streams  atomic.Int64 // that last
	writing  atomic.Int64 // since what tick, 0: it does not
	incoming frames
	outgoing frames

	openMu sync.Mutex
	open   map[uint32]int64 // since what tick the answer to the request is on its way, 0: not yet
	newest uint32           // request

	// unfinished.mu guards the following.
	requests list.List // of *unfinishedRequest, the oldest first
	whole    int64     // bytes of requests that became whole
	lasted   int64     // streams at the last sweep
}

func newUnfinishedConn(inner net.Conn, u *unfinished) *unfinishedConn {
	c := &unfinishedConn{Conn: inner, unfinished: u, closed: make(chan struct{}), open: map[uint32]int64{}}
	c.incoming.skip = len(http2.ClientPreface)
	c.last.Store(u.read.Load())
	u.mu.Lock()
	u.conns[c] = true
	surplus := u.giveWay(c)
	u.mu.Unlock()
	if surplus != nil {
		go func() { _ = surplus.Close() }() // which may wait for TLS
	}
	return c
}

const (
	// crowdedRead is how many bytes of a connection are read at once while there is a
	// crowd, or if it gives requests up, which may cost much and counts nowhere: a few
	// requests, and the next connection has its turn.
	crowdedRead = 512
	// crowdedWait is how long a connection that holds more than its share waits for its
	// turn. It is read then, because what lets answers go out comes that way, too.
	crowdedWait, crowdedLook = 100 * time.Millisecond, 10 * time.Millisecond
)

const (
	// maxSettings is how many settings of HTTP/2 a client may send on a connection. A few
	// are usual, and gRPC looks at all calls of the connection for each.
	maxSettings  = 1000
	settingBytes = 6 // RFC 9113, section 6.5.1
)

var errSettings = errors.New("more settings of HTTP/2 than a client needs")

func (c *unfinishedConn) Read(p []byte) (int, error) {
	crowd := c.unfinished.crowd()
	if crowd || c.more {
		runtime.Gosched() // first come the calls that the last read began
	}
	if c.pause.Swap(false) {
		half := int64(c.unfinished.bounds.pause) / 2
		c.wait(time.Duration(half + rand.Int64N(2*half))) //nolint:gosec // so that not all go on at once, which is no secret
	}
	if crowd {
		for waited := time.Duration(0); waited < crowdedWait && c.crowds(); waited += crowdedLook {
			c.wait(crowdedLook)
		}
	}
	if crowd || c.resets {
		p = p[:min(len(p), crowdedRead)]
	}
	c.resets = false
	n, err := c.Conn.Read(p)
	c.more = n == len(p)
	c.read.Add(int64(n))
	c.last.Store(c.unfinished.count(n))
	c.incoming.follow(p[:n], c.came)
	if c.settings > maxSettings {
		_ = c.Close()
		return 0, errSettings
	}
	return n, err
}

func (c *unfinishedConn) Write(p []byte) (int, error) {
	c.writing.Store(max(c.unfinished.now.Load(), 1))
	n, err := c.Conn.Write(p)
	c.writing.Store(0)
	c.outgoing.follow(p[:n], c.went)
	return n, err
}

// wait waits for a while, or until the connection is closed.
func (c *unfinishedConn) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-c.closed:
	}
}

// crowds reports whether there is a crowd, and the connection holds more than its share.
func (c *unfinishedConn) crowds() bool {
	u := c.unfinished
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.crowd() && c.held() > u.share()
}

// Close closes the connection, and ends a pause.
func (c *unfinishedConn) Close() error {
	c.close.Do(func() {
		close(c.closed)
		c.unfinished.mu.Lock()
		delete(c.unfinished.conns, c)
		c.unfinished.mu.Unlock()
		c.openMu.Lock()
		c.unfinished.add(c, -int64(len(c.open)))
		c.open = nil
		c.openMu.Unlock()
	})
	return c.Conn.Close()
}

// came notes a frame from the client.
func (c *unfinishedConn) came(kind http2.FrameType, _ http2.Flags, stream uint32) {
	switch {
	case kind == http2.FrameHeaders && stream > c.newest: // otherwise trailers
		c.newest = stream
		c.openMu.Lock()
		first := len(c.open) == 0
		if c.open != nil {
			c.open[stream] = 0
			c.unfinished.add(c, 1)
		}
		c.openMu.Unlock()
		if first {
			c.unfinished.watch()
		}
	case kind == http2.FrameRSTStream && c.finished(stream):
		c.resets = true
	case kind == http2.FrameSettings:
		c.settings += c.incoming.skip / settingBytes
	}
}

// went notes a frame to the client.
func (c *unfinishedConn) went(kind http2.FrameType, flags http2.Flags, stream uint32) {
	switch {
	case kind == http2.FrameRSTStream, kind == http2.FrameHeaders && flags.Has(http2.FlagHeadersEndStream):
		c.finished(stream)
	case kind == http2.FrameHeaders:
		c.openMu.Lock()
		if _, ok := c.open[stream]; ok {
			c.open[stream] = max(c.unfinished.now.Load(), 1)
		}
		c.openMu.Unlock()
	}
}

// finished removes a request, and reports whether it was open.
func (c *unfinishedConn) finished(stream uint32) bool {
	c.openMu.Lock()
	defer c.openMu.Unlock()
	if _, ok := c.open[stream]; !ok {
		return false
	}
	delete(c.open, stream)
	c.unfinished.add(c, -1)
	return true
}

// unanswered is how many requests are open.
func (c *unfinishedConn) unanswered() int {
	c.openMu.Lock()
	defer c.openMu.Unlock()
	return len(c.open)
}

// stuck reports whether answers could not be sent for so many ticks.
func (c *unfinishedConn) stuck(now, ticks int64) bool {
	if since := c.writing.Load(); since != 0 && now-since >= ticks {
		return true
	}
	c.openMu.Lock()
	defer c.openMu.Unlock()
	waiting := -max(c.streams.Load(), c.lasted) // whose answers last, or have just ended
	for _, since := range c.open {
		if since != 0 && now-since >= ticks {
			waiting++
		}
	}
	return waiting > 0
}

// oldest is the request that began first. There must be one.
func (c *unfinishedConn) oldest() *unfinishedRequest {
	return c.requests.Front().Value.(*unfinishedRequest)
}

// aged reports whether the oldest request is not whole for so many ticks.
func (c *unfinishedConn) aged(now, ticks int64) bool {
	return c.requests.Len() > 0 && now-c.oldest().since >= ticks
}

// held is what the connection holds. It needs the lock of unfinished.
func (c *unfinishedConn) held() int64 { return c.load.Load()*requestCost + c.bytes() }

// bytes is at most how many bytes its requests hold: what came since the oldest began,
// without what became whole meanwhile.
func (c *unfinishedConn) bytes() int64 {
	if c.requests.Len() == 0 {
		return 0
	}
	return c.read.Load() - c.whole - c.oldest().before
}

// credentials make connections by inner, and unfinishedConns of them.
func (u *unfinished) credentials(inner credentials.TransportCredentials) credentials.TransportCredentials {
	return unfinishedCredentials{inner, u}
}

type unfinishedCredentials struct {
	credentials.TransportCredentials
	unfinished *unfinished
}

// unfinishedInfo leads from a call to its connection.
type unfinishedInfo struct {
	credentials.AuthInfo
	conn *unfinishedConn
}

func (c unfinishedCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	inner, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	conn := newUnfinishedConn(inner, c.unfinished)
	return conn, unfinishedInfo{info, conn}, nil
}

func (c unfinishedCredentials) Clone() credentials.TransportCredentials {
	return unfinishedCredentials{c.TransportCredentials.Clone(), c.unfinished}
}

// registrar registers services whose requests are counted among u.
func (u *unfinished) registrar(s grpc.ServiceRegistrar) grpc.ServiceRegistrar {
	return unfinishedRegistrar{s, u}
}

type unfinishedRegistrar struct {
	grpc.ServiceRegistrar
	unfinished *unfinished
}

func (r unfinishedRegistrar) RegisterService(desc *grpc.ServiceDesc, service any) {
	counted := *desc
	counted.Methods = nil
	for _, method := range desc.Methods {
		handle := method.Handler
		method.Handler = func(srv any, ctx context.Context, receive func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			c := connOf(ctx)
			defer r.unfinished.add(c, 1)
			return handle(srv, ctx, func(m any) error {
				defer r.unfinished.add(c, -1)
				return r.unfinished.receive(ctx, m, receive)
			}, interceptor)
		}
		counted.Methods = append(counted.Methods, method)
	}
	r.ServiceRegistrar.RegisterService(&counted, service)
}

// connOf returns the connection of a call.
func connOf(ctx context.Context) *unfinishedConn {
	from, _ := peer.FromContext(ctx)
	return from.AuthInfo.(unfinishedInfo).conn
}

// errStreams refuses a call that would last.
var errStreams = status.Error(codes.ResourceExhausted, "too many streams, such as followed health checks")

// interceptStream bounds the streams, and counts their messages among u.
func (u *unfinished) interceptStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	c := connOf(stream.Context())
	defer u.streams.Add(-1)
	defer c.streams.Add(-1)
	all, own := u.streams.Add(1), c.streams.Add(1)
	if own > u.bounds.ownStreams {
		c.pause.Store(true)
	}
	if all > u.bounds.streams || own > u.bounds.ownStreams {
		return errStreams
	}
	return handle(srv, unfinishedStream{stream, u})
}

// dropHeaders takes the headers of a request that nobody reads, because a few bytes of
// HPACK can stand for many. gRPC keeps them in a map that a tap sees first.
func dropHeaders(keep ...string) tap.ServerInHandle {
	return func(ctx context.Context, info *tap.Info) (context.Context, error) {
		maps.DeleteFunc(info.Header, func(name string, _ []string) bool { return !slices.Contains(keep, name) })
		return ctx, nil
	}
}

type unfinishedStream struct {
	grpc.ServerStream
	unfinished *unfinished
}

func (s unfinishedStream) RecvMsg(m any) error {
	return s.unfinished.receive(s.Context(), m, s.ServerStream.RecvMsg)
}
