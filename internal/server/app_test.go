package server

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"weir/internal/settings"
	"weir/internal/testenv"
)

func TestMain(m *testing.M) {
	// The settings of the tests are theirs alone.
	for _, flag := range kong.Must(&struct{ settings.Settings }{}, kong.NoDefaultHelp()).Model.Flags {
		for _, name := range flag.Envs {
			os.Unsetenv(name)
		}
	}
	flag.Parse()
	if !testenv.RaceDetector && flag.Lookup("test.parallel").Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) { // the default
		_ = flag.Set("test.parallel", "6") // they wait for other programs far longer than they compute
	}
	goleak.VerifyTestMain(m)
}

// patience is how long anything may take that happens by itself.
const patience = time.Minute

// fixture is a server on ports of the system, with its clients.
type fixture struct {
	*App
	t      *testing.T
	log    *testenv.Log
	reload chan os.Signal
	leave  context.CancelFunc // makes the server fail its health checks
	stop   context.CancelFunc // makes it drain at once
	ended  chan error         // what Run returned
	http   http.Client
	conn   *grpc.ClientConn
}

// fromEnvironment are the settings that flags and the environment make.
func fromEnvironment(t *testing.T, args ...string) settings.Settings {
	t.Helper()
	var line struct{ settings.Settings }
	parser := testenv.Must(kong.New(&line, settings.Parsing()))(t)
	testenv.Must(parser.Parse(args))(t)
	return line.Settings
}

// options are those of a server on ports of the system.
func options(t *testing.T, log io.Writer, args ...string) Options {
	t.Helper()
	local := []string{
		"--host=127.0.0.1", "--port=0", "--grpc-host=127.0.0.1", "--grpc-port=0",
		"--debug-host=127.0.0.1", "--debug-port=0", "--prometheus-addr=127.0.0.1:0", "--drain-timeout=1m", "--drain-delay=1h", // until stop
	}
	s := fromEnvironment(t, append(local, args...)...)
	s.Answers.RequestTimeout = cmp.Or(s.Answers.RequestTimeout, heldPatience) // no answer of Redis is too late on a busy machine
	return Options{
		Settings: s,
		Logger:   slog.New(slog.NewTextHandler(log, nil)),
		Registry: prometheus.NewRegistry(),
		Version:  "v0-test",
		Hurry:    context.Background(),
	}
}

// start runs a server until the test ends or stop is called.
func start(t *testing.T, args ...string) *fixture {
	t.Helper()
	return startWith(t, func(*Options) {}, args...)
}

// startWith is start with options that change makes different.
func startWith(t *testing.T, change func(*Options), args ...string) *fixture {
	t.Helper()
	f := &fixture{t: t, log: new(testenv.Log), reload: make(chan os.Signal), ended: make(chan error, 1)}
	opts := options(t, f.log, args...)
	opts.Reload = f.reload
	hurry, hurryUp := context.WithCancel(context.Background())
	opts.Hurry = hurry
	change(&opts)
	app := testenv.Must(New(opts))(t)
	f.App = app
	f.http.Transport = &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: patience}
	f.conn = testenv.Must(grpc.NewClient(app.grpc.addr(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	ctx, leave := context.WithCancel(context.Background())
	f.leave, f.stop = leave, func() { hurryUp(); leave() }
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.ended <- app.Run(ctx)
	}()
	t.Cleanup(func() {
		f.stop()
		f.conn.Close()
		<-ended
		if t.Failed() {
			t.Logf("log:\n%s", f.log)
		}
	})
	return f
}

// ask asks whether one more request of user may pass in domain api.
func (f *fixture) ask(ctx context.Context, user string) (ratelimitv3.RateLimitResponse_Code, error) {
	response, err := ratelimitv3.NewRateLimitServiceClient(f.conn).ShouldRateLimit(ctx, &ratelimitv3.RateLimitRequest{
		Domain:      "api",
		Descriptors: []*commonv3.RateLimitDescriptor{{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "user", Value: user}}}},
	})
	return response.GetOverallCode(), err
}

// limit asks as a new user until that is denied, and returns how often it passed.
func (f *fixture) limit() (int, error) {
	user := fmt.Sprintf("user%d", time.Now().UnixNano())
	for n := range 100 {
		switch code, err := f.ask(f.t.Context(), user); {
		case err != nil:
			return 0, err
		case code == ratelimitv3.RateLimitResponse_OVER_LIMIT:
			return n, nil
		}
	}
	return 0, errors.New("never denied")
}

