package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/testenv"
)

// Traffic of every kind, and what it must be counted as.
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

// startMetrics runs a server with metricsRules and sends traffic to it.
func startMetrics(t *testing.T, args ...string) *fixture {
	t.Helper()
	f := start(t, append(args, "--config="+directory(t, metricsRules))...)
	f.wantHealth(true, "OK")
	for _, r := range []struct {
		entries string
		addend  uint32
	}{
		{"user=a", 9},
		{"user=a", 3}, // 2 over
		{"user=b", 1},
		{"tenant=acme path=/files/a method=GET", 4},
		{"tenant=acme path=/files/a method=GET", 4}, // over, but in shadow mode
		{"tenant=acme path=/files/b method=GET", 1},
		{"unknown=x", 1},
	} {
		for _, domain := range []string{"api", "other"} {
			testenv.Must(ratelimitv3.NewRateLimitServiceClient(f.conn).ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{
				Domain: domain, HitsAddend: r.addend, Descriptors: []*commonv3.RateLimitDescriptor{describe(r.entries)},
			}))(t)
		}
	}
	if answer, err := f.http.Post("http://"+f.HTTPAddr()+"/json", "application/json", strings.NewReader("{}")); err != nil || answer.StatusCode != http.StatusBadRequest {
		t.Fatalf("got %v, %v, want 400", answer, err)
	} else {
		answer.Body.Close()
	}
	return f
}

