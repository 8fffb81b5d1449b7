package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"weir/internal/testenv"
)

// metricsRules has rules for traffic of every kind.
const metricsRules = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: year, requests_per_unit: 10}
  - key: tenant
    value: acme
    descriptors:
      - key: path
        value: /files/*
        value_to_metric: true
        descriptors:
          - key: method
            rate_limit: {unit: year, requests_per_unit: 5}
            shadow_mode: true
`

// startMetrics starts a server with metricsRules and sends traffic to it, and bad requests.
func startMetrics(t *testing.T, args ...string) *fixture {
	t.Helper()
	f := start(t, append(args, "--config="+directory(t, metricsRules))...)
	f.wantHealth(true, "OK")
	for _, asked := range []string{ // hits, then the descriptor
		"9 user=a", "3 user=a", "1 user=b", // the second is denied
		"4 tenant=acme path=/files/a method=GET", "4 tenant=acme path=/files/a method=GET", // exceeds the limit, but in shadow mode
		"1 tenant=acme path=/files/b method=GET", "1 unknown=x",
	} {
		hits, entries, _ := strings.Cut(asked, " ")
		addend := testenv.Must(strconv.ParseUint(hits, 10, 32))(t)
		for _, domain := range []string{"api", "other"} {
			testenv.Must(ratelimitv3.NewRateLimitServiceClient(f.conn).ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{
				Domain: domain, HitsAddend: uint32(addend), Descriptors: []*commonv3.RateLimitDescriptor{describe(entries)},
			}))(t)
		}
	}
	if _, err := f.decide(t.Context()); status.Code(err) != codes.InvalidArgument {
		t.Fatalf("got error %v of a request without descriptors", err)
	}
	for body, want := range map[string]int{"{}": 400, "{": 400, strings.ReplaceAll(asksAlice, "user", "unknown"): 200} {
		if code, _, err := f.request("POST", f.HTTPAddr(), "/json", body); err != nil || code != want {
			t.Fatalf("%s: got %d, %v, want %d", body, code, err, want)
		}
	}
	return f
}

// counted are the values of each series after startMetrics, in the order of sums.
var counted = []struct {
	key1, key2, statsd string
	counts             [6]int
}{
	{"tenant_acme", "path_/files/a", "tenant_acme.path_/files/a.method", [6]int{0, 4, 0, 4, 8, 4}},
	{"tenant_acme", "path_/files/b", "tenant_acme.path_/files/b.method", [6]int{0, 0, 0, 0, 1, 1}},
	{"user", "", "user", [6]int{1, 3, 0, 0, 13, 10}},
}

var sums = [6]string{"near_limit", "over_limit", "over_limit_with_local_cache", "shadow_mode", "total_hits", "within_limit"}

// TestScrapedMetrics compares the metrics for Prometheus with envoyproxy/ratelimit's. Both requests
// and errors are counted for gRPC and for HTTP, so that their ratio is right for all requests together.
func TestScrapedMetrics(t *testing.T) {
	f := startMetrics(t)
	_, page, err := f.request("GET", f.metrics.addr(), "/metrics", "")
	testenv.OK(t, err)
	var got []string
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "ratelimit_service_") && !strings.Contains(line, "_seconds_bucket") && !strings.Contains(line, "_seconds_sum") {
			got = append(got, strings.TrimPrefix(strings.TrimSpace(line), "ratelimit_service_"))
		}
	}
	want := []string{`config_load_error 0`, `config_load_success 1`, `global_shadow_mode 0`}
	for i, sum := range sums {
		for _, c := range counted {
			want = append(want, fmt.Sprintf(`rate_limit_%s{domain="api",key1=%q,key2=%q} %d`, sum, c.key1, c.key2, c.counts[i]))
		}
	}
	want = append(want,
		`response_time_seconds_count{grpc_method="/json"} 3`,
		`response_time_seconds_count{grpc_method="ShouldRateLimit"} 15`,
		`should_rate_limit_error{err_type="overload"} 0`,
		`should_rate_limit_error{err_type="redis_error"} 0`,
		`should_rate_limit_error{err_type="service_error"} 3`,
		`total_requests{grpc_method="/json"} 3`,
		`total_requests{grpc_method="ShouldRateLimit"} 15`,
	)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestNearLimitRatioIsASetting(t *testing.T) {
	t.Setenv("NEAR_LIMIT_RATIO", "0.5")
	f := startMetrics(t)
	// The first request of user a, whose limit is 10, is admitted: units 6 to 9 are near the limit.
	f.wantAnswer("GET", f.metrics.addr(), "/metrics", 200, `ratelimit_service_rate_limit_near_limit{domain="api",key1="user",key2=""} 4`+"\n")
}

// TestStatsd reads the metrics that a running server sends, unless a setting turns them off.
func TestStatsd(t *testing.T) {
	for name, args := range map[string][]string{
		"used": nil, "not used": {"--use-statsd=false"}, "no counters": {"--use-statsd=true", "--disable-stats"}, "DogStatsD alone": {"--use-dog-statsd"},
	} {
		t.Run(name, func(t *testing.T) {
			listener := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t).(*net.TCPListener)
			defer listener.Close()
			_, port, _ := net.SplitHostPort(listener.Addr().String())
			f := start(t, append(args, "--statsd-host=127.0.0.1", "--statsd-port="+port, "--stats-flush-interval=20ms", "--config="+directory(t, limited(3)))...)
			for _, user := range []string{"alice", "bob"} { // for two messages
				f.askMany(user)
				for args == nil {
					testenv.OK(t, listener.SetDeadline(time.Now().Add(patience)))
					conn := testenv.Must(listener.Accept())(t) // one connection for each message
					sent, _ := io.ReadAll(conn)
					conn.Close()
					if strings.Contains(string(sent), "ratelimit.service.rate_limit.api.user.total_hits:1|c\n") {
						break
					}
				}
			}
			f.stop()
			testenv.OK(t, f.wantEnd())
			testenv.OK(t, listener.SetDeadline(time.Now().Add(100*time.Millisecond)))
			if conn, err := listener.Accept(); args != nil && err == nil { // a connection would be waiting
				conn.Close()
				t.Error("something was sent")
			}
		})
	}
}

// TestDogStatsD turns on both clients. They must have sent all counts when the server has stopped.
// They have half a second, which may be too short on a busy machine, so there are five tries. Names
// are rewritten as in docs/metrics.md.
func TestDogStatsD(t *testing.T) {
	for _, setting := range regexp.MustCompile(`(?m)^ {6}(\w*DOG_STATSD\w*)=(.*)$`).FindAllStringSubmatch(document(t, "metrics.md"), -1) {
		t.Setenv(setting[1], setting[2])
	}
	for _, name := range []string{"USE_DOG_STATSD", "USE_DOG_STATSD_MOGRIFIERS"} {
		if os.Getenv(name) == "" {
			t.Fatalf("docs/metrics.md does not show %s", name)
		}
	}
	var want []string
	for name, total := range map[string]int{
		"ratelimit.service.call.should_rate_limit.service_error": 3, "ratelimit.service.config_load_success": 1,
		"ratelimit_server.ShouldRateLimit.total_requests": 15, "ratelimit_server.json.total_requests": 3,
	} {
		want = append(want, fmt.Sprintf("%s.__zone=a:%d|c", name, total), fmt.Sprintf("%s:%d|c|#zone:a", name, total))
	}
	for _, c := range counted {
		for i, total := range c.counts {
			if total > 0 {
				want = append(want, fmt.Sprintf("ratelimit.service.rate_limit.api.%s.%s.__zone=a:%d|c", c.statsd, sums[i], total),
					fmt.Sprintf("ratelimit.service.rate_limit.%s:%d|c|#zone:a,descriptor:%s,domain:api", sums[i], total, c.statsd))
			}
		}
	}
	slices.Sort(want)
	var got []string
	for range 5 {
		if got = sentAtTheEnd(t, len(want)); slices.Equal(got, want) {
			return
		}
	}
	t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
}

// sentAtTheEnd runs a server whose two clients send to one UDP port, and returns the first counters
// that they send, sorted. Other messages must be response times.
func sentAtTheEnd(t *testing.T, most int) (counters []string) {
	conn := testenv.Must(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	defer conn.Close()
	_, port, _ := net.SplitHostPort(conn.LocalAddr().String())
	f := startMetrics(t, "--statsd-host=127.0.0.1", "--statsd-port="+port, "--stats-flush-interval=1h", "--extra-tags=zone:a",
		"--use-statsd=true", "--statsd-protocol=udp")
	f.stop()
	testenv.OK(t, errors.Join(f.wantEnd(), conn.SetReadDeadline(time.Now().Add(time.Second)))) // the messages are already there
	responseTime := regexp.MustCompile(`^ratelimit_server\.(ShouldRateLimit|json)\.response_time(\.__zone=a)?:[0-9.]+\|ms`)
	times := 0
	for buffer := make([]byte, 64<<10); len(counters) < most; {
		n, _, err := conn.ReadFrom(buffer)
		if err != nil {
			t.Log(err)
			break
		}
		for line := range strings.Lines(string(buffer[:n])) {
			switch line = strings.TrimSuffix(line, "\n"); {
			case strings.Contains(line, "|c"):
				counters = append(counters, line)
			case responseTime.MatchString(line):
				times++
			default:
				t.Errorf("unexpected line %q", line)
			}
		}
	}
	if times == 0 && len(counters) == most {
		t.Error("no response times")
	}
	slices.Sort(counters)
	return counters
}
