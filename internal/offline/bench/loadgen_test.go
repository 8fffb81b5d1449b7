package bench

import (
	"context"
	"maps"
	"math"
	"net"
	"os"
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
	"google.golang.org/protobuf/proto"
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
	t.Helper()
	s.requests = map[string]int{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	ratelimitv3.RegisterRateLimitServiceServer(g, s)
	go g.Serve(listener)
	t.Cleanup(g.Stop)
	return listener.Addr().String()
}

// closed are options of a short closed loop.
func closed(addrs ...string) Options {
	return Options{
		Servers: addrs, Connections: 2, Callers: 4, Duration: time.Minute, Requests: 200,
		Traffic: Traffic{Domain: "d", Descriptors: [][]Entry{{{"user", "u{}"}}}, Keys: 10, Distribution: Uniform},
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

func TestNeverMoreRequestsThanAskedFor(t *testing.T) {
	for _, rate := range []float64{0, 5000} {
		s := new(server)
		opts := closed(s.start(t))
		opts.Rate, opts.Requests = rate, 333
		result := mustRun(t, opts)
		if s.asked.Load() != 333 || result.SentWithWarmup != 333 || result.Answered != 333 || result.OK != 333 || result.Unsent != 0 {
			t.Errorf("rate %v: the server was asked %d times, the result is %+v, want 333", rate, s.asked.Load(), result)
		}
	}
}

func TestOpenLoopSendsAsPlanned(t *testing.T) {
	s := new(server)
	opts := closed(s.start(t))
	opts.Rate, opts.Requests, opts.Duration = 400, 0, 500*time.Millisecond
	opts.Callers = 50
	result := mustRun(t, opts)
	if got := result.SentWithWarmup + result.Unsent; got != 200 || result.SentWithWarmup != s.asked.Load() {
		t.Errorf("400/s for 0.5 s: planned %d, sent %d, the server was asked %d times", got, result.SentWithWarmup, s.asked.Load())
	}
	if result.Seconds < 0.4 {
		t.Errorf("sent within %.3f s", result.Seconds)
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
	two := [][]Entry{{{"user", "u{}"}, {"path", "/"}}, {{"ip", "{}-{}"}}}
	tests := []struct {
		name    string
		traffic Traffic
		check   func(requests map[string]int) bool
	}{
		{"uniform", Traffic{Descriptors: two, Keys: 4, Distribution: Uniform}, func(r map[string]int) bool {
			return len(r) == 4 && r["d user=u3 path=/ ; ip=3-3 ;"] > 20
		}},
		{"zipf", Traffic{Descriptors: two, Keys: 1000, Distribution: Zipf, Exponent: 1.5}, func(r map[string]int) bool {
			return len(r) > 5 && r["d user=u0 path=/ ; ip=0-0 ;"] > 60 && r["d user=u0 path=/ ; ip=0-0 ;"] < 200
		}},
		{"hot", Traffic{Descriptors: two, Keys: 1000, Distribution: Hot}, func(r map[string]int) bool {
			return len(r) == 1 && r["d user=u0 path=/ ; ip=0-0 ;"] == 200
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := new(server)
			opts := closed(s.start(t))
			opts.Traffic, opts.Traffic.Domain = tt.traffic, "d"
			mustRun(t, opts)
			if !tt.check(s.requests) {
				t.Errorf("the server was asked %v", s.requests)
			}
		})
	}
}

func TestRequest(t *testing.T) {
	traffic := Traffic{Domain: "d", Hits: 7, Descriptors: [][]Entry{{{"k", "{}"}}}, Keys: 1, Distribution: Uniform}
	b, err := traffic.request().append(nil, 3)
	if err != nil {
		t.Fatal(err)
	}
	var m ratelimitv3.RateLimitRequest
	if err := proto.Unmarshal(b, &m); err != nil || m.HitsAddend != 7 || m.Descriptors[0].Entries[0].Value != "3" {
		t.Errorf("got %v, %v", &m, err)
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

func TestTimeoutGivesUp(t *testing.T) {
	release := make(chan struct{})
	s := &server{answer: func(n int64) (ratelimitv3.RateLimitResponse_Code, error) {
		if n == 1 {
			<-release
		}
		return ratelimitv3.RateLimitResponse_OK, nil
	}}
	t.Cleanup(func() { close(release) })
	opts := closed(s.start(t))
	opts.Timeout, opts.Requests = 200*time.Millisecond, 20
	result := mustRun(t, opts)
	// On a busy machine the client may give up others, too.
	if result.Failed < 1 || result.Errors["DeadlineExceeded"] != result.Failed || result.Measured() != 20 {
		t.Errorf("got %+v, want a request given up", result)
	}
	if result.Latency.Max < opts.Timeout.Microseconds() || counted(result.Latency) != 20 {
		t.Errorf("%d latencies of up to %d µs, want 20 of up to %v", counted(result.Latency), result.Latency.Max, opts.Timeout)
	}
}

// Callers and connections that would have nothing to do are not made.
func TestNoMoreCallersThanRequests(t *testing.T) {
	s := new(server)
	opts := closed(s.start(t))
	opts.Requests = 1
	if result := mustRun(t, opts); result.Options.Callers != 1 || result.Options.Connections != 1 || result.Answered != 1 || result.Received != 1 {
		t.Errorf("got %+v, want one of all", result)
	}
}

func TestProcessesAreMeasured(t *testing.T) {
	s := new(server)
	opts := closed(s.start(t))
	opts.PIDs = []int{os.Getppid()}
	opts.Requests = 2000
	result := mustRun(t, opts)
	if len(result.Processes) != 2 || result.Processes[0].PID != os.Getppid() || result.Processes[0].Load || !result.Processes[1].Load {
		t.Fatalf("got %+v, want the parent and this process", result.Processes)
	}
	p := result.Processes[1]
	if p.CPUPerRequest <= 0 || p.ResidentBytes <= 0 || p.Cores <= 0 {
		t.Errorf("got %+v for a process that was busy", p)
	}
	if inAll, ofAnswers := p.Cores*result.Seconds*1e6, p.CPUPerRequest*float64(result.Received); math.Abs(inAll-ofAnswers) > 1 {
		t.Errorf("%g µs in all, and %g for %d answers", inAll, ofAnswers, result.Received)
	}
}

func TestBadOptions(t *testing.T) {
	zipf := func(exponent float64) func(*Options) {
		return func(o *Options) { o.Traffic.Distribution, o.Traffic.Exponent = Zipf, exponent }
	}
	tests := []struct {
		change func(*Options)
		want   string
	}{
		{func(o *Options) { o.Servers = nil }, "no server is given"},
		{func(o *Options) { o.Servers = []string{"a:1", "b:1", "c:1"} }, "Connections: 2 is too few, each server needs one: 3 or more"},
		{func(o *Options) { o.Callers = 0 }, "Callers: 0 can send nothing, allowed is 1 or more"},
		{func(o *Options) { o.Servers, o.Callers = []string{"a:1", "b:1"}, 1 }, "Callers: 1 is too few, each server needs one: 2 or more"},
		{func(o *Options) { o.Servers, o.Requests = []string{"a:1", "b:1"}, 1 }, "Requests: 1 is too few, each server needs one: 2 or more"},
		{func(o *Options) { o.Rate = math.NaN() }, "Rate: NaN is not allowed"},
		{func(o *Options) { o.Timeout = -1 }, "Timeout: -1ns is not allowed, allowed is 0 for none, or more"},
		{zipf(math.Inf(1)), "Exponent: +Inf is not allowed, allowed are numbers above 1"},
		{zipf(1), "Exponent: 1 is not allowed, allowed are numbers above 1"},
		{func(o *Options) { o.Rate = -1 }, "Rate: -1 is not allowed, allowed is up to 10000000 requests a second, or 0 for a closed loop"},
		{func(o *Options) { o.Duration = 0 }, "Duration: 0s is not allowed, allowed is more than 0"},
		{func(o *Options) { o.Warmup = o.Duration }, "Warmup: 1m0s is not allowed, allowed is 0 or more and less than the duration of 1m0s"},
		{func(o *Options) { o.Requests = -1 }, "Requests: -1 is not allowed, allowed is 0 for any number, or more"},
		{func(o *Options) { o.Traffic.Domain = "" }, "Domain: it is empty"},
		{func(o *Options) { o.Traffic.Descriptors = nil }, "Descriptors: none is given"},
		{func(o *Options) { o.Traffic.Keys = 0 }, "Keys: 0 is not allowed, allowed is 1 or more"},
		{func(o *Options) { o.Traffic.Distribution = "flat" }, `Distribution: "flat" is not allowed, allowed are uniform, zipf and hot`},
		{func(o *Options) { o.Servers = []string{"127.0.0.1:1"} }, `server "127.0.0.1:1": no connection: connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`},
		{func(o *Options) { o.PIDs = []int{1 << 30} }, "PIDs: process 1073741824: "},
	}
	s := new(server)
	addr := s.start(t)
	for _, tt := range tests {
		t.Run(tt.want, func(t *testing.T) {
			opts := closed(addr)
			tt.change(&opts)
			if _, err := Run(t.Context(), opts); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got error %v, want %s", err, tt.want)
			}
		})
	}
	if s.asked.Load() != 0 {
		t.Errorf("the server was asked %d times", s.asked.Load())
	}
}
