package rls

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	grpcmetadata "google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/plan"
	"weir/internal/testenv"
)

func TestBadRequests(t *testing.T) {
	opts := options(t, rules)
	opts.MaxDescriptors = 3
	conn := serve(t, opts.service())
	expect(t, conn, "user=a user=b k=v"+strings.Repeat(";k=v", plan.MaxEntries-1), "OK: OK 1 of 2/MINUTE for 30s, OK 1 of 2/MINUTE for 30s, OK")
	broken := message{0x0a, 0xff} // a field longer than the message
	for _, tc := range []struct {
		name string
		wire message
		want string
	}{
		{"no descriptors", request(t, ""), "the request has no descriptors"},
		{"empty key", request(t, "{} user=a;=b"), "descriptor 1: the key of entry 1 is empty"},
		{"empty domain", request(t, "domain: user=a"), "the domain is empty"}, // reuses the memory of an earlier request
		{"broken", broken, "the message is malformed"},
		{"broken descriptor", message{}.bytes(2, nil).bytes(2, broken), "descriptor 1: the message is malformed"},
		{"broken entry", message{}.bytes(2, message{}.bytes(1, nil).bytes(1, broken)), "descriptor 0: entry 1: the message is malformed"},
		{"broken limit", message{}.bytes(2, message{}.bytes(2, broken)), "descriptor 0: limit: the message is malformed"},
		{"broken addend", message{}.bytes(2, message{}.bytes(3, broken)), "descriptor 0: hits_addend: the message is malformed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := askRaw(t, conn, tc.wire)
			expectError(t, err, codes.InvalidArgument, tc.want)
		})
	}
	_, err := askRaw(t, conn, message{}.string(1, strings.Repeat("a", maxReceived)))
	testenv.Equal(t, grpcstatus.Code(err), codes.ResourceExhausted, "too large for gRPC: code of %v", err)
}

// Clients can choose values that make a request too large. An error would let the request pass.
func TestTooLargeRequestsAreDenied(t *testing.T) {
	for _, shadow := range []bool{false, true} {
		opts := options(t, rules)
		opts.MaxDescriptors, opts.ShadowMode = 3, shadow
		s := opts.service()
		conn, want := serve(t, s), ratelimitv3.RateLimitResponse_OVER_LIMIT
		if shadow {
			want = ratelimitv3.RateLimitResponse_OK
		}
		for i, wire := range []message{
			request(t, "{} {} {} {}"), request(t, "user=a k=v"+strings.Repeat(";k=v", plan.MaxEntries)),
			message{}.string(1, strings.Repeat("a", maxBytes)), message{}.string(1, strings.Repeat("a", maxReceived-10)),
		} {
			got, err := askRaw(t, conn, wire)
			if err != nil || got.GetOverallCode() != want || testutil.ToFloat64(s.metrics.serviceErrors) != float64(i+1) {
				t.Errorf("%.20q in shadow mode %t: got %v, error %v, want %v and an error counted", wire, shadow, got, err, want)
			}
		}
		w := post(s.JSONHandler(), http.MethodPost, `{"domain": "api", "descriptors": [{}, {}, {}, {}]}`)
		if (w.Code == http.StatusOK) != shadow || (w.Code == http.StatusTooManyRequests) == shadow {
			t.Errorf("/json in shadow mode %t answers %d %s", shadow, w.Code, w.Body)
		}
	}
}

// failing is a store that always fails.
type failing struct{}

func (failing) Decide(context.Context, []limiter.Hit, []limiter.Decision) (bool, error) {
	return false, fmt.Errorf("asking redis://:secret@10.0.0.1: %w", limiter.ErrUnavailable)
}

func TestNoRules(t *testing.T) {
	opts := options(t, rules)
	opts.rules = func() *descriptors.Tree { return nil }
	_, err := ask(t, serve(t, opts.service()), "user=a")
	expectError(t, err, codes.Unavailable, "no rules are loaded")
}

// Concurrent requests do not affect each other, nor do requests that reuse the same memory.
func TestConcurrentRequests(t *testing.T) {
	conn := serve(t, options(t, rules).service())
	var wg sync.WaitGroup
	for worker := range 16 {
		wg.Go(func() {
			for i := range 50 {
				name, paths, left, cost := strings.Repeat(fmt.Sprint(worker, "-", i), 1+i%7), i%3, 1, ""
				if paths == 0 {
					left, cost = 0, " +2" // cost of the request
				}
				const path = ", OK %d of 3/HOUR paths for 30s"
				expect(t, conn, "user="+name+strings.Repeat(" path="+name, paths)+cost,
					fmt.Sprintf("OK: OK %d of 2/MINUTE for 30s", left)+strings.Repeat(fmt.Sprintf(path, 3-paths), paths))
			}
		})
	}
	wg.Wait()
}

// slow is a store that decides after some time. It fails if the context is done first.
type slow struct {
	limiter.Store
	time time.Duration
}

