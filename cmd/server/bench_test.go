package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"weir/internal/offline/bench"
	"weir/internal/testenv"
)

// oracle is a server that admits the domain api, does not answer for the domain stall, and
// fails for all other domains.
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
		return nil, ctx.Err()
	default:
		return nil, status.Error(codes.Unavailable, "asked for "+r.Domain)
	}
	return &ratelimitv3.RateLimitResponse{OverallCode: ratelimitv3.RateLimitResponse_OK}, nil
}

// start serves until the test ends, and returns the address.
func (o oracle) start(t *testing.T, options ...grpc.ServerOption) string {
	t.Helper()
	s := grpc.NewServer(options...)
	ratelimitv3.RegisterRateLimitServiceServer(s, o)
	return testenv.ServeGRPC(t, s)
}

func TestBench(t *testing.T) {
	addr := oracle{stalls: func() {}}.start(t)
	benchArgs := func(args ...string) []string {
		return append([]string{"bench", addr, "--requests=100", "--warmup=0s"}, args...)
	}
	runCommands(t, nil, []commandTest{
		{name: "closed loop", args: benchArgs(), stdout: []string{"target      " + addr + "\ndomain      api\ndescriptor  user={}\ntraffic     1000 keys, hits_addend 1\n", "closed loop, 64 callers, 4 connections", "sent        100\n", "answered    100 ", "ok          100  100.0 %", "failed      0\n", "latency     p50 ", "no limit    100  100.0 %\n            none of the answers carried a limit: does the server have rules for the domain \"api\" and these descriptors?\n"}},
		{name: "open loop", args: benchArgs("--rate=5000"), stdout: []string{"open loop at 5000/s, 100 callers", "answered    100 "}},
		{name: "failures", args: benchArgs("--domain=shop"), code: 1, stdout: []string{"answered    0 ", "failed      100  Unavailable 100  last: rpc error: code = Unavailable desc = asked for shop"}},
		{name: "too fast a plan", args: []string{"bench", addr, "--rate=1000000", "--callers=1", "--duration=50ms"}, code: 1, stdout: []string{"failed      0\n", "never sent  "}},
		{name: "several descriptors", args: benchArgs("--descriptor=a={},b=c", `--descriptor=user=x\,{}`, "--hits=0"), stdout: []string{"descriptor  a={},b=c\ndescriptor  user=x,{}\ntraffic     1000 keys, hits_addend 0\n", "answered    100 "}},

		{name: "no server", args: []string{"bench", "127.0.0.1:1"}, code: 2, stderr: []string{`weir: server "127.0.0.1:1": no connection`}},
		{name: "by time", args: []string{"bench", addr, "--duration=200ms"}, stdout: []string{"closed loop, 64 callers", "in the warm-up of 0.02 s", "latency     p50 "}},
		{name: "bad descriptor", args: benchArgs("--descriptor=a=b,"), code: 2, stderr: []string{`weir: --descriptor: "a=b,": entry 2 has no key`}},
		{name: "bad warm-up", args: benchArgs("--warmup=10s"), code: 2, stderr: []string{"weir: --warmup: 10s is not allowed"}},
		{name: "no domain", args: benchArgs("--domain="), code: 2, stderr: []string{"weir: --domain: \"\" is not allowed"}},
		{name: "nothing but warm-up", args: benchArgs("--warmup=9s"), code: 1, stderr: []string{"weir: nothing was measured: all 100 requests were sent during the warm-up of 9s\n"}},
	})
}

// The JSON result contains the options of the run. Programs rely on its field names.
func TestBenchTellsItsOptions(t *testing.T) {
	addr := oracle{}.start(t)
	_, stdout, stderr := call(t, "bench", "--output=json", addr, addr, "--rate=5000", "--requests=20", "--connections=50", "--timeout=9s", "--warmup=1ms",
		"--descriptor=a=b,c={}", "--descriptor=d=e", "--keys=7", "--hits=0")
	const want = `{"servers":["ADDR","ADDR"],"rate":5000,"callers":20,"connections":20,"requests":20,` +
		`"domain":"api","descriptors":[[{"key":"a","value":"b"},{"key":"c","value":"{}"}],[{"key":"d","value":"e"}]],` +
		`"keys":7,"hits":0,"tls":false,"loop":"open","duration_seconds":10,"warmup_seconds":0.001,"timeout_seconds":9}`
	var result struct {
		bench.Result
		Options json.RawMessage `json:"options"`
	}
	var got bytes.Buffer
	if err := json.Unmarshal([]byte(stdout), &result); err != nil || json.Compact(&got, result.Options) != nil || result.OK == 0 || result.Latency.P50 == 0 {
		t.Fatalf("%v, %s%s", err, stdout, stderr)
	}
	testenv.Equal(t, strings.ReplaceAll(got.String(), addr, "ADDR"), want, "the report")
}

