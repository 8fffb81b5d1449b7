package e2e

import (
	"context"
	"fmt"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"weir/internal/testenv"
)

// connection returns a connection of gRPC, which ends with the test.
func connection(t *testing.T, addr string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn := testenv.Must(grpc.NewClient(addr, options...))(t)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// dial returns a client of the rate-limit service at addr, on a connection of its own.
func dial(t *testing.T, addr string) service.RateLimitServiceClient {
	t.Helper()
	return service.NewRateLimitServiceClient(connection(t, "passthrough:///"+addr))
}

// descriptor is a descriptor of keys and values.
func descriptor(pairs ...string) *ratelimit.RateLimitDescriptor {
	d := new(ratelimit.RateLimitDescriptor)
	for i := 0; i < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return d
}

// request is a request of the domain api.
func request(descriptors ...*ratelimit.RateLimitDescriptor) *service.RateLimitRequest {
	return &service.RateLimitRequest{Domain: "api", Descriptors: descriptors}
}

// decide lets a client ask, for as long as it takes on a busy machine.
func decide(client service.RateLimitServiceClient, r *service.RateLimitRequest) (*service.RateLimitResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return client.ShouldRateLimit(ctx, r)
}

// peek looks at the limit of a descriptor on a new connection: how much it still admits.
func (w *weir) peek(domain string, pairs ...string) (uint32, error) {
	w.t.Helper()
	d := descriptor(pairs...)
	d.HitsAddend = wrapperspb.UInt64(0)
	answer, err := decide(dial(w.t, w.grpc), &service.RateLimitRequest{Domain: domain, Descriptors: []*ratelimit.RateLimitDescriptor{d}})
	if err != nil {
		return 0, err
	}
	return answer.Statuses[0].LimitRemaining, nil
}

// remaining is peek in the domain api, where Weir must answer.
func (w *weir) remaining(key, value string) uint32 {
	w.t.Helper()
	return testenv.Must(w.peek("api", key, value))(w.t)
}

// waitForRemaining waits until a descriptor of a domain has exactly so much left.
func (w *weir) waitForRemaining(want uint32, domain string, pairs ...string) {
	w.t.Helper()
	testenv.Eventually(w.t, func() error {
		got, err := w.peek(domain, pairs...)
		if err == nil && got != want {
			err = fmt.Errorf("%q has %d left, want %d", pairs, got, want)
		}
		return err
	})
}
