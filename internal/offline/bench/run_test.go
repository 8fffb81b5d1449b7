package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"weir/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a rate limit service whose answers a test chooses.
type server struct {
	ratelimitv3.UnimplementedRateLimitServiceServer
	answer func(n int64, r *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) // answers the n-th request, counted from 1; nil answers OK
	asked  atomic.Int64
}

func (s *server) ShouldRateLimit(_ context.Context, r *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	n := s.asked.Add(1)
	if s.answer != nil {
		return s.answer(n, r)
	}
	return &ratelimitv3.RateLimitResponse{OverallCode: ratelimitv3.RateLimitResponse_OK}, nil
}

// start serves until the test ends, and returns the server's address.
func (s *server) start(t *testing.T) string {
	t.Helper()
	g := grpc.NewServer()
	ratelimitv3.RegisterRateLimitServiceServer(g, s)
	return testenv.ServeGRPC(t, g)
}

// closed returns options for a short closed loop.
func closed(addrs ...string) Options {
	return Options{
		Servers: addrs, Connections: 2, Callers: 4, Duration: time.Minute, Requests: 200,
		Traffic: Traffic{Domain: "d", Descriptors: [][]Entry{{{"user", "u{}"}}}, Keys: 10},
	}
}

func mustRun(t *testing.T, opts Options) *Result {
	t.Helper()
	return testenv.Must(Run(t.Context(), opts))(t)
}

// A run has no more callers or connections than requests.
func TestNeverMoreRequestsThanAskedFor(t *testing.T) {
	for _, rate := range []float64{0, 5000} {
		for requests, callers := range map[int64]int{333: 4, 1: 1} {
			s := new(server)
			opts := closed(s.start(t))
			opts.Rate, opts.Requests = rate, requests
			result := mustRun(t, opts)
			if s.asked.Load() != requests || result.SentWithWarmup != requests || result.OK != requests || result.Unsent != 0 || result.Options.Callers != callers || result.Options.Connections != min(callers, 2) {
				t.Errorf("rate %v: the server was asked %d times, the result is %+v, want %d", rate, s.asked.Load(), result, requests)
			}
		}
	}
}

func TestAnswersAreCounted(t *testing.T) {
	s := &server{answer: func(n int64, _ *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
		if n%4 == 0 {
			return nil, status.Error(codes.Unavailable, "the store is away")
		}
		of := new(ratelimitv3.RateLimitResponse_DescriptorStatus)
		if n%8 < 4 {
			of.CurrentLimit = new(ratelimitv3.RateLimitResponse_RateLimit)
		}
		code := []ratelimitv3.RateLimitResponse_Code{1: ratelimitv3.RateLimitResponse_OVER_LIMIT, 2: ratelimitv3.RateLimitResponse_UNKNOWN, 3: ratelimitv3.RateLimitResponse_OK}[n%4]
		return &ratelimitv3.RateLimitResponse{OverallCode: code, Statuses: []*ratelimitv3.RateLimitResponse_DescriptorStatus{of}}, nil
	}}
	result := mustRun(t, closed(s.start(t)))
	if result.OK != 50 || result.OverLimit != 50 || result.NoLimit != 50 || result.Answered != 100 || result.Failed != 100 {
		t.Errorf("got %+v, want 50 of each kind", result)
	}
	testenv.EqualDeep(t, result.Errors, map[string]int64{"Unavailable": 50, "Unknown": 50}, "errors")
}

func TestTrafficIsAsTold(t *testing.T) {
	next := (&Traffic{Domain: "d", Descriptors: [][]Entry{{{"user", "u{}"}, {"path", "/"}}, {{"ip", "{}-{}"}}}, Keys: 4}).requests(1)
	asked := map[string]int{}
	for range 200 {
		r := next()
		text := r.Domain
		for _, d := range r.Descriptors {
			for _, e := range d.Entries {
				text += " " + e.Key + "=" + e.Value
			}
			text += ";"
		}
		asked[text]++
	}
	if len(asked) != 4 || asked["d user=u3 path=/; ip=3-3;"] <= 20 {
		t.Errorf("the server is asked %v", asked)
	}
}

// Each server delays its first answer until the other has received a request.
func TestServersShareTheConnections(t *testing.T) {
	var askedBoth sync.WaitGroup
	askedBoth.Add(2)
	answer := func(n int64, _ *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
		if n == 1 {
			askedBoth.Done()
		}
		askedBoth.Wait()
		return &ratelimitv3.RateLimitResponse{OverallCode: ratelimitv3.RateLimitResponse_OK}, nil
	}
	a, b := &server{answer: answer}, &server{answer: answer}
	opts := closed(a.start(t), b.start(t))
	if result := mustRun(t, opts); result.OK != opts.Requests {
		t.Errorf("asked %d and %d times, want both; got %+v", a.asked.Load(), b.asked.Load(), result)
	}
}
