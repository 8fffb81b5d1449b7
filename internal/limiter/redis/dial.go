package redis

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

// dialer is how go-redis connects.
//
// It never reports an error but hands out a connection that fails with it.
// go-redis counts errors of dialing over the life of its pool and, once there
// have been as many as the pool has room for, refuses to dial for a second
// after each: Redis would be back and we would not ask it.
type dialer struct {
	network string             // tcp or unix
	tls     func() *tls.Config // nil: none
	age     atomic.Int64       // connections made before it was last raised are to be replaced
}

// keepAlive notices a dead peer within 45 s even if nothing is sent.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3}

func (d *dialer) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	plain := &net.Dialer{KeepAliveConfig: keepAlive}
	connect := plain.DialContext
	if d.tls != nil {
		connect = (&tls.Dialer{NetDialer: plain, Config: d.tls()}).DialContext
	}
	c := &conn{dialer: d, age: d.age.Load()}
	var err error
	if c.Conn, err = connect(ctx, d.network, addr); err != nil {
		pipe, _ := net.Pipe() // has no other end
		return failedConn{pipe, err}, nil
	}
	return c, nil
}

// failedConn is a connection that could not be made.
type failedConn struct {
	net.Conn
	err error
}

func (c failedConn) Read([]byte) (int, error)  { return 0, c.err }
func (c failedConn) Write([]byte) (int, error) { return 0, c.err }

// conn is a connection that go-redis can look at, also below TLS, and whose errors tell what
// Redis said last, if that was an error: it says why before it closes. It fails at an
// invalid reply, which go-redis never sees.
type conn struct {
	net.Conn
	dialer  *dialer
	age     int64  // of the dialer when it was made
	said    string // an error, or nothing
	replies framing
	invalid error // of the first invalid reply; it stays, because go-redis ignores errors of some reads
}

// mostSaid is how much of an error of Redis is told, in bytes.
const mostSaid = 1024

func (c *conn) Read(p []byte) (int, error) {
	if c.invalid != nil {
		return 0, c.invalid
	}
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.said = ""
		if p[0] == '-' {
			line, _, _ := bytes.Cut(p[1:n], []byte("\r\n"))
			c.said = ", after Redis said: " + string(line[:min(len(line), mostSaid)])
		}
		if c.invalid = c.replies.follow(p[:n]); c.invalid != nil {
			return 0, c.invalid
		}
	}
	return n, c.explain(err)
}

// SetReadDeadline starts a new call: go-redis sets the deadline before it reads the replies to
// each call.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.replies.size = 0
	return c.Conn.SetReadDeadline(t)
}

func (c *conn) Write(p []byte) (int, error) {
	c.replies.expect(p)
	n, err := c.Conn.Write(p)
	return n, c.explain(err)
}

func (c *conn) explain(err error) error {
	if err == nil || c.said == "" || errors.Is(err, os.ErrDeadlineExceeded) { // it says nothing of being slow
		return err
	}
	return fmt.Errorf("%w%s", err, c.said)
}

var errReplaced = errors.New("the connection is to be replaced")

// SyscallConn returns the socket. go-redis looks at it before each call: if the other side
// has closed the connection, or there is an error, it takes a new one instead of failing the
// call.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if c.age != c.dialer.age.Load() {
		return nil, errReplaced
	}
	below := c.Conn
	if secure, ok := below.(*tls.Conn); ok {
		below = secure.NetConn()
	}
	return below.(syscall.Conn).SyscallConn()
}
