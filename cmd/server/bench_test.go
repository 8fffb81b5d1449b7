package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"weir/internal/offline/bench"
)

// oracle admits the domain api, does not answer for the domain stall, and fails
// for any other.
type oracle struct {
	ratelimitv3.UnimplementedRateLimitServiceServer
	stalls func() // called for the domain stall
}

func (o oracle) ShouldRateLimit(ctx context.Context, r *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	switch r.Domain {
	case "api":
	case "stall":
		o.stalls()
		<-ctx.Done()
	default:
		return nil, status.Error(codes.Unavailable, "asked for "+r.Domain)
	}
	return &ratelimitv3.RateLimitResponse{OverallCode: ratelimitv3.RateLimitResponse_OK}, nil
}

// start serves until the test ends, at the address that it returns.
func (o oracle) start(t *testing.T, options ...grpc.ServerOption) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(options...)
	ratelimitv3.RegisterRateLimitServiceServer(s, o)
	go s.Serve(listener)
	t.Cleanup(s.Stop)
	return listener.Addr().String()
}

func TestBench(t *testing.T) {
	addr := oracle{}.start(t)
	benchArgs := func(args ...string) []string {
		return append([]string{"bench", addr, "--requests=100", "--warmup=0s"}, args...)
	}
	tests := []struct {
		name   string
		args   []string
		code   int
		stdout []string
		stderr []string
	}{
		{name: "closed loop", args: benchArgs(), stdout: []string{"target      " + addr + "\ndomain      api\ndescriptor  user={}\ntraffic     1000 keys, uniform, hits_addend 1\n", "closed loop, 64 callers, 4 connections", "sent        100\n", "answered    100 ", "ok          100  100.0 %", "failed      0\n", "latency     p50 "}},
		{name: "no rules", args: benchArgs(), stdout: []string{"no limit    100  100.0 %\n            none of the answers carried a limit: does the server have rules for the domain \"api\" and these descriptors?\n"}},
		{name: "open loop", args: benchArgs("--rate=5000", "--distribution=zipf"), stdout: []string{"open loop at 5000/s, 100 callers", "answered    100 "}},
		{name: "failures", args: benchArgs("--domain=shop"), code: 1, stdout: []string{"answered    0 ", "failed      100  Unavailable 100  last: rpc error: code = Unavailable desc = asked for shop"}},
		{name: "too fast a plan", args: []string{"bench", addr, "--rate=1000000", "--callers=1", "--duration=50ms"}, code: 1, stdout: []string{"failed      0\n", "never sent  "}},
		{name: "several descriptors", args: benchArgs("--descriptor=a={},b=c", `--descriptor=user=x\,{}`, "--hits=0"), stdout: []string{"descriptor  a={},b=c\ndescriptor  user=x\\,{}\ntraffic     1000 keys, uniform, no hits_addend\n", "answered    100 "}},

		{name: "no server", args: []string{"bench", "127.0.0.1:1"}, code: 2, stderr: []string{`weir: server "127.0.0.1:1": no connection`}},
		{name: "short without warm-up", args: []string{"bench", addr, "--duration=2s"}, stdout: []string{"closed loop, 64 callers", "latency     p50 "}},
		{name: "bad descriptor", args: benchArgs("--descriptor=a=b,"), code: 2, stderr: []string{`weir: --descriptor: "a=b,": entry 2 has no key`}},
		{name: "no descriptor", args: benchArgs("--descriptor="), code: 2, stderr: []string{`weir: --descriptor: "": entry 1 has no key`}},
		{name: "no callers", args: benchArgs("--callers=0"), code: 2, stderr: []string{"weir: --callers: 0 can send nothing, allowed is 1 or more\n"}},
		{name: "too few connections", args: benchArgs("--connections=0"), code: 2, stderr: []string{"weir: --connections: 0 is too few"}},
		{name: "bad rate", args: benchArgs("--rate=-1"), code: 2, stderr: []string{"weir: --rate: -1 is not allowed"}},
		{name: "bad duration", args: benchArgs("--duration=0s"), code: 2, stderr: []string{"weir: --duration: 0s is not allowed"}},
		{name: "bad warm-up", args: benchArgs("--warmup=10s"), code: 2, stderr: []string{"weir: --warmup: 10s is not allowed"}},
		{name: "bad number of requests", args: benchArgs("--requests=-1"), code: 2, stderr: []string{"weir: --requests: -1 is not allowed"}},
		{name: "bad timeout", args: benchArgs("--timeout=-1s"), code: 2, stderr: []string{"weir: --timeout: -1s is not allowed"}},
		{name: "no domain", args: benchArgs("--domain="), code: 2, stderr: []string{"weir: --domain: it is empty"}},
		{name: "no keys", args: benchArgs("--keys=0"), code: 2, stderr: []string{"weir: --keys: 0 is not allowed"}},
		{name: "bad exponent", args: benchArgs("--distribution=zipf", "--zipf-exponent=1"), code: 2, stderr: []string{"weir: --zipf-exponent: 1 is not allowed, allowed are numbers above 1\n"}},
		{name: "bad hits", args: benchArgs("--hits=-1"), code: 2, stderr: []string{"weir: --hits: "}},
		{name: "no port", args: []string{"bench", "localhost"}, code: 2, stderr: []string{`weir: server "localhost": missing port in address; expected is host:port`}},
		{name: "nothing but warm-up", args: benchArgs("--warmup=9s"), code: 1, stderr: []string{"weir: nothing was measured: of 100 requests all were due in the warm-up of 9s\n"}},
		{name: "bad distribution", args: benchArgs("--distribution=flat"), code: 2, stderr: []string{"flat", "uniform", "zipf", "hot"}},
		{name: "bad output", args: benchArgs("--output=xml"), code: 2, stderr: []string{"xml", "text", "json"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := callUntil(t.Context(), tt.args...)
			compare(t, tt.code, tt.stdout, tt.stderr, code, stdout, stderr)
		})
	}

	code, stdout, stderr := callUntil(t.Context(), benchArgs("--output=json")...)
	var result bench.Result
	decoder := json.NewDecoder(strings.NewReader(stdout))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&result); err != nil || code != 0 || result.OK != 100 || result.SentWithWarmup != 100 || result.Latency.P50 == 0 {
		t.Errorf("got %d, %s, %s, %v", code, stdout, stderr, err)
	}
}

