package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
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
	network   string             // tcp or unix
	tls       func() *tls.Config // nil: none
	sentinels *sentinels         // who know where to connect to; nil: go-redis does
	changing  *changing          // where to connect to and as whom; nil: go-redis knows

	mu   sync.Mutex
	made map[*conn]struct{} // and not closed yet
}

func newDialer(network string, config func() *tls.Config) *dialer {
	return &dialer{network: network, tls: config, made: make(map[*conn]struct{})}
}

// keepAlive notices a dead peer within 45 s even if nothing is sent.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3}

// find returns where to connect to: to addr or, if sentinels know it, to the
// primary. It breaks the connections to what is no longer that, or after a change of
// sentinels has them replaced after their calls.
func (d *dialer) find(ctx context.Context, addr string) (string, error) {
	if d.sentinels == nil {
		return addr, nil
	}
	return d.sentinels.primary(ctx, func(addr string, isFirst bool) {
		if isFirst {
			d.retire(func(c *conn) bool { return c.addr != addr }) // after the calls that they carry
		} else {
			d.drop(addr)
		}
	})
}

// dial connects to addr, or to the primary that sentinels know.
func (d *dialer) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	addr, err := d.find(ctx, addr)
	if err != nil {
		return newFailedConn(err), nil
	}
	if d.changing != nil {
		return d.enter(ctx, addr), nil
	}
	c, err := d.connect(ctx, addr)
	if err != nil {
		return newFailedConn(err), nil
	}
	d.keep(c)
	return c, nil
}

// connect makes a connection.
func (d *dialer) connect(ctx context.Context, addr string) (*conn, error) {
	plain := &net.Dialer{KeepAliveConfig: keepAlive}
	connect := plain.DialContext
	if d.tls != nil {
		connect = (&tls.Dialer{NetDialer: plain, Config: d.tls()}).DialContext
	}
	made, err := connect(ctx, d.network, addr)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: made, dialer: d, addr: addr}, nil
}

// keep notes a connection that go-redis gets.
func (d *dialer) keep(c *conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.made[c] = struct{}{}
}

// drop breaks all connections but those to an address, so that the next call makes a
// new one: to the server that is the primary by then.
func (d *dialer) drop(but string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.made {
		if c.addr != but && !c.retired.Load() { // a retired one ends with its call
			_ = c.Conn.Close() // go-redis finds out and closes it for good
		}
	}
}

// conn is a connection that can be dropped. It lets go-redis look at its
// socket, also below TLS. That is how go-redis finds out that a connection is
// closed, and takes a new one instead of failing a call.
//
// A read fails if it holds what no Redis replies. When the other side ends the
// connection, the error says what it replied last, if that was an error: Redis says
// why before it closes.
type conn struct {
	net.Conn
	dialer  *dialer
	addr    string
	target  target      // that it was made for
	retired atomic.Bool // go-redis is to take a new one instead
	replies framing

	bounded  bool // reads wait no longer than patience
	patience Patience
	forWrite time.Duration // how long a write may take, 0 is any time
}

// SetReadDeadline lets reads wait for bytes until t. Time in which this process did not
// run is added.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.bounded = !t.IsZero()
	if c.bounded {
		c.patience = NewPatience(time.Until(t))
		return nil // Read sets one for each look
	}
	return c.Conn.SetReadDeadline(t)
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.look(p)
	for c.bounded && isTimeout(err) && c.patience.More() {
		n, err = c.look(p)
	}
	if garbled := c.replies.follow(p[:n]); garbled != nil {
		return 0, garbled // and so is every other, until go-redis closes it
	}
	return n, c.explain(err)
}

// look reads what comes within a look.
func (c *conn) look(p []byte) (int, error) {
	if !c.bounded {
		return c.Conn.Read(p)
	}
	began := time.Now()
	if err := c.Conn.SetReadDeadline(began.Add(c.patience.Look())); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	c.patience.Spend(time.Since(began))
	return n, err
}

// SetWriteDeadline lets a write take until t, if it began now: time in which this process
// did not run before the write is added.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.forWrite = 0
	if !t.IsZero() {
		c.forWrite = max(time.Until(t), 1)
		return nil // Write sets it
	}
	return c.Conn.SetWriteDeadline(t)
}

func (c *conn) Write(p []byte) (int, error) {
	began := time.Now()
	n, err := c.write(p)
	if n == 0 && isTimeout(err) && time.Since(began) > c.forWrite*5/4 {
		n, err = c.write(p) // this process did not run and may not even have tried
	}
	if err != nil && !isTimeout(err) {
		c.hear()
	}
	return n, c.explain(err)
}

func (c *conn) write(p []byte) (int, error) {
	if c.forWrite > 0 {
		if err := c.Conn.SetWriteDeadline(time.Now().Add(c.forWrite)); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(p)
}

// hear reads what has arrived on a connection that the other side has closed.
func (c *conn) hear() {
	_ = c.Conn.SetReadDeadline(time.Now().Add(time.Millisecond)) // if it fails, so does the next
	p := make([]byte, maxLine)
	n, _ := c.Conn.Read(p)
	_ = c.replies.follow(p[:n])
}

// explain adds to an error what Redis said last.
func (c *conn) explain(err error) error {
	if err == nil || isTimeout(err) || len(c.replies.said) == 0 {
		return err
	}
	return fmt.Errorf("%w, after Redis said: %s", err, c.replies.said)
}

// isTimeout reports whether a connection ran out of time.
func isTimeout(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}

// SyscallConn returns the socket of c. go-redis asks for it before it uses a connection for
// a call, and takes another one if there is an error.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if c.retired.Load() {
		return nil, errRetired
	}
	below := c.Conn
	if secure, ok := below.(*tls.Conn); ok {
		below = secure.NetConn()
	}
	return below.(syscall.Conn).SyscallConn()
}

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

func newFailedConn(err error) net.Conn {
	pipe, _ := net.Pipe()
	return failedConn{pipe, err}
}

func (c failedConn) Read([]byte) (int, error)  { return 0, c.err }
func (c failedConn) Write([]byte) (int, error) { return 0, c.err }
