package rls

import (
	"context"
	"log/slog"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/limiter/memory"
	"weir/internal/plan"
	"weir/internal/telemetry"
	"weir/internal/testenv"
)

// now is the time of all decisions: 30 s before the end of a minute and an
// hour, 30 s and 12 h before that of a day.
var now = time.Date(2026, 8, 1, 11, 59, 30, 0, time.UTC)

func clock() time.Time { return now }

func load(t testing.TB, rules string) *descriptors.Tree {
	t.Helper()
	tree, err := descriptors.Load([]descriptors.File{{Name: "rules.yaml", Data: []byte(rules)}}, descriptors.Options{})
	must(t, err)
	return tree
}

// ServiceOptions are Options beside those of plan.
type ServiceOptions = Options

// setup is what a service is made of.
type setup struct {
	ServiceOptions
	plan.Options
	MaxDescriptors, maxDetailed int

	rules func() *descriptors.Tree
	store limiter.Store
}

// options are those of a service with these rules whose counters are in memory.
func options(t testing.TB, rules string) *setup {
	t.Helper()
	tree := load(t, rules)
	return &setup{
		ServiceOptions: Options{Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler)},
		rules:          func() *descriptors.Tree { return tree },
		store:          memory.New(memory.Options{Now: clock}),

		maxDetailed: 10_000,
	}
}

// service makes the service, with the defaults of the server.
func (o *setup) service() *Service {
	usage := telemetry.New(telemetry.Options{
		Registerer: o.Registerer, NearLimitRatio: 0.8, MaxDetailedSeries: o.maxDetailed, Logger: o.Logger,
	})
	o.Options.MaxDescriptors, o.ServiceOptions.MaxDescriptors = o.MaxDescriptors, o.MaxDescriptors
	o.Decider = &plan.Decider{Planner: plan.New(o.Options), Rules: o.rules, Store: o.store, Usage: usage}
	return New(o.ServiceOptions)
}

// serve runs s, and the health service beside it, on a port of its own.
func serve(t testing.TB, s *Service, opts ...grpc.ServerOption) *grpc.ClientConn {
	t.Helper()
	server := grpc.NewServer(append(ServerOptions(), opts...)...)
	s.Register(server)
	healthv1.RegisterHealthServer(server, health.NewServer())
	conn, err := grpc.NewClient(testenv.ServeGRPC(t, server), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// ask sends a request in protobuf's text format.
func ask(t testing.TB, conn *grpc.ClientConn, request string) (*ratelimitv3.RateLimitResponse, error) {
	t.Helper()
	var m ratelimitv3.RateLimitRequest
	parse(t, request, &m)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return ratelimitv3.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &m)
}

// expect compares the answer to a request with want, both in text format.
func expect(t *testing.T, conn *grpc.ClientConn, request, want string) {
	t.Helper()
	got, err := ask(t, conn, request)
	must(t, err)
	var m ratelimitv3.RateLimitResponse
	parse(t, want, &m)
	if !proto.Equal(got, &m) {
		t.Errorf("request %s\n got %v\nwant %v", request, got, &m)
	}
}

func parse(t testing.TB, text string, m proto.Message) {
	t.Helper()
	if err := prototext.Unmarshal([]byte(text), m); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}

// rawCodec sends and receives bytes as they are.
type rawCodec struct{}

func (rawCodec) Name() string                  { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error) { return v.([]byte), nil }
func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}

// askRaw sends a request that is encoded already, which need not be one that
// generated code would send.
func askRaw(t testing.TB, conn *grpc.ClientConn, wire []byte) (*ratelimitv3.RateLimitResponse, error) {
	t.Helper()
	var reply []byte
	err := conn.Invoke(t.Context(), ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName, wire, &reply, grpc.ForceCodec(rawCodec{}))
	if err != nil {
		return nil, err
	}
	var m ratelimitv3.RateLimitResponse
	must(t, proto.Unmarshal(reply, &m))
	return &m, nil
}

// must ends a test that cannot go on.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
