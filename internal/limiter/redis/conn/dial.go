package conn

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// dialer opens connections for go-redis.
//
// Instead of an error, dial returns a connection that fails with that error. go-redis counts dial
// errors over the life of its pool. Once their number reaches the maximum size of the pool,
// go-redis does not dial for a second after each error, even if Redis is available again.
type dialer struct {
	network string             // tcp or unix
	tls     func() *tls.Config // nil disables TLS
	age     atomic.Int64       // incremented when all existing connections must be replaced
}

func (d *dialer) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	plain := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{ // detects a dead peer within 45 s
		Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3,
	}}
	connect := plain.DialContext
	if d.tls != nil {
		connect = (&tls.Dialer{NetDialer: plain, Config: d.tls()}).DialContext
	}
	c := &connection{dialer: d, age: d.age.Load()}
	var err error
	if c.Conn, err = connect(ctx, d.network, addr); err != nil {
		pipe, _ := net.Pipe() // a connection without a peer
		return failedConn{pipe, err}, nil
	}
	return c, nil
}

// failedConn stands for a connection that could not be opened. Read and Write return the error.
type failedConn struct {
	net.Conn
	err error
}

func (c failedConn) Read([]byte) (int, error)  { return 0, c.err }
func (c failedConn) Write([]byte) (int, error) { return 0, c.err }

// connection is a connection that go-redis can inspect, even below TLS. If the last reply was an
// error, the connection's errors quote it, because Redis replies with the reason before it
// closes a connection. An invalid reply makes the connection fail before go-redis sees the
// reply.
type connection struct {
	net.Conn
	dialer  *dialer
	age     int64  // the dialer's age when the connection was opened
	said    string // quotes the last reply if it was an error, else empty
	replies framing
	invalid error // error of the first invalid reply, kept because go-redis ignores the errors of some reads
}

func (c *connection) Read(p []byte) (int, error) {
	if c.invalid != nil {
		return 0, c.invalid
	}
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.said = ""
		if p[0] == '-' {
			line, _, _ := bytes.Cut(p[1:n], []byte("\r\n"))
			c.said = ", after Redis said: " + string(line[:min(len(line), 1024)])
		}
		if c.invalid = c.replies.follow(p[:n]); c.invalid != nil {
			return 0, c.invalid
		}
	}
	return n, c.explain(err)
}

// SetReadDeadline also marks the start of a call, because go-redis sets the deadline before it
// reads the replies to a call.
func (c *connection) SetReadDeadline(t time.Time) error {
	c.replies.size = 0
	return c.Conn.SetReadDeadline(t)
}

func (c *connection) Write(p []byte) (int, error) {
	c.replies.expect(p)
	n, err := c.Conn.Write(p)
	return n, c.explain(err)
}

func (c *connection) explain(err error) error {
	if err == nil || c.said == "" || errors.Is(err, os.ErrDeadlineExceeded) { // a slow Redis gives no reason
		return err
	}
	return fmt.Errorf("%w%s", err, c.said)
}

// SyscallConn returns the socket. go-redis inspects the socket before each call. If the peer has
// closed the connection, or if SyscallConn fails, go-redis uses another connection for the call.
func (c *connection) SyscallConn() (syscall.RawConn, error) {
	if c.age != c.dialer.age.Load() {
		return nil, errors.New("the connection is to be replaced")
	}
	below := c.Conn
	if secure, ok := below.(*tls.Conn); ok {
		below = secure.NetConn()
	}
	return below.(syscall.Conn).SyscallConn()
}