// An interrupted run prints its measurements, even if the server does not answer.
func TestBenchInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	addr := oracle{stalls: interrupt}.start(t)
	code, stdout, stderr := callUntil(ctx, "bench", addr, "--domain=stall", "--callers=1", "--warmup=0s")
	compare(t, exitFailed, []string{"failed      1  Canceled 1 "}, nil, code, stdout, stderr)
}

func TestBenchTLS(t *testing.T) {
	authority := testenv.NewAuthority(t)
	certPEM, keyPEM := authority.Issue(t, "client")
	_, otherKeyPEM := authority.Issue(t, "client")
	dir := rules(t, "ca.pem", string(authority.PEM()), "stranger.pem", string(testenv.NewAuthority(t).PEM()), "cert.pem", string(certPEM), "key.pem", string(keyPEM), "other-key.pem", string(otherKeyPEM))
	ca, cert, key, otherKey := dir+"/ca.pem", dir+"/cert.pem", dir+"/key.pem", dir+"/other-key.pem"

	// serve starts a server with a certificate for name. clients says whether it asks for
	// client certificates.
	serve := func(name string, clients tls.ClientAuthType) string {
		pair := testenv.Must(tls.X509KeyPair(authority.Issue(t, name)))(t)
		config := &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: clients, ClientCAs: x509.NewCertPool()}
		config.ClientCAs.AppendCertsFromPEM(authority.PEM())
		return oracle{}.start(t, grpc.Creds(credentials.NewTLS(config)))
	}
	secure, mutual := serve("127.0.0.1", tls.NoClientCert), serve("127.0.0.1", tls.RequireAndVerifyClientCert)
	named, open := serve("limits.example", tls.NoClientCert), oracle{}.start(t)
	runCommands(t, []string{"bench", "--requests=100", "--warmup=0s"}, []commandTest{
		{name: "server", args: []string{secure, "--tls-ca=" + ca}, stdout: []string{" connections with TLS, ", "ok          100  100.0 %"}},
		{name: "mutual", args: []string{mutual, "--tls", "--tls-ca=" + ca, "--tls-cert=" + cert, "--tls-key=" + key}, stdout: []string{" connections with TLS, ", "ok          100  100.0 %"}},
		{name: "by name", args: []string{named, "--tls-ca=" + ca, "--tls-server-name=limits.example"}, stdout: []string{" connections with TLS, ", "ok          100  100.0 %"}},
		{name: "untrusted server", args: []string{secure, "--tls-ca=" + dir + "/stranger.pem"}, code: exitUsage, stderr: []string{"certificate signed by unknown authority"}},
		{name: "plain server", args: []string{open, "--tls-ca=" + ca}, code: exitUsage, stderr: []string{"first record does not look like a TLS handshake"}},
		{name: "plain client", args: []string{secure}, code: exitUsage, stderr: []string{"no connection: connection error: desc = \"error reading server preface: "}},
		{name: "no authority", args: []string{secure, "--tls-ca=" + key}, code: exitUsage, stderr: []string{"weir: authorities " + key + ": no PEM certificate\n"}},
		{name: "another key", args: []string{secure, "--tls-cert=" + cert, "--tls-key=" + otherKey}, code: exitUsage, stderr: []string{"weir: certificate " + cert + " with key " + otherKey + ": tls: private key does not match public key\n"}},
		{name: "no key", args: []string{secure, "--tls-cert=" + cert}, code: exitUsage, stderr: []string{"weir: --tls-cert and --tls-key must be used together\n"}},
	})
}