// wantLimit waits until so many requests of a user pass.
func (f *fixture) wantLimit(want int) {
	f.t.Helper()
	testenv.Eventually(f.t, func() error {
		if got, err := f.limit(); err != nil || got != want {
			return fmt.Errorf("%d requests passed, want %d (error: %v)", got, want, err)
		}
		return nil
	})
}

// request sends an HTTP request and returns status and body of the answer.
func (f *fixture) request(method, addr, path, body string) (int, string, error) {
	request, err := http.NewRequestWithContext(f.t.Context(), method, "http://"+addr+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	response, err := f.http.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return response.StatusCode, string(answer), err
}

// wantAnswer waits until a request is answered so.
func (f *fixture) wantAnswer(method, addr, path string, code int, contains ...string) {
	f.t.Helper()
	testenv.Eventually(f.t, func() error {
		got, body, err := f.request(method, addr, path, "")
		if err != nil || got != code {
			return fmt.Errorf("%s %s: got %d %q, want %d (error: %v)", method, path, got, body, code, err)
		}
		for _, want := range contains {
			if !strings.Contains(body, want) {
				return fmt.Errorf("%s %s: got %q, want it to contain %q", method, path, body, want)
			}
		}
		return nil
	})
}

// wantHealth waits until all health checks say so.
func (f *fixture) wantHealth(healthy bool, reason string) {
	f.t.Helper()
	code, serving := http.StatusInternalServerError, grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if healthy {
		code, serving = http.StatusOK, grpc_health_v1.HealthCheckResponse_SERVING
	}
	f.wantAnswer("GET", f.HTTPAddr(), "/healthcheck", code, reason)
	for _, service := range []string{"", "ratelimit"} {
		testenv.Eventually(f.t, func() error {
			got, err := grpc_health_v1.NewHealthClient(f.conn).Check(f.t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
			if err != nil || got.Status != serving {
				return fmt.Errorf("gRPC health of %q: got %v, want %v (error: %v)", service, got, serving, err)
			}
			return nil
		})
	}
}

// wantLog waits until the log contains text.
func (f *fixture) wantLog(text string) {
	f.t.Helper()
	f.log.WaitFor(f.t, text)
}

// wantEnd waits until Run has returned, and returns its error.
func (f *fixture) wantEnd() error {
	f.t.Helper()
	select {
	case err := <-f.ended:
		return err
	case <-time.After(patience):
		f.t.Fatal("still running")
		return nil
	}
}

// limited are rules that let n requests a year of each user pass: no window ends
// during a test.
func limited(n int) string {
	return fmt.Sprintf("domain: api\ndescriptors:\n  - key: user\n    rate_limit: {unit: year, requests_per_unit: %d}\n", n)
}

// write makes a file of content, with its directory.
func write(t *testing.T, path, content string) {
	t.Helper()
	testenv.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
	testenv.OK(t, os.WriteFile(path, []byte(content), 0o644))
}

// directory makes a directory with one file of rules.
func directory(t *testing.T, content string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "config")
	write(t, filepath.Join(dir, "rules.yaml"), content)
	return dir
}

func TestServes(t *testing.T) {
	f := start(t, "--config="+directory(t, limited(3)), "--prometheus-path=/numbers")
	f.wantHealth(true, "OK")
	f.wantLimit(3)

	question := `{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "alice"}]}]}`
	for _, want := range []int{200, 200, 200, 429} {
		if code, body, err := f.request("POST", f.HTTPAddr(), "/json", question); code != want {
			t.Errorf("/json: got %d %s, want %d (error: %v)", code, body, want, err)
		}
	}
	f.wantAnswer("GET", f.debug.addr(), "/", 200, "Weir v0-test", "health      OK", "in memory", "1 rule in 1 domain")
	f.wantAnswer("GET", f.debug.addr(), "/rlconfig", 200, "api.user: unit=YEAR requests_per_unit=3, shadow_mode: false")
	f.wantAnswer("GET", f.debug.addr(), "/debug/pprof/goroutine", 200)
	f.wantAnswer("GET", f.metrics.addr(), "/numbers", 200,
		"ratelimit_service_config_load_success 1\n", "ratelimit_service_config_load_error 0\n",
		`ratelimit_service_rate_limit_over_limit{domain="api",key1="user",key2=""} 2`, "go_goroutines", "process_")
	for _, want := range []string{
		"version=v0-test", `msg="rules loaded"`, "files=1 domains=1 rules=1", "REDIS_URL is not set",
		fmt.Sprintf("grpc=%s http=%s debug=%s metrics=%s", f.grpc.addr(), f.HTTPAddr(), f.debug.addr(), f.metrics.addr()),
	} {
		f.wantLog(want)
	}
}

func TestWarnsOfVariablesWithoutEffect(t *testing.T) {
	config := "--config=" + directory(t, limited(3))
	warn := func(log io.Writer) {
		t.Helper()
		app := testenv.Must(New(options(t, log, config)))(t)
		if err := app.stop(); err != nil {
			t.Error(err)
		}
	}
	log := new(testenv.Log)
	warn(log)
	if strings.Contains(log.String(), "has no effect") {
		t.Errorf("warns of nothing:\n%s", log)
	}

	t.Setenv("PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", "true")
	t.Setenv("REDIS_AUTH", "swordfish")
	log = new(testenv.Log)
	warn(log)
	for _, want := range []string{
		`level=WARN msg="a variable has no effect" variable=PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS value=true instead="ratelimit_service_response_time_seconds is in seconds"`,
		`level=WARN msg="counters are in memory of this server only, because REDIS_URL is not set" max_counters=1000000 although_set=REDIS_AUTH`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, log)
		}
	}
	if strings.Contains(log.String(), "swordfish") {
		t.Errorf("the log shows the password:\n%s", log)
	}
}

