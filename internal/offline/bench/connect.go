package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// connectTimeout is how long all servers together may take to be reached.
const connectTimeout = 10 * time.Second

// connectAll connects to the servers. It returns the connections that were made
// whatever became of the others.
func connectAll(ctx context.Context, opts *Options) (conns []*grpc.ClientConn, err error) {
	transport := insecure.NewCredentials()
	if opts.TLS != nil {
		transport = credentials.NewTLS(opts.TLS)
	}
	for i := range opts.Connections {
		server := opts.Servers[i%len(opts.Servers)]
		conn, err := grpc.NewClient(server,
			grpc.WithTransportCredentials(transport),
			grpc.WithDisableServiceConfig(), // one in the DNS could have requests sent again
			grpc.WithNoProxy())
		if err != nil {
			return conns, fmt.Errorf("server %q: %w", server, err)
		}
		conns = append(conns, conn)
	}
	inTime, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	for i, conn := range conns {
		if err := connect(inTime, conn); err != nil {
			if ctx.Err() != nil {
				err = errors.New("interrupted while connecting")
			}
			return conns, fmt.Errorf("server %q: %w", opts.Servers[i%len(opts.Servers)], err)
		}
	}
	return conns, nil
}

// connect waits until conn is ready, or has failed to be.
func connect(ctx context.Context, conn *grpc.ClientConn) error {
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if state == connectivity.TransientFailure {
			// gRPC says why to a call only, which it refuses.
			_, err := ratelimitv3.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, new(ratelimitv3.RateLimitRequest))
			return fmt.Errorf("no connection: %s", plain(status.Convert(err).Message()))
		}
		if !conn.WaitForStateChange(ctx, state) {
			return fmt.Errorf("no connection within %v", connectTimeout)
		}
	}
	return nil
}

// plain adds to what gRPC says of a connection what it leaves to be guessed.
func plain(why string) string {
	for _, known := range []struct{ part, meaning string }{
		{"produced zero addresses", "the host is unknown: "},
		{"first record does not look like a TLS handshake", "it does not speak TLS: "},
		{"remote error: tls: ", "it refuses this client: "}, // by TLS 1.3 such a client takes the handshake for done
		{"server preface", "it is no gRPC server, or one with TLS: "},
	} {
		if strings.Contains(why, known.part) {
			return known.meaning + why
		}
	}
	return why
}
