package e2e

import (
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"weir/internal/testenv"
)

// A client that speaks gRPC learns from its status that it is over a limit.
func TestGRPCClientsGetResourceExhausted(t *testing.T) {
	t.Parallel()
	const rules = `
domain: api
descriptors:
  - key: method
    value: /grpc.health.v1.Health/Check
    descriptors:
      - key: user
        rate_limit: {unit: day, requests_per_unit: 2}
`
	s := startGateway(t, gateway{
		rateLimit: "rate_limited_as_resource_exhausted: true",
		virtualHost: `
routes:
  - match: {prefix: /, grpc: {}}
    route:
      cluster: echo
      rate_limits:
        - actions:
            - request_headers: {header_name: ":path", descriptor_key: method}
            - request_headers: {header_name: x-user, descriptor_key: user}
`,
		http2: true,
	}, startGRPCUpstream(t), rules)

	conn := testenv.Must(grpc.NewClient("passthrough:///"+s.addr, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	c := grpc_health_v1.NewHealthClient(conn)
	for _, user := range []string{"alice", "bob"} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-user", user)
		for i, want := range []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted, codes.ResourceExhausted} {
			_, err := c.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
			if got := status.Code(err); got != want {
				t.Errorf("call %d of %s: %v (%v), want %v", i+1, user, got, err, want)
			}
		}
	}
}

// startGRPCUpstream starts a gRPC server with the health service for Envoy to
// forward to, and returns its address.
func startGRPCUpstream(t *testing.T) string {
	t.Helper()
	listener := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(s, health.NewServer())
	go func() { _ = s.Serve(listener) }() // ends with Stop
	t.Cleanup(s.Stop)
	return listener.Addr().String()
}
