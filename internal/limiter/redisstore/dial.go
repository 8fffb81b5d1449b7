package redisstore

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
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
	tls func() *tls.Config // nil: none

	mu   sync.Mutex
	made map[*conn]struct{} // and not closed yet
}

func newDialer(config func() *tls.Config) *dialer {
	return &dialer{tls: config, made: make(map[*conn]struct{})}
}

// keepAlive notices a dead peer within 45 s even if nothing is sent.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3}

// dial connects to addr.
func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	plain := &net.Dialer{KeepAliveConfig: keepAlive}
	c := &conn{dialer: d}
	var err error
	if d.tls == nil {
		if c.Conn, err = plain.DialContext(ctx, network, addr); err == nil {
			c.socket = c.Conn.(syscall.Conn)
		}
	} else {
		secure := &tls.Dialer{NetDialer: plain, Config: d.tls()}
		if c.Conn, err = secure.DialContext(ctx, network, addr); err == nil {
			c.socket = c.Conn.(*tls.Conn).NetConn().(syscall.Conn)
		}
	}
	if err != nil {
		pipe, _ := net.Pipe()
		return failedConn{pipe, err}, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.made[c] = struct{}{}
	return c, nil
}

// drop breaks all connections, so that the next call makes a new one: to whoever
// is the primary by then.
func (d *dialer) drop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.made {
		_ = c.Conn.Close() // go-redis finds out and closes it for good
	}
}

// conn is a connection that can be dropped. It lets go-redis look at its
// socket, also below TLS. That is how it finds out that a connection is closed,
// and takes a new one instead of failing a call.
//
// Of what the other side sends it hands on nothing that no Redis replies: it fails
// then. If the other side breaks it, the error tells what
// Redis said last, if that was an error: Redis says why before it closes.
type conn struct {
	net.Conn
	dialer *dialer
	socket syscall.Conn

	mu      sync.Mutex // sentinels are read and written to at the same time
	replies framing
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if garbled := c.follow(p[:n]); garbled != nil {
		return 0, garbled // and so is every other, until go-redis closes it
	}
	return n, c.explain(err)
}

func (c *conn) follow(p []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.replies.follow(p)
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil && !isTimeout(err) {
		c.hear()
	}
	return n, c.explain(err)
}

// hear reads what has arrived on a connection that the other side has closed.
func (c *conn) hear() {
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond)) // if it fails, so does the next
	p := make([]byte, maxLine)
	n, _ := c.Conn.Read(p)
	_ = c.follow(p[:n])
}

// explain adds to an error what Redis said last.
func (c *conn) explain(err error) error {
	if err == nil || isTimeout(err) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.replies.said) == 0 {
		return err
	}
	return fmt.Errorf("%w, after Redis said: %s", err, c.replies.said)
}

func (c *conn) SyscallConn() (syscall.RawConn, error) { return c.socket.SyscallConn() }

// Close ends the connection and forgets it.
func (c *conn) Close() error {
	c.dialer.mu.Lock()
	defer c.dialer.mu.Unlock()
	delete(c.dialer.made, c)
	return c.Conn.Close()
}

// failedConn is a connection that could not be made.
type failedConn struct {
	net.Conn // has no other end
	err      error
}

func (c failedConn) Read([]byte) (int, error)  { return 0, c.err }
func (c failedConn) Write([]byte) (int, error) { return 0, c.err }
