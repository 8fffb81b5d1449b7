package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// connectTimeout is the time limit for connecting to all servers.
const connectTimeout = 10 * time.Second

// connectAll connects to the servers. If it fails, it also returns the connections made
// so far, which the caller must close.
func connectAll(ctx context.Context, opts *Options) (conns []*grpc.ClientConn, err error) {
	transport := insecure.NewCredentials()
	if opts.TLS != nil {
		transport = credentials.NewTLS(opts.TLS)
	}
	inTime, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	for i := range opts.Connections {
		server := opts.Servers[i%len(opts.Servers)]
		conn, err := grpc.NewClient(server,
			grpc.WithTransportCredentials(transport),
			grpc.WithDisableServiceConfig(), // a service config in DNS could enable retries
			grpc.WithNoProxy())
		if err != nil {
			return conns, fmt.Errorf("server %q: %w", server, err)
		}
		conns = append(conns, conn)
		if err := connect(inTime, conn); err != nil {
			return conns, fmt.Errorf("server %q: no connection: %w", server, err)
		}
	}
	return conns, nil
}

// connect waits until conn is ready. It fails if the first attempt fails or ctx is done.
func connect(ctx context.Context, conn *grpc.ClientConn) error {
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if state == connectivity.TransientFailure {
			// Only the error of a call says why the connection failed.
			_, err := ratelimitv3.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, new(ratelimitv3.RateLimitRequest))
			return errors.New(status.Convert(err).Message())
		}
		if !conn.WaitForStateChange(ctx, state) {
			return ctx.Err()
		}
	}
	return nil
}
