package tlsfiles

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"syscall"
	"time"

	"google.golang.org/grpc/credentials"
)

// Credentials are for a gRPC server or client. Each connection is made with the
// newest good files.
func (c *Config) Credentials() credentials.TransportCredentials {
	return fresh{credentials.NewTLS(c.TLS()), c}
}

// fresh asks for the configuration with each handshake.
type fresh struct {
	credentials.TransportCredentials // for what does not depend on the files
	config                           *Config
}

func (f fresh) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(f.config.TLS()).ClientHandshake(ctx, authority, conn)
}

func (f fresh) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secure, info, err := credentials.NewTLS(f.config.TLS()).ServerHandshake(conn)
	if err != nil {
		f.config.logRefusal(conn.RemoteAddr(), err)
	}
	return secure, info, err
}

// logRefusal says why a client could not connect, which clients themselves
// rarely do. There is one warning a minute, because clients try again and
// again, and none of those that only look whether somebody listens.
func (c *Config) logRefusal(client net.Addr, err error) {
	level := slog.LevelWarn
	now, last := time.Now().Unix(), c.refused.Load()
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || now-last < 60 || !c.refused.CompareAndSwap(last, now) {
		level = slog.LevelDebug
	}
	c.opts.Logger.Log(context.Background(), level, "a TLS client is refused", "client", client, "err", err)
}

func (f fresh) Clone() credentials.TransportCredentials { return f }
