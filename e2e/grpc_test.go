package e2e

import (
	"context"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"weir/internal/testenv"
)

// dial returns a client of the rate-limit service at addr, on a connection of
// its own.
func dial(t *testing.T, addr string) service.RateLimitServiceClient {
	t.Helper()
	conn := testenv.Must(grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { conn.Close() })
	return service.NewRateLimitServiceClient(conn)
}

// descriptor is one descriptor of one entry.
func descriptor(key, value string) *ratelimit.RateLimitDescriptor {
	return &ratelimit.RateLimitDescriptor{
		Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: key, Value: value}},
	}
}

// remaining peeks at the limit of a descriptor: how much it still admits.
func (w *weir) remaining(key, value string) uint32 {
	w.t.Helper()
	remaining, err := w.peek(key, value)
	if err != nil {
		w.t.Fatalf("peeking at %s=%s: %v", key, value, err)
	}
	return remaining
}

// peek is remaining where Weir may fail to answer.
func (w *weir) peek(key, value string) (uint32, error) {
	w.t.Helper()
	d := descriptor(key, value)
	d.HitsAddend = wrapperspb.UInt64(0)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := dial(w.t, w.grpc).ShouldRateLimit(ctx, &service.RateLimitRequest{
		Domain: "api", Descriptors: []*ratelimit.RateLimitDescriptor{d},
	})
	if err != nil {
		return 0, err
	}
	return resp.Statuses[0].LimitRemaining, nil
}
