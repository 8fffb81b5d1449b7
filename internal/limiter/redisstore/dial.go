package redisstore

import (
	"context"
	"crypto/tls"
	"net"
	"syscall"
	"time"
)

// dialer returns how go-redis connects: with TLS if config is not nil.
//
// It never reports an error but hands out a connection that fails with it.
// go-redis counts errors of dialing over the life of its pool and, once there
// have been as many as the pool has room for, refuses to dial for a second
// after each: Redis would be back and we would not ask it.
func dialer(config *tls.Config) func(ctx context.Context, network, addr string) (net.Conn, error) {
	// A dead peer is noticed within 45 s even if nothing is sent.
	plain := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3,
	}}
	secure := &tls.Dialer{NetDialer: plain, Config: config}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		var conn net.Conn
		var err error
		if config == nil {
			conn, err = plain.DialContext(ctx, network, addr)
		} else if conn, err = secure.DialContext(ctx, network, addr); err == nil {
			conn = tlsConn{conn.(*tls.Conn)}
		}
		if err != nil {
			pipe, _ := net.Pipe()
			return failedConn{pipe, err}, nil
		}
		return conn, nil
	}
}

// tlsConn lets go-redis look at the socket below TLS. That is how it finds out
// that Redis has closed an idle connection, and takes a new one instead of
// failing a call.
type tlsConn struct{ *tls.Conn }

func (c tlsConn) SyscallConn() (syscall.RawConn, error) {
	return c.NetConn().(*net.TCPConn).SyscallConn()
}

// failedConn is a connection that could not be made.
type failedConn struct {
	net.Conn // has no other end
	err      error
}

func (c failedConn) Read([]byte) (int, error)  { return 0, c.err }
func (c failedConn) Write([]byte) (int, error) { return 0, c.err }
