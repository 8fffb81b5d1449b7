package server

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"weir/internal/settings"
	"weir/internal/testenv"
)

func TestMain(m *testing.M) {
	// The environment must not change the settings of tests.
	for _, flag := range kong.Must(&struct{ settings.Settings }{}, kong.NoDefaultHelp()).Model.Flags {
		for _, name := range flag.Envs {
			os.Unsetenv(name)
		}
	}
	flag.Parse()
	if !testenv.RaceDetector && flag.Lookup("test.parallel").Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) { // the default
		_ = flag.Set("test.parallel", "6") // because they mostly wait for other programs
	}
	goleak.VerifyTestMain(m)
}

// patience is the maximum time that a test waits for an event.
const patience = time.Minute

// fixture is a server on ports that the system chose, with its clients.
type fixture struct {
	*App
	t      *testing.T
	log    *testenv.Log
	reload chan os.Signal
	leave  context.CancelFunc // begins the drain delay
	stop   context.CancelFunc // begins the drain
	ended  chan error         // the error of Run
	http   http.Client
	conn   *grpc.ClientConn
}

// fromEnvironment returns the settings in args and the environment.
func fromEnvironment(t *testing.T, args ...string) settings.Settings {
	t.Helper()
	var line struct{ settings.Settings }
	parser := testenv.Must(kong.New(&line, settings.Parsing()))(t)
	testenv.Must(parser.Parse(args))(t)
	return line.Settings
}

// options returns the options of a server on ports that the system chooses.
func options(t *testing.T, log io.Writer, args ...string) Options {
	t.Helper()
	local := []string{
		"--host=127.0.0.1", "--port=0", "--grpc-host=127.0.0.1", "--grpc-port=0",
		"--debug-host=127.0.0.1", "--debug-port=0", "--prometheus-addr=127.0.0.1:0", "--drain-timeout=1m", "--drain-delay=1h", // until stop
	}
	s := fromEnvironment(t, append(local, args...)...)
	if os.Getenv("REQUEST_TIMEOUT") == "" {
		s.Answers.RequestTimeout = heldPatience // a busy machine may be slow
	}
	return Options{
		Settings: s,
		Logger:   slog.New(slog.NewTextHandler(log, nil)),
		Registry: prometheus.NewRegistry(),
		Build:    Build{Version: "v0-test", Commit: "abc", Go: "go1"},
		Hurry:    context.Background(),
	}
}

// start runs a server until the test ends or stop is called.
func start(t *testing.T, args ...string) *fixture {
	t.Helper()
	return startWithStdout(t, io.Discard, args...)
}

// startWithStdout is like start, for a server that writes to stdout.
func startWithStdout(t *testing.T, stdout io.Writer, args ...string) *fixture {
	t.Helper()
	f := &fixture{t: t, log: new(testenv.Log), reload: make(chan os.Signal), ended: make(chan error, 1)}
	opts := options(t, f.log, args...)
	hurry, hurryUp := context.WithCancel(context.Background())
	opts.Reload, opts.Hurry, opts.Stdout = f.reload, hurry, stdout
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

// describe returns a descriptor with entries such as "user=alice path=/".
func describe(entries string) *commonv3.RateLimitDescriptor {
	d := new(commonv3.RateLimitDescriptor)
	for e := range strings.FieldsSeq(entries) {
		key, value, _ := strings.Cut(e, "=")
		d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	return d
}

// decide sends a request with descriptors in domain api.
func (f *fixture) decide(ctx context.Context, descriptors ...*commonv3.RateLimitDescriptor) (*ratelimitv3.RateLimitResponse, error) {
	return ratelimitv3.NewRateLimitServiceClient(f.conn).ShouldRateLimit(ctx, &ratelimitv3.RateLimitRequest{Domain: "api", Descriptors: descriptors})
}

// ask sends a request for user in domain api and returns the overall code.
func (f *fixture) ask(ctx context.Context, user string) (ratelimitv3.RateLimitResponse_Code, error) {
	response, err := f.decide(ctx, &commonv3.RateLimitDescriptor{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "user", Value: user}}})
	return response.GetOverallCode(), err
}