func (s slow) Decide(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (bool, error) {
	select {
	case <-time.After(s.time):
		return s.Store.Decide(ctx, hits, out)
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// decideOne decides a request.
func decideOne(ctx context.Context, s *Service, wire []byte) error {
	c := s.calls.Get().(*call)
	defer s.release(c)
	c.wire = wire
	return s.decide(ctx, c)
}

func TestMoreRequestsThanAllowedAreRefused(t *testing.T) {
	wire := request(t, "user=a")
	synctest.Test(t, func(t *testing.T) {
		o := options(t, rules)
		o.store, o.MaxConcurrent = slow{o.store, time.Second}, 2
		s := o.service()
		for range 2 { // after the first round, two requests are allowed again
			errs := make(chan error, 2)
			for range cap(errs) {
				go func() { errs <- decideOne(t.Context(), s, wire) }()
			}
			synctest.Wait()
			began := time.Now()
			expectError(t, decideOne(t.Context(), s, wire), codes.ResourceExhausted, "too many requests at once")
			testenv.Equal(t, time.Since(began), 0, "time until it was refused")
			testenv.Equal(t, post(s.JSONHandler(), http.MethodPost, `{"domain": "api"}`).Code, http.StatusServiceUnavailable, "status of /json")
			for range cap(errs) {
				testenv.OK(t, <-errs)
			}
		}
	})
}

// A decision stops at the deadline of the server or of the caller, and when the caller cancels
// it.
func TestRequestEnds(t *testing.T) {
	const wait, late = 300 * time.Millisecond, "the store did not answer before the deadline"
	wire := request(t, "user=a")
	for _, tc := range []struct {
		server, caller, cancel time.Duration // time until each of them stops the request
		code                   codes.Code
		want                   string
	}{
		{wait, time.Hour, time.Hour, codes.DeadlineExceeded, late},
		{time.Hour, wait, time.Hour, codes.DeadlineExceeded, late},
		{time.Hour, time.Hour, wait, codes.Canceled, "the caller canceled the request"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), tc.caller)
			defer cancel()
			defer time.AfterFunc(tc.cancel, cancel).Stop()
			o := options(t, rules)
			o.store, o.Timeout = slow{o.store, time.Second}, tc.server
			s := o.service()
			began := time.Now()
			expectError(t, decideOne(ctx, s, wire), tc.code, tc.want)
			testenv.Equal(t, time.Since(began), wait, "%+v: it took", tc)
		})
	}
}

// An observer gets each request after its decision, with the headers of a gRPC call or the trace
// of an HTTP request.
func TestRequestsAreObserved(t *testing.T) {
	const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	var seen []string
	o := options(t, "{domain: api, descriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 1}}]}")
	o.Observe = func(ctx context.Context, began time.Time, r *plan.Request, p *plan.Result) {
		headers, _ := grpcmetadata.FromIncomingContext(ctx)
		seen = append(append(seen, r.Domain), headers.Get("traceparent")...)
		seen = append(seen, trace.SpanContextFromContext(ctx).TraceID().String(), time.Since(began).Truncate(time.Minute).String())
		for outcome := range p.Outcomes(r) {
			seen = append(seen, outcome.Kind.String())
		}
	}
	s := o.service()
	conn := serve(t, s)
	ctx := grpcmetadata.AppendToOutgoingContext(t.Context(), "traceparent", traceparent)
	testenv.OK(t, conn.Invoke(ctx, ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName, []byte(request(t, "user=bob")), new([]byte), grpc.ForceCodec(rawCodec{})))
	r := httptest.NewRequest(http.MethodPost, "/json", strings.NewReader(`{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "bob"}]}]}`))
	r.Header.Set("Traceparent", traceparent)
	s.JSONHandler().ServeHTTP(httptest.NewRecorder(), r)
	want := []string{
		"api", traceparent, trace.TraceID{}.String(), "0s", "admitted",
		"api", "0af7651916cd43dd8448eb211c80319c", "0s", "denied",
	}
	testenv.EqualLists(t, seen, want, "requests")
}

// Streams of other services may keep their first message, so it must be small.
func TestMessagesOfOtherServices(t *testing.T) {
	c := codec{encoding.GetCodecV2(protocodec.Name)}
	for size, fits := range map[int]bool{100: true, maxOther + 1: false} {
		wire := testenv.Must(proto.Marshal(&grpc_health_v1.HealthCheckRequest{Service: strings.Repeat("a", size)}))(t)
		if err := c.Unmarshal(mem.BufferSlice{mem.SliceBuffer(wire)}, new(grpc_health_v1.HealthCheckRequest)); (err == nil) != fits {
			t.Errorf("a name of %d bytes: error %v, want none: %t", size, err, fits)
		}
	}
}

// A client that reads no answers must not make the server keep its large requests.
func TestLargeEntriesInMetadataAreCut(t *testing.T) {
	opts := options(t, rules)
	opts.DynamicMetadata = true
	got := response(t, decide(t, opts.service(), "domain:api user="+strings.Repeat("a", maxBytes/2)+";k="+strings.Repeat("\xff", 100)).response)
	if size := proto.Size(got); got.GetDynamicMetadata() == nil || size > 2*maxEntryTexts {
		t.Errorf("a large request gets an answer of %d bytes, want metadata and at most %d", size, 2*maxEntryTexts)
	}
}
