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

// stack is everything between a client and an upstream.
type stack struct {
	*envoy
	weir  *weir
	redis *testenv.Redis // nil where counters are in memory
	rules string         // directory of the rules
}

// patientWithRedis are the settings that let Weir, too, wait for Redis on a busy
// machine, whether or not its caller has a deadline.
var patientWithRedis = []string{"REQUEST_TIMEOUT=50s", "REDIS_TIMEOUT=50s"}

// onRedis are the settings of a Weir with its counters in redis.
func onRedis(redis *testenv.Redis) []string {
	return append([]string{"REDIS_URL=" + redis.Addr()}, patientWithRedis...)
}

// start starts Weir with the given rules and environment on a Redis of its own, and
// Envoy before it.
func (g gateway) start(t *testing.T, rules string, env ...string) *stack {
	t.Helper()
	testenv.Envoy(t) // before anything is built and started for nothing
	awayFromMidnight(t)
	s := &stack{rules: writeRules(t, rules)}
	if !g.memory {
		s.redis = testenv.RedisServer(t)
		env = append(onRedis(s.redis), env...)
	}
	s.weir = startWeir(t, s.rules, env...)
	s.envoy = runEnvoy(t, g.bootstrap(t, s.weir.grpc))
	return s
}

// inEachStore runs test on a stack that keeps its counters in memory and on one
// that keeps them in Redis.
func inEachStore(t *testing.T, rules string, test func(t *testing.T, s *stack)) {
	t.Parallel()
	for name, g := range map[string]gateway{"memory": {memory: true}, "redis": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, g.start(t, rules))
		})
	}
}

// asked is a series of equal requests.
type asked struct {
	path     string
	headers  []string // each "name: value"
	limit    string   // what the header x-ratelimit-limit has, each time
	statuses []int
}

// by are the headers of a user.
func by(user string) []string { return []string{"x-user: " + user} }

// times is a status that comes so often.
func times(n, status int, then ...int) (statuses []int) {
	for range n {
		statuses = append(statuses, status)
	}
	return append(statuses, then...)
}

// wantLimits asks Envoy and compares statuses and limits.
func (e *envoy) wantLimits(series ...asked) {
	e.t.Helper()
	for _, s := range series {
		for i, want := range s.statuses {
			a := e.ask(s.path, s.headers...)
			if got := a.header.Get("x-ratelimit-limit"); a.status != want || got != s.limit {
				e.t.Errorf("request %d to %s with %q: status %d with limit %q, want %d with %q", i+1, s.path, s.headers, a.status, got, want, s.limit)
			}
		}
	}
}

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
	conn := connection(w.t, "passthrough:///"+w.grpc)
	defer conn.Close() // many may be needed until the test ends
	answer, err := decide(service.NewRateLimitServiceClient(conn), &service.RateLimitRequest{Domain: domain, Descriptors: []*ratelimit.RateLimitDescriptor{d}})
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
