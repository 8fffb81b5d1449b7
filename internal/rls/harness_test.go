package rls

import (
	_ "embed"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/limiter/memory"
	"weir/internal/plan"
	"weir/internal/telemetry"
	"weir/internal/testenv"
)

//go:embed testdata/rules.yaml
var rules string

// now is the time of all decisions: 30 s before the end of a minute and an hour, 12 h and 30 s
// before the end of a day.
var now = time.Date(2026, 8, 1, 11, 59, 30, 0, time.UTC)

func clock() time.Time { return now }

func load(t testing.TB, rules string) *descriptors.Tree {
	t.Helper()
	return testenv.Must(descriptors.Load([]descriptors.File{{Name: "rules.yaml", Data: []byte(rules)}}, descriptors.Options{}))(t)
}

// ServiceOptions is a second name for Options, so that setup can embed it beside plan.Options.
type ServiceOptions = Options

// setup has the parts of a service.
type setup struct {
	ServiceOptions
	plan.Options

	rules    func() *descriptors.Tree
	store    limiter.Store
	registry *prometheus.Registry
}

// options returns the parts of a service with these rules and counters in memory.
func options(t testing.TB, rules string) *setup {
	t.Helper()
	tree, registry := load(t, rules), prometheus.NewRegistry()
	return &setup{
		ServiceOptions: Options{Registerer: registry, Logger: slog.New(slog.DiscardHandler)},
		rules:          func() *descriptors.Tree { return tree },
		store:          memory.New(memory.Options{Now: clock}),
		registry:       registry,
	}
}

// service returns a service of these parts, with the server's default of NearLimitRatio.
func (o *setup) service() *Service {
	usage := telemetry.New(o.Registerer, o.Logger, 0.8)
	o.Decider = &plan.Decider{Planner: plan.New(o.Options), Rules: o.rules, Store: o.store, Usage: usage}
	return New(o.ServiceOptions)
}

// serve runs s on a free port and returns a connection to it.
func serve(t testing.TB, s *Service) *grpc.ClientConn {
	t.Helper()
	server := grpc.NewServer(ServerOptions()...)
	s.Register(server)
	conn := testenv.Must(grpc.NewClient(testenv.ServeGRPC(t, server), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// request encodes a request in the notation of testdata/answers.txt. Semicolons separate the
// entries of a descriptor. Strings may contain any bytes except blanks.
func request(t testing.TB, text string) message {
	t.Helper()
	number := func(s string) uint64 { return testenv.Must(strconv.ParseUint(s, 10, 64))(t) }
	m, domain := message{}, "api"
	for word := range strings.FieldsSeq(text) {
		if name, is := strings.CutPrefix(word, "domain:"); is {
			domain = name
			continue
		}
		if all, is := strings.CutPrefix(word, "+"); is {
			m = m.varint(3, number(all))
			continue
		}
		d := message{}
		entries, notes, _ := strings.Cut(strings.TrimSuffix(word, ")"), "(")
		for entry := range strings.SplitSeq(entries, ";") {
			if key, value, is := strings.Cut(entry, "="); is {
				d = d.bytes(1, message{}.string(1, key).string(2, value))
			}
		}
		for note := range strings.SplitSeq(notes, ",") {
			amount, unit, isOverride := strings.Cut(note, "/")
			switch {
			case note == "refund":
				d = d.varint(4, 1)
			case isOverride:
				unit, multiplier, hasMultiplier := strings.Cut(unit, "*")
				n, isNamed := typev3.RateLimitUnit_value[unit]
				if !isNamed {
					n = int32(testenv.Must(strconv.ParseInt(unit, 10, 32))(t))
				}
				override := message{}.varint(1, number(amount)).varint(2, uint64(n))
				if hasMultiplier {
					override = override.bytes(3, message{}.varint(1, number(multiplier)))
				}
				d = d.bytes(2, override)
			case note != "":
				d = d.bytes(3, message{}.varint(1, number(note)))
			}
		}
		m = m.bytes(2, d)
	}
	return m.string(1, domain)
}

// outline formats an answer in the notation of testdata/answers.txt.
func outline(r *ratelimitv3.RateLimitResponse) string {
	code := func(c ratelimitv3.RateLimitResponse_Code) string { return strings.TrimSuffix(c.String(), "_LIMIT") }
	var statuses []string
	for _, s := range r.GetStatuses() {
		text := code(s.Code)
		if l := s.CurrentLimit; l != nil {
			text += fmt.Sprintf(" %d of %d/%v", s.LimitRemaining, l.RequestsPerUnit, l.Unit)
			if l.UnitMultiplier != nil {
				text += fmt.Sprintf("*%d", l.UnitMultiplier.Value)
			}
			if l.Name != "" {
				text += " " + l.Name
			}
		} else if s.LimitRemaining > 0 {
			text += fmt.Sprintf(" %d", s.LimitRemaining)
		}
		if s.DurationUntilReset != nil {
			text += fmt.Sprintf(" for %v", s.DurationUntilReset.AsDuration())
		}
		statuses = append(statuses, text)
	}
	return code(r.GetOverallCode()) + ": " + strings.Join(statuses, ", ")
}

// ask sends a request.
func ask(t testing.TB, conn *grpc.ClientConn, text string) (*ratelimitv3.RateLimitResponse, error) {
	t.Helper()
	return askRaw(t, conn, request(t, text))
}

// expect compares the answer to a request with its outline.
func expect(t *testing.T, conn *grpc.ClientConn, text, want string) {
	t.Helper()
	testenv.Equal(t, outline(testenv.Must(ask(t, conn, text))(t)), want, "request %s", text)
}

// expectError compares the code and the message of a gRPC error.
func expectError(t *testing.T, err error, code codes.Code, message string) {
	t.Helper()
	if s := grpcstatus.Convert(err); s.Code() != code || s.Message() != message {
		t.Errorf("got %v: %q, want %v: %q", s.Code(), s.Message(), code, message)
	}
}

// decide decides a request and returns its call.
func decide(t *testing.T, s *Service, text string) *call {
	t.Helper()
	c := s.calls.Get().(*call)
	c.wire = request(t, text)
	testenv.OK(t, s.decide(t.Context(), c))
	return c
}

// response parses an encoded response with generated code.
func response(t testing.TB, encoded []byte) *ratelimitv3.RateLimitResponse {
	t.Helper()
	var m ratelimitv3.RateLimitResponse
	testenv.OK(t, proto.Unmarshal(encoded, &m))
	return &m
}

// rawCodec sends and receives bytes unchanged.
type rawCodec struct{}

func (rawCodec) Name() string                  { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error) { return v.([]byte), nil }
func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}

// askRaw sends an encoded request, which need not be one that generated code would send.
func askRaw(t testing.TB, conn *grpc.ClientConn, wire []byte) (*ratelimitv3.RateLimitResponse, error) {
	t.Helper()
	var encoded []byte
	err := conn.Invoke(t.Context(), ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName, wire, &encoded, grpc.ForceCodec(rawCodec{}))
	if err != nil {
		return nil, err
	}
	return response(t, encoded), nil
}