// TestMetricsAreWellFormed lints what all parts together show.
func TestMetricsAreWellFormed(t *testing.T) {
	f := start(t, "--config="+directory(t, limited(3)))
	f.wantLimit(3)
	problems := testenv.Must(testutil.GatherAndLint(f.opts.Registry))(t)
	for _, p := range problems {
		named := strings.HasPrefix(p.Metric, "ratelimit_service_") // as dashboards know them, without _total
		if !named || !strings.Contains(p.Text, "_total") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

func TestBadRequest(t *testing.T) {
	f := start(t, "--config="+directory(t, limited(3)))
	client := ratelimitv3.NewRateLimitServiceClient(f.conn)
	one := &commonv3.RateLimitDescriptor{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "user", Value: "alice"}}}
	_, err := client.ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{Domain: "api", Descriptors: slices.Repeat([]*commonv3.RateLimitDescriptor{one}, 101)})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("more descriptors than are allowed: %v", err)
	}
}

// TestChargeAsSet denies a plain request and one that tells its own cost, and
// looks what that took from another limit.
func TestChargeAsSet(t *testing.T) {
	config := "--config=" + directory(t, limited(10)+"  - key: blocked\n    rate_limit: {unit: year, requests_per_unit: 0}\n"+
		"  - key: once\n    rate_limit: {unit: year, requests_per_unit: 1}\n")
	descriptor := func(key string) *commonv3.RateLimitDescriptor {
		return &commonv3.RateLimitDescriptor{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: key, Value: "alice"}}}
	}
	for setting, want := range map[string]uint32{"": 9, "true": 10, "false": 8} {
		t.Run(setting, func(t *testing.T) {
			f := start(t, config, "--stop-cache-key-increment-when-overlimit="+setting)
			ask := func(first, second *commonv3.RateLimitDescriptor) *ratelimitv3.RateLimitResponse {
				response, err := ratelimitv3.NewRateLimitServiceClient(f.conn).ShouldRateLimit(t.Context(),
					&ratelimitv3.RateLimitRequest{Domain: "api", Descriptors: []*commonv3.RateLimitDescriptor{first, second}})
				if err != nil || response.OverallCode != ratelimitv3.RateLimitResponse_OVER_LIMIT {
					t.Fatalf("got %v (error: %v), want a denied request", response, err)
				}
				return response
			}
			costly, peek := descriptor("user"), descriptor("user")
			costly.HitsAddend, peek.HitsAddend = wrapperspb.UInt64(1), wrapperspb.UInt64(0)
			ask(descriptor("user"), descriptor("blocked"))
			ask(costly, descriptor("blocked"))
			if got := ask(peek, descriptor("blocked")).Statuses[0].LimitRemaining; got != want {
				t.Errorf("%d of 10 are left, want %d", got, want)
			}
			spent := descriptor("once")
			for _, addend := range []uint64{1, 0} { // the second is a peek at a limit that is used up
				spent.HitsAddend = wrapperspb.UInt64(addend)
				response := ask(spent, descriptor("blocked"))
				passes := response.Statuses[0].Code == ratelimitv3.RateLimitResponse_OK
				if want := addend > 0 || setting == "false"; setting != "true" && passes != want {
					t.Errorf("hits_addend %d at a limit of 1: %v, want it to pass: %v", addend, response.Statuses[0], want)
				}
			}
		})
	}
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	taken := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	good := directory(t, limited(3))
	here := testenv.Must(os.Getwd())(t)
	tests := []struct {
		name  string
		args  []string
		wants []string
	}{
		{"gRPC port taken", []string{"--config=" + good, "--grpc-port=" + port}, []string{"gRPC", "GRPC_PORT", taken.Addr().String(), "address already in use"}},
		{"HTTP port taken", []string{"--config=" + good, "--port=" + port}, []string{"HTTP", "PORT", taken.Addr().String()}},
		{"both ports taken", []string{"--config=" + good, "--grpc-port=" + port, "--port=" + port}, []string{"GRPC_HOST and GRPC_PORT", "see HOST and PORT"}},
		{"no host", []string{"--config=" + good, "--host=no.such.host.invalid"}, []string{"HTTP", "HOST", "no.such.host.invalid"}},
		{"prefix of keys in a cluster", []string{"--config=" + good, "--redis-type=CLUSTER", "--redis-url=one:1", "--cache-key-prefix={blue}"}, []string{"CACHE_KEY_PREFIX", "{blue}"}},
		{"authorities of Redis", []string{"--config=" + good, "--redis-url=db:6379", "--redis-tls", "--redis-tls-cacert=/no/such/file"}, []string{"REDIS_TLS_CACERT", "/no/such/file"}},
		{"all problems of the rules", []string{"--config=" + directory(t, "domain: api\ndescriptors:\n  - key: a\n    rate_limit: {unit: minuet, requests_per_unit: 1}\n  - key: b\n    colour: red\n")}, []string{"rules.yaml:4:", "minuet", "rules.yaml:6:", "colour"}},
		{"no rules", []string{"--config=" + filepath.Join(t.TempDir(), "missing")}, []string{"missing (see --config, CONFIG_PATH): ", "no such file"}},
		{"no rules at a relative path", []string{"--config=missing"}, []string{"rules at " + here + "/missing (see --config, CONFIG_PATH): "}},
		{"runtime directory without its subdirectory", []string{"--runtime-root=missing"}, []string{"rules at " + here + "/missing/config (see RUNTIME_ROOT, RUNTIME_SUBDIRECTORY, RUNTIME_APPDIRECTORY): "}},
		{"empty directory", []string{"--config=" + t.TempDir()}, []string{"no rule files"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := New(options(t, io.Discard, tt.args...))
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range tt.wants {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not contain %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "swordfish") {
				t.Errorf("error %q shows the password", err)
			}
		})
	}
}

