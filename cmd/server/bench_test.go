package main

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"weir/internal/loadgen"
)

// oracle admits the domain api and fails for any other.
type oracle struct {
	ratelimitv3.UnimplementedRateLimitServiceServer
}

func (oracle) ShouldRateLimit(_ context.Context, r *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	if r.Domain != "api" {
		return nil, status.Error(codes.Unavailable, "asked for "+r.Domain)
	}
	return &ratelimitv3.RateLimitResponse{OverallCode: ratelimitv3.RateLimitResponse_OK}, nil
}

func TestBench(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	ratelimitv3.RegisterRateLimitServiceServer(s, oracle{})
	go s.Serve(listener)
	t.Cleanup(s.Stop)
	bench := func(args ...string) []string {
		return append([]string{"bench", listener.Addr().String(), "--requests=100", "--warmup=0s"}, args...)
	}
	tests := []struct {
		name   string
		args   []string
		code   int
		stdout []string
		stderr []string
	}{
		{name: "closed loop", args: bench(), stdout: []string{"closed loop, 64 callers, 4 connections", "answered    100 ", "ok          100  100.0 %", "failed      0\n", "latency     p50 "}},
		{name: "open loop", args: bench("--rate=5000", "--distribution=zipf", "--pid="+strconv.Itoa(os.Getppid())), stdout: []string{"open loop at 5000/s, 100 callers", "answered    100 ", "CPU         ", "this client: "}},
		{name: "failures", args: bench("--domain=shop"), code: 1, stdout: []string{"answered    0 ", "failed      100  Unavailable 100  last: rpc error: code = Unavailable desc = asked for shop"}},
		{name: "too fast a plan", args: []string{"bench", listener.Addr().String(), "--rate=1000000", "--callers=1", "--duration=50ms"}, code: 1, stdout: []string{"failed      0\n", "never sent  "}},
		{name: "several descriptors", args: bench("--descriptor=a={},b=c", `--descriptor=user=x\,{}`), stdout: []string{"answered    100 "}},

		{name: "no server", args: []string{"bench", "127.0.0.1:1"}, code: 2, stderr: []string{`weir: server "127.0.0.1:1": no connection`}},
		{name: "short without warm-up", args: []string{"bench", listener.Addr().String(), "--duration=2s"}, stdout: []string{"closed loop, 64 callers", "latency     p50 "}},
		{name: "bad descriptor", args: bench("--descriptor=a=b,"), code: 2, stderr: []string{`weir: descriptor "a=b,": entry 2 has no key`}},
		{name: "bad distribution", args: bench("--distribution=flat"), code: 2, stderr: []string{"flat", "uniform", "zipf", "hot"}},
		{name: "no process", args: bench("--pid=1073741824"), code: 2, stderr: []string{"weir: process 1073741824: "}},
		{name: "bad output", args: bench("--output=xml"), code: 2, stderr: []string{"xml", "text", "json"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := callUntil(t.Context(), tt.args...)
			compare(t, tt.code, tt.stdout, tt.stderr, code, stdout, stderr)
		})
	}

	code, stdout, stderr := callUntil(t.Context(), bench("--output=json")...)
	var result loadgen.Result
	decoder := json.NewDecoder(strings.NewReader(stdout))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&result); err != nil || code != 0 || result.OK != 100 || result.Latency.P50 == 0 || len(result.Latency.Buckets) == 0 {
		t.Errorf("got %d, %s, %s, %v", code, stdout, stderr, err)
	}
}
