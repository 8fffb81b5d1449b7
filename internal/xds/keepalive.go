package xds

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc/credentials"
)

// probes let the system notice within a minute that the other side of a silent
// connection has gone, as after the loss of its machine. gRPC asks for probes,
// too, but in the rhythm of the system, which is hours.
var probes = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3}

// keepAlive are credentials that set up TCP on the way: they are the one place
// that gets each connection whichever way gRPC made it, also through a proxy.
type keepAlive struct {
	credentials.TransportCredentials
}

// ClientHandshake turns on the probes of a TCP connection.
func (k keepAlive) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetKeepAliveConfig(probes) // fails on systems that have no such settings
	}
	return k.TransportCredentials.ClientHandshake(ctx, authority, conn)
}

// Clone is part of the interface.
func (k keepAlive) Clone() credentials.TransportCredentials {
	return keepAlive{k.TransportCredentials.Clone()}
}