// The result says what it is of, as the names in it promise to programs that read it.
func TestBenchTellsItsOptions(t *testing.T) {
	addr := oracle{}.start(t)
	tests := []struct {
		args []string
		want string
	}{
		{
			[]string{addr, "--duration=50ms"},
			`{"servers":["ADDR"],"tls":false,"loop":"closed","connections":4,"callers":64,"rate":0,` +
				`"duration_seconds":0.05,"warmup_seconds":0.005,"requests":0,"timeout_seconds":0,` +
				`"domain":"api","descriptors":[[{"key":"user","value":"{}"}]],"keys":1000,"distribution":"uniform","hits":1}`,
		},
		{
			[]string{
				addr, addr, "--rate=5000", "--requests=20", "--connections=50", "--timeout=9s", "--warmup=1ms",
				"--descriptor=a=b,c={}", "--descriptor=d=e", "--keys=7", "--distribution=zipf", "--zipf-exponent=1.5", "--hits=0",
			},
			`{"servers":["ADDR","ADDR"],"tls":false,"loop":"open","connections":20,"callers":20,"rate":5000,` +
				`"duration_seconds":10,"warmup_seconds":0.001,"requests":20,"timeout_seconds":9,` +
				`"domain":"api","descriptors":[[{"key":"a","value":"b"},{"key":"c","value":"{}"}],[{"key":"d","value":"e"}]],` +
				`"keys":7,"distribution":"zipf","zipf_exponent":1.5,"hits":0}`,
		},
	}
	for _, tt := range tests {
		_, stdout, stderr := callUntil(t.Context(), append([]string{"bench", "--output=json"}, tt.args...)...)
		var result struct{ Options json.RawMessage }
		var got bytes.Buffer
		if err := json.Unmarshal([]byte(stdout), &result); err != nil {
			t.Fatalf("%v: %v, %s", tt.args, err, stderr)
		}
		json.Compact(&got, result.Options)
		if want := strings.ReplaceAll(tt.want, "ADDR", addr); got.String() != want {
			t.Errorf("%v: got\n%s\nwant\n%s", tt.args, &got, want)
		}
	}
}

// An interruption says what was measured, of a server that does not answer, too,
// and nothing where there was nothing yet.
func TestBenchInterrupted(t *testing.T) {
	tests := []struct {
		warmup         string
		stdout, stderr string
	}{
		{"0s", "failed      1  Canceled 1 ", ""},
		{"9s", "", "weir: nothing was measured yet: interrupted in the warm-up of 9s\n"},
	}
	for _, tt := range tests {
		ctx, interrupt := context.WithCancel(t.Context())
		addr := oracle{stalls: interrupt}.start(t)
		code, stdout, stderr := callUntil(ctx, "bench", addr, "--domain=stall", "--callers=1", "--warmup="+tt.warmup)
		if code != 1 || !strings.Contains(stdout, tt.stdout) || (stdout == "") != (tt.stdout == "") || stderr != tt.stderr {
			t.Errorf("warm-up of %s: got %d, %q, %q, want 1, %q, %q", tt.warmup, code, stdout, stderr, tt.stdout, tt.stderr)
		}
	}
}
