package server

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"weir/internal/testenv"
)

func TestServes(t *testing.T) {
	var stdout testenv.Log
	f := startWithStdout(t, &stdout, "--config="+directory(t, limited(3)), "--prometheus-path=/numbers")
	f.wantHealth(true, "OK")
	f.wantLimit(3)

	for _, want := range []int{200, 200, 200, 429} {
		if code, body, err := f.request("POST", f.HTTPAddr(), "/json", asksAlice); code != want {
			t.Errorf("/json: got %d %s, want %d (error: %v)", code, body, want, err)
		}
	}
	f.wantAnswer("GET", f.debug.addr(), "/", 200, "Weir v0-test", "health      OK", "in memory", "1 rule in 1 domain")
	f.wantAnswer("GET", f.debug.addr(), "/rlconfig", 200, "api.user: unit=YEAR requests_per_unit=3, shadow_mode: false")
	f.wantAnswer("GET", f.debug.addr(), "/debug/pprof/goroutine", 200)
	f.wantAnswer("GET", f.metrics.addr(), "/numbers", 200,
		"ratelimit_service_config_load_success 1\n", "ratelimit_service_config_load_error 0\n",
		`ratelimit_service_rate_limit_over_limit{domain="api",key1="user",key2=""} 2`, "go_goroutines", "process_",
		`weir_build_info{commit="abc",go="go1",version="v0-test"} 1`)
	if _, page, err := f.request("GET", f.metrics.addr(), "/numbers", ""); err != nil || strings.Contains(page, "weir_decision_log") || stdout.String() != "" {
		t.Errorf("without a log of decisions: got %v, %s, %s", err, page, &stdout)
	}
	for _, want := range []string{
		`version="v0-test, revision abc, go1"`, `msg="rules loaded"`, "files=1 domains=1 rules=1", "REDIS_URL is not set",
		fmt.Sprintf("grpc=%s http=%s debug=%s metrics=%s", f.grpc.addr(), f.HTTPAddr(), f.debug.addr(), f.metrics.addr()),
	} {
		f.wantLog(want)
	}
}

// TestWarnsOfVariablesWithoutEffect also checks that warnings show no secret.
func TestWarnsOfVariablesWithoutEffect(t *testing.T) {
	t.Setenv("PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", "true")
	t.Setenv("REDIS_AUTH", "swordfish")
	f := start(t, "--config="+directory(t, limited(3)))
	f.wantLog(`level=WARN msg="a variable has no effect" variable=PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS value=true instead="ratelimit_service_response_time_seconds is in seconds"`)
	f.wantLog(`level=WARN msg="counters are in memory of this server only, because REDIS_URL is not set" max_counters=1000000 although_set=REDIS_AUTH`)
	f.wantNoPassword()
}

