package rls

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoregistry"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/testenv"
)

func TestBadRequests(t *testing.T) {
	opts := options(t, rules)
	opts.MaxDescriptors = 3
	conn := serve(t, opts.service())
	for _, tc := range []struct{ name, request, want string }{
		{"empty domain", "domain: user=a", "the domain is empty"},
		{"no descriptors", "", "the request has no descriptors"},
		{"empty key", "{} user=a;=b", "descriptor 1: the key of entry 1 is empty"},
		{"no unit", "user=a(1/UNKNOWN)", "descriptor 0: limit: undefined unit, allowed are second, minute, hour, day, month, year"},
		{"undefined unit", "user=a(1/7)", "descriptor 0: limit: undefined unit, allowed are second, minute, hour, day, month, year"},
		{"undefined unit in a domain without rules", "domain:none user=a(0/7)", "descriptor 0: limit: undefined unit, allowed are second, minute, hour, day, month, year"},
		{"long period in a domain without rules", "domain:none user=a(0/YEAR*101)", "descriptor 0: limit: a period of 101 years is too long, at most 100 years are allowed"},
		{"long period", "user=a user=a(0/YEAR*101)", "descriptor 1: limit: a period of 101 years is too long, at most 100 years are allowed"},
		{"many descriptors", "{} {} {} {}", "the request has more than the 3 descriptors that are permitted"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ask(t, conn, tc.request)
			expectError(t, err, codes.InvalidArgument, tc.want)
		})
	}
	t.Run("large", func(t *testing.T) {
		_, err := askRaw(t, conn, message{}.string(1, strings.Repeat("a", maxBytes)))
		expectError(t, err, codes.InvalidArgument, "the message has 1048580 bytes, at most 1048576 are permitted")
	})
	t.Run("too large for gRPC", func(t *testing.T) {
		_, err := askRaw(t, conn, message{}.string(1, strings.Repeat("a", maxReceived)))
		if grpcstatus.Code(err) != codes.ResourceExhausted {
			t.Errorf("got %v, want RESOURCE_EXHAUSTED", err)
		}
	})
	broken := message{0x0a, 0xff} // a field longer than the message
	for want, wire := range map[string]message{
		"the message is malformed":                            broken,
		"descriptor 1: the message is malformed":              message{}.bytes(2, nil).bytes(2, broken),
		"descriptor 0: entry 1: the message is malformed":     message{}.bytes(2, entryMessage("user", "a").bytes(1, broken)),
		"descriptor 0: limit: the message is malformed":       message{}.bytes(2, message{}.bytes(2, broken)),
		"descriptor 0: hits_addend: the message is malformed": message{}.bytes(2, message{}.bytes(3, broken)),
	} {
		t.Run(want, func(t *testing.T) {
			_, err := askRaw(t, conn, wire)
			expectError(t, err, codes.InvalidArgument, want)
		})
	}
}

// failing is a store that cannot decide. It waits for the caller to give up if
// it is told to.
type failing struct{ wait bool }

func (s failing) Decide(ctx context.Context, _ []limiter.Hit, _ []limiter.Decision) (bool, error) {
	if s.wait {
		<-ctx.Done()
	}
	return false, fmt.Errorf("asking redis://:secret@10.0.0.1: %w", limiter.ErrUnavailable)
}

func TestStoreFails(t *testing.T) {
	expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		name string
		ctx  context.Context
		wait bool
		code codes.Code
		want string
	}{
		{"at once", t.Context(), false, codes.Unavailable, "the store of the counters is unavailable"},
		{"after the deadline", expired, true, codes.DeadlineExceeded, "the store did not decide within the deadline"},
		{"after the caller has gone", cancelled, true, codes.Canceled, "the caller cancelled the request"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			opts := options(t, rules)
			opts.store = failing{tc.wait}
			s := opts.service()
			c := s.calls.Get().(*call)
			c.wire = wires(t)["full"]
			expectError(t, s.decide(tc.ctx, c), tc.code, tc.want)
		})
	}
}

func TestNoRules(t *testing.T) {
	opts := options(t, rules)
	opts.rules = func() *descriptors.Tree { return nil }
	_, err := ask(t, serve(t, opts.service()), "user=a")
	expectError(t, err, codes.Unavailable, "no rules are loaded")
}

func TestOtherServicesOfTheServer(t *testing.T) {
	conn := serve(t, options(t, rules).service())
	if got := testenv.Must(healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{}))(t); got.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("got %v, want SERVING", got.GetStatus())
	}
}

func TestReflectionFindsTheService(t *testing.T) {
	server := grpc.NewServer(ServerOptions()...)
	options(t, rules).service().Register(server)
	info, ok := server.GetServiceInfo()[ratelimitv3.RateLimitService_ServiceDesc.ServiceName]
	if !ok {
		t.Fatalf("services are %v", server.GetServiceInfo())
	}
	file := testenv.Must(protoregistry.GlobalFiles.FindFileByPath(info.Metadata.(string)))(t)
	service := file.Services().ByName("RateLimitService")
	if service == nil || service.Methods().ByName(methodName) == nil {
		t.Errorf("%s does not describe the service", file.Path())
	}
}

func TestInterceptors(t *testing.T) {
	refusal := grpcstatus.Error(codes.PermissionDenied, "not today")
	var method string
	refuse := false
	conn := serve(t, options(t, rules).service(), grpc.UnaryInterceptor(
		func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			method = info.FullMethod
			if refuse {
				return nil, refusal
			}
			return handler(ctx, req)
		}))
	expect(t, conn, "user=a", "OK: OK 1 of 2/MINUTE for 30s")
	if method != ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName {
		t.Errorf("the interceptor saw method %q", method)
	}
	refuse = true
	_, err := ask(t, conn, "user=a")
	if !errors.Is(err, refusal) {
		t.Errorf("got %v, want %v", err, refusal)
	}
}

// Requests at the same time, and one after the other in the same memory, do not
// see each other.
func TestConcurrentRequests(t *testing.T) {
	conn := serve(t, options(t, rules).service())
	var wg sync.WaitGroup
	for worker := range 16 {
		wg.Go(func() {
			for i := range 50 {
				name := strings.Repeat(fmt.Sprint(worker, "-", i), 1+i%7)
				const path = ", OK %d of 3/HOUR paths for 30s"
				expect(t, conn, "user="+name+strings.Repeat(" path="+name, i%3),
					"OK: OK 1 of 2/MINUTE for 30s"+strings.Repeat(fmt.Sprintf(path, 3-i%3), i%3))
			}
		})
	}
	wg.Wait()
}
