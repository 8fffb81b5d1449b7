package bench

import (
	"context"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server answers as it is told and remembers what it was asked.
type server struct {
	ratelimitv3.UnimplementedRateLimitServiceServer
	answer func(n int64) (ratelimitv3.RateLimitResponse_Code, error) // to the n-th request; nil: OK
	limits func(n int64) bool                                        // whether the answer to it holds a limit; nil: no
	asked  atomic.Int64

	mu       sync.Mutex
	requests map[string]int // by their text
}

func (s *server) ShouldRateLimit(_ context.Context, r *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	n := s.asked.Add(1)
	var text []string
	for _, d := range r.Descriptors {
		for _, e := range d.Entries {
			text = append(text, e.Key+"="+e.Value)
		}
		text = append(text, ";")
	}
	s.mu.Lock()
	s.requests[r.Domain+" "+strings.Join(text, " ")]++
	s.mu.Unlock()
	code := ratelimitv3.RateLimitResponse_OK
	if s.answer != nil {
		var err error
		if code, err = s.answer(n); err != nil {
			return nil, err
		}
	}
	status := &ratelimitv3.RateLimitResponse_DescriptorStatus{Code: code}
	if s.limits != nil && s.limits(n) {
		status.CurrentLimit = new(ratelimitv3.RateLimitResponse_RateLimit)
	}
	return &ratelimitv3.RateLimitResponse{OverallCode: code, Statuses: []*ratelimitv3.RateLimitResponse_DescriptorStatus{status}}, nil
}

// start serves until the test ends, at the address that it returns.
func (s *server) start(t *testing.T) string {
	s.requests = map[string]int{}
	address, stop := s.serve()
	t.Cleanup(stop)
	return address
}

func (s *server) serve() (address string, stop func()) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	g := grpc.NewServer()
	ratelimitv3.RegisterRateLimitServiceServer(g, s)
	go g.Serve(listener)
	return listener.Addr().String(), g.Stop
}

// closed are options of a short closed loop.
func closed(addrs ...string) Options {
	return Options{
		Servers: addrs, Connections: 2, Callers: 4, Duration: time.Minute, Requests: 200,
		Traffic: Traffic{Domain: "d", Descriptors: [][]Entry{{{"user", "u{}"}}}, Keys: 10},
	}
}

func mustRun(t *testing.T, opts Options) *Result {
	t.Helper()
	result, err := Run(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// ExampleRun asks a server that admits everything.
func ExampleRun() {
	s := &server{requests: map[string]int{}}
	address, stop := s.serve()
	defer stop()
	result, err := Run(context.Background(), Options{
		Servers: []string{address}, Connections: 4, Callers: 64, Duration: time.Minute, Requests: 1000,
		Traffic: Traffic{Domain: "api", Descriptors: [][]Entry{{{"user", "{}"}}}, Keys: 100},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(result.Answered, "answers,", result.OK, "of them OK")
	// Output: 1000 answers, 1000 of them OK
}

// Nor more callers and connections than have something to do.
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
	s := &server{limits: func(n int64) bool { return n%8 < 4 }, answer: func(n int64) (ratelimitv3.RateLimitResponse_Code, error) {
		switch n % 4 {
		case 0:
			return 0, status.Error(codes.Unavailable, "the store is away")
		case 1:
			return ratelimitv3.RateLimitResponse_OVER_LIMIT, nil
		case 2:
			return ratelimitv3.RateLimitResponse_UNKNOWN, nil
		default:
			return ratelimitv3.RateLimitResponse_OK, nil
		}
	}}
	result := mustRun(t, closed(s.start(t)))
	if result.OK != 50 || result.OverLimit != 50 || result.NoLimit != 50 || result.Answered != 100 || result.Failed != 100 {
		t.Errorf("got %+v, want 50 of each kind", result)
	}
	if want := map[string]int64{"Unavailable": 50, "Unknown": 50}; !maps.Equal(result.Errors, want) {
		t.Errorf("got errors %v, want %v", result.Errors, want)
	}
}

func TestTrafficIsAsTold(t *testing.T) {
	s := new(server)
	opts := closed(s.start(t))
	opts.Traffic = Traffic{Domain: "d", Descriptors: [][]Entry{{{"user", "u{}"}, {"path", "/"}}, {{"ip", "{}-{}"}}}, Keys: 4}
	mustRun(t, opts)
	if len(s.requests) != 4 || s.requests["d user=u3 path=/ ; ip=3-3 ;"] <= 20 {
		t.Errorf("the server was asked %v", s.requests)
	}
}

// Each server answers only once the other is asked.
func TestServersShareTheConnections(t *testing.T) {
	var askedBoth sync.WaitGroup
	askedBoth.Add(2)
	answer := func(n int64) (ratelimitv3.RateLimitResponse_Code, error) {
		if n == 1 {
			askedBoth.Done()
		}
		askedBoth.Wait()
		return ratelimitv3.RateLimitResponse_OK, nil
	}
	a, b := &server{answer: answer}, &server{answer: answer}
	opts := closed(a.start(t), b.start(t))
	if result := mustRun(t, opts); result.OK != opts.Requests {
		t.Errorf("asked %d and %d times, want both; got %+v", a.asked.Load(), b.asked.Load(), result)
	}
}