// askMany sends a request with a descriptor for each user.
func (f *fixture) askMany(users ...string) *ratelimitv3.RateLimitResponse {
	f.t.Helper()
	var descriptors []*commonv3.RateLimitDescriptor
	for _, user := range users {
		descriptors = append(descriptors, describe("user="+user))
	}
	return testenv.Must(f.decide(f.t.Context(), descriptors...))(f.t)
}

// limit sends requests for a new user until one is denied, and returns the number that passed.
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

// wantLimit waits until limit returns want.
func (f *fixture) wantLimit(want int) {
	f.t.Helper()
	testenv.Eventually(f.t, func() error {
		if got, err := f.limit(); err != nil || got != want {
			return fmt.Errorf("%d requests passed, want %d (error: %v)", got, want, err)
		}
		return nil
	})
}

// request sends an HTTP request and returns the status and the body of the answer.
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

// wantAnswer waits until the answer to a request has the code and contains the texts.
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

// wantHealth waits until all health checks report the value of healthy, and /healthcheck also the reason.
func (f *fixture) wantHealth(healthy bool, reason string) {
	f.t.Helper()
	code, serving := http.StatusInternalServerError, grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if healthy {
		code, serving = http.StatusOK, grpc_health_v1.HealthCheckResponse_SERVING
	}
	f.wantAnswer("GET", f.HTTPAddr(), "/healthcheck", code, reason)
	for _, service := range []string{"", "ratelimit"} {
		testenv.Becomes(f.t, fmt.Sprintf("gRPC health of %q", service), serving, func() grpc_health_v1.HealthCheckResponse_ServingStatus {
			got, _ := grpc_health_v1.NewHealthClient(f.conn).Check(f.t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
			return got.GetStatus()
		})
	}
}

// wantLog waits until the log contains text.
func (f *fixture) wantLog(text string) { f.t.Helper(); f.log.WaitFor(f.t, text) }

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

// limited returns rules with a limit of n requests a year for each user, whose window does not end
// during a test.
func limited(n int) string {
	return fmt.Sprintf("domain: api\ndescriptors:\n  - key: user\n    rate_limit: {unit: year, requests_per_unit: %d}\n", n)
}

// write writes a file, and makes its directory.
func write(t *testing.T, path, content string) {
	t.Helper()
	testenv.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
	testenv.OK(t, os.WriteFile(path, []byte(content), 0o644))
}

// issue writes a certificate for name and its key, and returns the paths of both files.
func issue(t *testing.T, issuer *testenv.Authority, name string) (certificate, key string) {
	t.Helper()
	certificatePEM, keyPEM := issuer.Issue(t, name)
	certificate, key = filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")
	write(t, certificate, string(certificatePEM))
	write(t, key, string(keyPEM))
	return certificate, key
}

// directory returns a new directory with one rule file.
func directory(t *testing.T, content string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "config")
	write(t, filepath.Join(dir, "rules.yaml"), content)
	return dir
}

// wantUnavailable sends a request with a deadline and expects UNAVAILABLE before the deadline.
func (f *fixture) wantUnavailable() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	if code, err := f.ask(ctx, "alice"); status.Code(err) != codes.Unavailable {
		f.t.Errorf("got %v %v, want UNAVAILABLE", code, err)
	}
}

// replace replaces a file in one step, so that no reader sees a part of the new content.
func replace(t *testing.T, path, content string) {
	t.Helper()
	next := filepath.Join(filepath.Dir(path), ".next")
	write(t, next, content)
	testenv.OK(t, os.Rename(next, path))
}

// wantNoPassword checks that neither the log nor the status page shows the tests' password.
func (f *fixture) wantNoPassword() {
	f.t.Helper()
	_, page, err := f.request("GET", f.debug.addr(), "/", "")
	if err != nil || strings.Contains(page+f.log.String(), "swordfish") {
		f.t.Errorf("the password shows in the log or on the status page (error: %v):\n%s", err, page)
	}
}