func TestForcedStartWithoutRules(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	f := start(t, "--config="+dir, "--force-start-without-initial-config")
	f.wantHealth(true, "OK")
	if _, err := f.ask(t.Context(), "alice"); status.Code(err) != codes.Unavailable {
		t.Errorf("answer without rules: %v", err)
	}
	f.wantAnswer("GET", f.debug.addr(), "/", 200, "none loaded", "no such file")
	f.wantAnswer("GET", f.debug.addr(), "/rlconfig", 500, "no rules are loaded yet")
	f.wantAnswer("POST", f.debug.addr(), "/-/reload", 500, "no such file")
	f.wantLog(`level=ERROR msg="new rules rejected; there are none yet, requests get UNAVAILABLE" path=` + dir + "\n")
	f.wantLog(`level=ERROR msg="problem in the new rules" problem="rules at ` + dir)
	write(t, filepath.Join(dir, "rules.yaml"), limited(2))
	f.wantLimit(2)
}

func TestHealthThatNeedsRules(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	f := start(t, "--config="+dir, "--force-start-without-initial-config", "--healthy-with-at-least-one-config-loaded")
	f.wantHealth(false, "no rules are loaded yet")
	write(t, filepath.Join(dir, "rules.yaml"), limited(2))
	f.wantHealth(true, "OK")
	f.wantLimit(2)
}