// TestChargeAsSet sends requests that one limit denies, without and with hits_addend, and checks what
// they charge to another limit.
func TestChargeAsSet(t *testing.T) {
	config := "--config=" + directory(t, limited(10)+"  - key: blocked\n    rate_limit: {unit: year, requests_per_unit: 0}\n")
	for setting, want := range map[string]uint32{"": 9, "true": 10, "false": 8} {
		t.Run(setting, func(t *testing.T) {
			f := start(t, config, "--stop-cache-key-increment-when-overlimit="+setting)
			var left uint32
			for _, addend := range []*wrapperspb.UInt64Value{nil, wrapperspb.UInt64(1), wrapperspb.UInt64(0)} { // 0 is a peek
				user := describe("user=alice")
				user.HitsAddend = addend
				response := testenv.Must(f.decide(t.Context(), user, describe("blocked=alice")))(t)
				if response.OverallCode != ratelimitv3.RateLimitResponse_OVER_LIMIT {
					t.Fatalf("got %v, want a denied request", response)
				}
				left = response.Statuses[0].LimitRemaining
			}
			testenv.Equal(t, left, want, "requests of 10 that are left")
		})
	}
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	taken := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	good := directory(t, limited(3))
	mixed := directory(t, limited(3))
	write(t, mixed+"/bad.yaml", "domian: other\n")
	root := t.TempDir()
	write(t, root+"/hidden/config/.rules.yaml", limited(3))
	here := testenv.Must(os.Getwd())(t)
	tests := []struct {
		name  string
		args  []string
		wants []string
	}{
		{"gRPC port taken", []string{"--config=" + good, "--grpc-port=" + port}, []string{"gRPC", "GRPC_PORT", taken.Addr().String(), "address already in use"}},
		{"HTTP port taken", []string{"--config=" + good, "--port=" + port}, []string{"HTTP", "PORT", taken.Addr().String()}},
		{"both ports taken", []string{"--config=" + good, "--grpc-port=" + port, "--port=" + port}, []string{"GRPC_HOST and GRPC_PORT", "see HOST and PORT"}},
		{"address of the other family", []string{"--config=" + good, "--proto=tcp4", "--host=::1"}, []string{"see HOST and PORT", "tcp4"}},
		{"no host", []string{"--config=" + good, "--host=no.such.host.invalid"}, []string{"HTTP", "HOST", "no.such.host.invalid"}},
		{"prefix of keys in a cluster", []string{"--config=" + good, "--redis-type=CLUSTER", "--redis-url=one:1", "--cache-key-prefix={blue}"}, []string{"CACHE_KEY_PREFIX", "{blue}"}},
		{"authorities of Redis", []string{"--config=" + good, "--redis-url=db:6379", "--redis-tls", "--redis-tls-cacert=/no/such/file"}, []string{"REDIS_TLS_CACERT", "/no/such/file"}},
		{"all problems of the rules", []string{"--config=" + directory(t, "domain: api\ndescriptors:\n  - key: a\n    rate_limit: {unit: minuet, requests_per_unit: 1}\n  - key: b\n    colour: red\n")}, []string{"rules.yaml:4:", "minuet", "rules.yaml:6:", "colour"}},
		{"no rules at a relative path", []string{"--config=missing"}, []string{"rules at " + here + "/missing (see --config, CONFIG_PATH): "}},
		{"one bad file", []string{"--config=" + mixed}, []string{"bad.yaml:1:", "domian"}},
		{"no RUNTIME_SUBDIRECTORY", []string{"--runtime-root=" + root}, []string{root + "/config (see RUNTIME_ROOT, RUNTIME_SUBDIRECTORY", "no such file"}},
		{"no RUNTIME_ROOT", []string{"--runtime-subdirectory=no/such"}, []string{"/srv/runtime_data/current/no/such/config", "no such file"}},
		{"hidden rules", []string{"--runtime-root=" + root, "--runtime-subdirectory=hidden"}, []string{root + "/hidden/config", "no rule files"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := New(options(t, io.Discard, tt.args...))
			if err == nil {
				t.Fatal("accepted")
			}
			testenv.Contains(t, err.Error(), tt.wants...)
			if strings.Contains(err.Error(), "swordfish") {
				t.Errorf("error %q shows the password", err)
			}
		})
	}
}

// TestForcedStartWithoutRules checks that health needs rules only if the settings say so.
func TestForcedStartWithoutRules(t *testing.T) {
	for value, healthy := range map[string]bool{"false": true, "true": false} {
		t.Setenv("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", value)
		dir := filepath.Join(t.TempDir(), "not", "there", "yet")
		f := start(t, "--config="+dir, "--force-start-without-initial-config")
		f.wantHealth(healthy, map[bool]string{true: "OK", false: "no rules are loaded yet"}[healthy])
		f.wantUnavailable()
		f.wantAnswer("GET", f.debug.addr(), "/", 200, "none loaded", "no such file")
		f.wantAnswer("GET", f.debug.addr(), "/rlconfig", 500, "no rules are loaded yet")
		f.wantAnswer("POST", f.debug.addr(), "/-/reload", 500, "no such file")
		f.wantLog(`level=ERROR msg="new rules rejected; there are none yet, requests get UNAVAILABLE" path=` + dir + "\n")
		f.wantLog(`level=ERROR msg="problem in the new rules" problem="rules at ` + dir)
		write(t, filepath.Join(dir, "rules.yaml"), limited(2))
		f.wantHealth(true, "OK")
		f.wantLimit(2)
	}
}

// TestEnvironmentsOfTheReference starts with unusual settings that envoyproxy/ratelimit accepts.
func TestEnvironmentsOfTheReference(t *testing.T) {
	certificate, _ := testenv.NewAuthority(t).Issue(t, "weir")
	cert := filepath.Join(t.TempDir(), "crt")
	write(t, cert, string(certificate))
	for _, flags := range []string{
		"--grpc-max-connection-age=0 --grpc-max-connection-age-grace=0s", // no maximum age
		"--config-type=GRPC_XDS_SOTW --xds-client-backoff-max-interval=5s",
		"--config-type=GRPC_XDS_SOTW --config-grpc-xds-server-url=dns:cp:18000",
		"--redis-url=h:6379 --redis-tls=false --redis-tls-client-cert=" + cert, // not used, and without a key
		"--debug-host=[::]",
	} {
		app, err := New(options(t, io.Discard, append(strings.Fields(flags), "--config="+directory(t, limited(3)))...))
		if err == nil {
			err = app.life.stop(patience)
		}
		if err != nil {
			t.Errorf("%s: %v", flags, err)
		}
	}
}
