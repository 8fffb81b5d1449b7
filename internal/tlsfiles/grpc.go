package tlsfiles

import (
	"context"
	"net"

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
	return credentials.NewTLS(f.config.TLS()).ServerHandshake(conn)
}

func (f fresh) Clone() credentials.TransportCredentials { return f }