// TestScrapedMetrics compares with what a Prometheus reads of envoyproxy/ratelimit.
func TestScrapedMetrics(t *testing.T) {
	f := startMetrics(t)
	answer, err := f.http.Get("http://" + f.metrics.addr() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	page := testenv.Must(io.ReadAll(answer.Body))(t)
	var got []string
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "ratelimit_service_") && !strings.Contains(line, "_seconds_bucket") && !strings.Contains(line, "_seconds_sum") {
			got = append(got, strings.TrimPrefix(strings.TrimSpace(line), "ratelimit_service_"))
		}
	}
	want := []string{
		`config_load_error 0`,
		`config_load_success 1`,
		`global_shadow_mode 0`,
		`rate_limit_near_limit{domain="api",key1="tenant_acme",key2="path_/files/a"} 0`,
		`rate_limit_near_limit{domain="api",key1="tenant_acme",key2="path_/files/b"} 0`,
		`rate_limit_near_limit{domain="api",key1="user",key2=""} 1`,
		`rate_limit_over_limit{domain="api",key1="tenant_acme",key2="path_/files/a"} 4`,
		`rate_limit_over_limit{domain="api",key1="tenant_acme",key2="path_/files/b"} 0`,
		`rate_limit_over_limit{domain="api",key1="user",key2=""} 3`,
		`rate_limit_over_limit_with_local_cache{domain="api",key1="tenant_acme",key2="path_/files/a"} 0`,
		`rate_limit_over_limit_with_local_cache{domain="api",key1="tenant_acme",key2="path_/files/b"} 0`,
		`rate_limit_over_limit_with_local_cache{domain="api",key1="user",key2=""} 0`,
		`rate_limit_shadow_mode{domain="api",key1="tenant_acme",key2="path_/files/a"} 4`,
		`rate_limit_shadow_mode{domain="api",key1="tenant_acme",key2="path_/files/b"} 0`,
		`rate_limit_shadow_mode{domain="api",key1="user",key2=""} 0`,
		`rate_limit_total_hits{domain="api",key1="tenant_acme",key2="path_/files/a"} 8`,
		`rate_limit_total_hits{domain="api",key1="tenant_acme",key2="path_/files/b"} 1`,
		`rate_limit_total_hits{domain="api",key1="user",key2=""} 13`,
		`rate_limit_within_limit{domain="api",key1="tenant_acme",key2="path_/files/a"} 4`,
		`rate_limit_within_limit{domain="api",key1="tenant_acme",key2="path_/files/b"} 1`,
		`rate_limit_within_limit{domain="api",key1="user",key2=""} 10`,
		`response_time_seconds_count{grpc_method="/json"} 1`,
		`response_time_seconds_count{grpc_method="ShouldRateLimit"} 14`,
		`should_rate_limit_error{err_type="overload"} 0`,
		`should_rate_limit_error{err_type="redis_error"} 0`,
		`should_rate_limit_error{err_type="service_error"} 1`,
		`total_requests{grpc_method="/json"} 1`,
		`total_requests{grpc_method="ShouldRateLimit"} 14`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	problems := testenv.Must(testutil.GatherAndLint(f.opts.Registry))(t)
	for _, p := range problems {
		if p.Text != `counter metrics should have "_total" suffix` || !strings.HasPrefix(p.Metric, "ratelimit_service_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// statsdLines are what TestScrapedMetrics sees, in the names of statsd and
// without response times, which differ.
var statsdLines = []string{
	"ratelimit.service.call.should_rate_limit.service_error:1|c",
	"ratelimit.service.config_load_success:1|c",
	"ratelimit.service.rate_limit.api.tenant_acme.path_/files/a.method.over_limit:4|c",
	"ratelimit.service.rate_limit.api.tenant_acme.path_/files/a.method.shadow_mode:4|c",
	"ratelimit.service.rate_limit.api.tenant_acme.path_/files/a.method.total_hits:8|c",
	"ratelimit.service.rate_limit.api.tenant_acme.path_/files/a.method.within_limit:4|c",
	"ratelimit.service.rate_limit.api.tenant_acme.path_/files/b.method.total_hits:1|c",
	"ratelimit.service.rate_limit.api.tenant_acme.path_/files/b.method.within_limit:1|c",
	"ratelimit.service.rate_limit.api.user.near_limit:1|c",
	"ratelimit.service.rate_limit.api.user.over_limit:3|c",
	"ratelimit.service.rate_limit.api.user.total_hits:13|c",
	"ratelimit.service.rate_limit.api.user.within_limit:10|c",
	"ratelimit_server.ShouldRateLimit.total_requests:14|c",
	"ratelimit_server.json.total_requests:1|c",
}

func TestNearLimitRatioIsASetting(t *testing.T) {
	t.Setenv("NEAR_LIMIT_RATIO", "0.5")
	f := startMetrics(t)
	// Of 10 for user a: 4 beyond the first 5 in the first request, the tenth in the next.
	f.wantAnswer("GET", f.metrics.addr(), "/metrics", 200, `ratelimit_service_rate_limit_near_limit{domain="api",key1="user",key2=""} 4`+"\n")
}

// All that was counted is sent when the server stops, at the latest, if nobody
// said that it should not be.
func TestStatsd(t *testing.T) {
	lastFlush(t, func() error {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer listener.Close()
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		f := startMetrics(t, "--statsd-host=127.0.0.1", "--statsd-port="+port, "--stats-flush-interval=1h")
		f.stop()
		if err := f.wantEnd(); err != nil {
			return err
		}
		conn, err := accept(listener, time.Second) // it is waiting
		if err != nil {
			return err
		}
		defer conn.Close()
		sent, err := io.ReadAll(conn)
		return errors.Join(err, compareStatsd(string(sent), statsdLines))
	})
}

// lastFlush runs a server until what it sends at the end is what it should, five
// times at most: it has half a second for that, too little at times on a busy
// machine.
func lastFlush(t *testing.T, run func() error) {
	t.Helper()
	var err error
	for range 5 {
		if err = run(); err == nil {
			return
		}
		t.Log(err)
	}
	t.Error(err)
}

// TestStatsFlushInterval reads what is sent while the server runs.
func TestStatsFlushInterval(t *testing.T) {
	listener := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	for variable, value := range map[string]string{
		"STATS_FLUSH_INTERVAL": "20ms", "STATSD_HOST": "127.0.0.1", "STATSD_PORT": port, "STATSD_PROTOCOL": "tcp", "USE_STATSD": "true",
	} {
		t.Setenv(variable, value)
	}
	f := start(t, "--config="+directory(t, limited(3)))
	for _, user := range []string{"alice", "bob"} { // so that there are two messages
		f.askMany(user)
		testenv.Eventually(t, func() error {
			conn, err := accept(listener, patience) // one for each message
			if err != nil {
				return err
			}
			defer conn.Close()
			sent, err := io.ReadAll(conn)
			if !strings.Contains(string(sent), "ratelimit.service.rate_limit.api.user.total_hits:1|c\n") {
				return fmt.Errorf("nothing of %s is sent before the server stops (error: %v)", user, err)
			}
			return nil
		})
	}
}

// wantNothingSent listens where nothing is to be sent.
func wantNothingSent(t *testing.T, args ...string) {
	t.Helper()
	listener := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	f := startMetrics(t, append(args, "--statsd-host=127.0.0.1", "--statsd-port="+port)...)
	f.stop()
	testenv.OK(t, f.wantEnd())
	if conn, err := accept(listener, 100*time.Millisecond); err == nil { // it would be waiting
		conn.Close()
		t.Error("something was sent")
	}
}

func TestNoStatsd(t *testing.T) { wantNothingSent(t, "--use-statsd=false") }

func TestStatsIsDisabled(t *testing.T) {
	wantNothingSent(t, "--stats-flush-interval=10ms", "--use-statsd=true", "--disable-stats")
}

// Both are on at once. The names are changed as docs/metrics.md shows.
func TestDogStatsD(t *testing.T) {
	for _, setting := range regexp.MustCompile(`(?m)^ {6}(\w*DOG_STATSD\w*)=(.*)$`).FindAllStringSubmatch(document(t, "metrics.md"), -1) {
		t.Setenv(setting[1], setting[2])
	}
	for _, name := range []string{"USE_DOG_STATSD", "USE_DOG_STATSD_MOGRIFIERS"} {
		if os.Getenv(name) == "" {
			t.Fatalf("docs/metrics.md does not show %s", name)
		}
	}
	var plain, tagged []string
	for _, line := range statsdLines {
		name, value, _ := strings.Cut(line, ":")
		plain = append(plain, name+".__zone=a:"+value)
		tags := "|#zone:a"
		if parts := regexp.MustCompile(`^ratelimit\.service\.rate_limit\.([^.]+)\.(.+)\.([^.]+)$`).FindStringSubmatch(name); parts != nil {
			name = "ratelimit.service.rate_limit." + parts[3]
			tags += fmt.Sprintf(",descriptor:%s,domain:%s", parts[2], parts[1])
		}
		tagged = append(tagged, name+":"+value+tags)
	}
	lastFlush(t, func() error {
		// One port for both, as they share the setting.
		conn, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer conn.Close()
		_, port, _ := net.SplitHostPort(conn.LocalAddr().String())
		f := startMetrics(t, "--statsd-host=127.0.0.1", "--statsd-port="+port, "--stats-flush-interval=1h", "--extra-tags=zone:a",
			"--use-statsd=true", "--statsd-protocol=udp")
		f.stop()
		if err := errors.Join(f.wantEnd(), conn.SetReadDeadline(time.Now().Add(time.Second))); err != nil { // it is waiting
			return err
		}
		var sent strings.Builder
		buffer := make([]byte, 64<<10)
		for strings.Count(sent.String(), "|c") < len(plain)+len(tagged) {
			n, _, err := conn.ReadFrom(buffer)
			if err != nil {
				return err
			}
			sent.Write(buffer[:n])
		}
		return compareStatsd(sent.String(), slices.Concat(plain, tagged))
	})
}

// accept takes the next connection within a time.
func accept(listener net.Listener, within time.Duration) (net.Conn, error) {
	if err := listener.(*net.TCPListener).SetDeadline(time.Now().Add(within)); err != nil {
		return nil, err
	}
	return listener.Accept()
}

// compareStatsd compares the counters in what was sent, and sees to it that there
// are response times.
func compareStatsd(sent string, want []string) error {
	var got []string
	times := 0
	for line := range strings.Lines(sent) {
		line = strings.TrimSuffix(line, "\n")
		if strings.Contains(line, "|c") {
			got = append(got, line)
		} else if regexp.MustCompile(`^ratelimit_server\.(ShouldRateLimit|json)\.response_time(\.__zone=a)?:[0-9.]+\|ms`).MatchString(line) {
			times++
		} else {
			return fmt.Errorf("unexpected line %q", line)
		}
	}
	slices.Sort(got)
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		return fmt.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if times == 0 {
		return errors.New("no response times")
	}
	return nil
}
