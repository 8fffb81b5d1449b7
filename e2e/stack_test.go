package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"weir/internal/testenv"
)

// stack contains the programs between a client and an upstream.
type stack struct {
	*envoy
	weir  *weir
	redis *testenv.Redis // nil if counters are in memory
	rules string         // directory of the rules
}

// patientWithRedis are settings with which Weir waits long for Redis, as a busy machine needs,
// whether or not the caller has a deadline.
var patientWithRedis = []string{"REQUEST_TIMEOUT=50s", "REDIS_TIMEOUT=50s"}

// onRedis returns the settings of a Weir with its counters in redis.
func onRedis(redis *testenv.Redis) []string {
	return append([]string{"REDIS_URL=" + redis.Addr()}, patientWithRedis...)
}

// start starts Weir with the given rules and environment, a new Redis for it, and Envoy in
// front of it.
func (g gateway) start(t *testing.T, rules string, env ...string) *stack {
	t.Helper()
	testenv.Envoy(t) // skips the test before it builds and starts other programs
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

// inEachStore runs test on a stack with counters in memory and on a stack with counters in
// Redis.
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
	limit    string   // header x-ratelimit-limit of each answer
	statuses []int
}

// by returns the headers of a user.
func by(user string) []string { return []string{"x-user: " + user} }

// times returns a list that repeats status n times and ends with then.
func times(n, status int, then ...int) (statuses []int) {
	for range n {
		statuses = append(statuses, status)
	}
	return append(statuses, then...)
}

// wantNext receives n statuses and compares each with status.
func wantNext(t *testing.T, statuses <-chan int, n, status int) {
	t.Helper()
	for range n {
		testenv.Equal(t, <-statuses, status, "status")
	}
}

// wantLimits sends the requests of each series to Envoy and compares statuses and limits.
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

// connection returns a gRPC connection that is closed when the test ends.
func connection(t *testing.T, addr string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn := testenv.Must(grpc.NewClient(addr, options...))(t)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// dial returns a client of the rate-limit service at addr, on a new connection.
func dial(t *testing.T, addr string) service.RateLimitServiceClient {
	t.Helper()
	return service.NewRateLimitServiceClient(connection(t, "passthrough:///"+addr))
}

// descriptor returns a descriptor with alternating keys and values.
func descriptor(pairs ...string) *ratelimit.RateLimitDescriptor {
	d := new(ratelimit.RateLimitDescriptor)
	for i := 0; i < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return d
}

// request returns a request of the domain api.
func request(descriptors ...*ratelimit.RateLimitDescriptor) *service.RateLimitRequest {
	return &service.RateLimitRequest{Domain: "api", Descriptors: descriptors}
}

// decide sends a request to Weir. It waits long, because the machine may be busy.
func decide(client service.RateLimitServiceClient, r *service.RateLimitRequest) (*service.RateLimitResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return client.ShouldRateLimit(ctx, r)
}

// peek asks for the limit of a descriptor with 0 hits, on a new connection.
func (w *weir) peek(domain string, pairs ...string) (*service.RateLimitResponse, error) {
	w.t.Helper()
	d := descriptor(pairs...)
	d.HitsAddend = wrapperspb.UInt64(0)
	conn := connection(w.t, "passthrough:///"+w.grpc)
	defer conn.Close() // not when the test ends, because tests peek often
	return decide(service.NewRateLimitServiceClient(conn), &service.RateLimitRequest{Domain: domain, Descriptors: []*ratelimit.RateLimitDescriptor{d}})
}

// remaining returns the requests that the limit of a descriptor in domain api still admits.
func (w *weir) remaining(key, value string) uint32 {
	w.t.Helper()
	return testenv.Must(w.peek("api", key, value))(w.t).Statuses[0].LimitRemaining
}

// waitForRemaining waits until a descriptor of a domain has exactly want requests left.
func (w *weir) waitForRemaining(want uint32, domain string, pairs ...string) {
	w.t.Helper()
	testenv.Eventually(w.t, func() error {
		got, err := w.peek(domain, pairs...)
		if err == nil && got.Statuses[0].LimitRemaining != want {
			err = fmt.Errorf("%q has %d left, want %d", pairs, got.Statuses[0].LimitRemaining, want)
		}
		return err
	})
}

// answer is an HTTP response that has been read.
type answer struct {
	status int
	header http.Header
	body   string
}

// client opens a connection for each request, so that processes which count or drain
// connections have no idle connections from the tests.
var client = &http.Client{
	Timeout:   patience,
	Transport: &http.Transport{DisableKeepAlives: true},
}

// fetch gets url with headers, each "name: value".
func fetch(url string, headers ...string) (answer, error) {
	return exchange(client, http.MethodGet, url, "", headers...)
}

// exchange sends a request with client and reads the answer.
func exchange(client *http.Client, method, url, body string, headers ...string) (answer, error) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Add(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	return answer{resp.StatusCode, resp.Header, string(read)}, nil
}

// ask sends a GET request for path to Envoy, which must answer.
func (e *envoy) ask(path string, headers ...string) answer {
	e.t.Helper()
	return testenv.Must(exchange(e.client, http.MethodGet, "http://"+e.addr+path, "", headers...))(e.t)
}

// askInBackground sends a GET request for path and returns a channel for the answer.
func (e *envoy) askInBackground(path, user string) <-chan answer {
	answers := make(chan answer, 1)
	go func() {
		a, err := fetch("http://"+e.addr+path, "x-user: "+user)
		if err != nil {
			e.t.Errorf("asking Envoy for %s: %v", path, err)
		}
		answers <- a
	}()
	return answers
}

// abandon sends a request, closes the connection when ready returns, and ignores the answer.
func (e *envoy) abandon(path, user string, ready func(answer *bufio.Reader)) {
	e.t.Helper()
	conn := connect(e.t, e.addr)
	defer conn.Close() // connect closes it only when the test ends
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nhost: a\r\nx-user: %s\r\n\r\n", path, user)
	ready(bufio.NewReader(conn))
}

// want sends a request for path to Envoy for each of the statuses, and compares.
func (e *envoy) want(path, header string, statuses ...int) {
	e.t.Helper()
	for i, want := range statuses {
		if got := e.ask(path, header).status; got != want {
			e.t.Fatalf("request %d to %s with %q: status %d, want %d", i+1, path, header, got, want)
		}
	}
}

// connect returns a connection to addr with a deadline after patience.
func connect(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn := testenv.Must(net.Dial("tcp", addr))(t)
	t.Cleanup(func() { conn.Close() })
	testenv.OK(t, conn.SetDeadline(time.Now().Add(patience)))
	return conn
}

// serve starts an HTTP server that runs until the test ends, and returns its address.
func serve(t *testing.T, handler http.Handler) string {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// echo is an upstream that answers with the URL.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "upstream got %s", r.URL) })

// awayFromMidnight waits for the end of the day, in UTC, if it is near. The tests use limits per day,
// and midnight would reset their counters. It first builds the program, which may take
// longer than the test itself.
func awayFromMidnight(t *testing.T) {
	t.Helper()
	program(t)
	awayFromEnd(24 * time.Hour)
}

// awayFromEnd waits for the end of the current period, such as the current minute, if it is
// near. On a busy machine a few requests may take half a minute.
func awayFromEnd(period time.Duration) {
	now := time.Now()
	if end := now.Truncate(period).Add(period); end.Sub(now) < min(period/2, 45*time.Second) {
		testenv.Pass(time.Until(end))
	}
}
