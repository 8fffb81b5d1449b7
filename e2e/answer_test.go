package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"weir/internal/testenv"
)

// fileLog is the log of a connection manager in a file; a format may follow.
const fileLog = `{name: envoy.access_loggers.file, typed_config: {"@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog, path: %q%s}}`

// What Weir adds to its answer reaches those it is meant for: headers the client, and
// dynamic metadata Envoy's access log. Of a large amount, the protocol has 32 bits only:
// Envoy's headers saturate, those of Weir do not.
func TestHeadersAndMetadataOfWeir(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "access.log")
	const format = `, log_format: {text_format_source: {inline_string: "%RESPONSE_CODE% %DYNAMIC_METADATA(envoy.filters.http.ratelimit)%\n"}}`
	s := gateway{
		virtualHost: `
rate_limits: [{actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]}]
routes: [{match: {prefix: /}, route: {cluster: echo}}]
`,
		manager: "access_log: [" + fmt.Sprintf(fileLog, log, format) + "]",
	}.start(t, `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 2}
    metadata: {tier: bronze, weight: 1.5}
  - key: user
    value: root
    metadata: {tier: gold}
    rate_limit: {unit: week, unit_multiplier: 2, requests_per_unit: 7}
  - {key: user, regex: "large-v[0-9]+", rate_limit: {unit: day, requests_per_unit: 1125899906842624}}
  - {key: user, value: [small, tiny], share_threshold: true, rate_limit: {unit: day, requests_per_unit: 2}}
`, "LIMIT_RESPONSE_HEADERS_ENABLED=true", "LIMIT_RESET_HEADER=X-Whole-Again", "RESPONSE_DYNAMIC_METADATA=true")

	of := func(user, metadata string) string {
		return fmt.Sprintf(`{"domain": "api", "descriptors": [{"entries": ["user=%s"]}]%s}`, user, metadata)
	}
	const bronze = `, "metadata": {"tier": "bronze", "weight": 1.5}`
	requests := []struct {
		user             string
		status           int
		limit, remaining string // in the headers of Weir
		policy           string // in the header that Envoy makes of the answer
		logged           string
	}{
		{"alice", 200, "2", "1", "2, 2;w=86400", of("alice", bronze)},
		{"root", 200, "7", "6", "7, 7;w=1209600", of("root", `, "metadata": {"tier": "gold"}`)},
		{"alice", 200, "2", "0", "2, 2;w=86400", of("alice", bronze)},
		{"alice", 429, "2", "0", "2, 2;w=86400", of("alice", "")},
		{"large-v2", 200, "1125899906842624", "1125899906842623", "4294967295, 4294967295;w=86400", of("large-v2", "")},
		{"large-v2", 200, "1125899906842624", "1125899906842622", "4294967295, 4294967295;w=86400", of("large-v2", "")},
		{"xlarge-v2", 200, "2", "1", "2, 2;w=86400", of("xlarge-v2", bronze)}, // a regular expression is for the whole value
		{"small", 200, "2", "1", "2, 2;w=86400", of("small", "")},
		{"tiny", 200, "2", "0", "2, 2;w=86400", of("tiny", "")}, // one counter for the list
		{"small", 429, "2", "0", "2, 2;w=86400", of("small", "")},
	}
	for i, want := range requests {
		a := s.ask("/", by(want.user)...)
		limit, remaining, policy := a.header.Get("ratelimit-limit"), a.header.Get("ratelimit-remaining"), a.header.Get("x-ratelimit-limit")
		if a.status != want.status || limit != want.limit || remaining != want.remaining || policy != want.policy {
			t.Errorf("request %d: status %d, limit %s, remaining %s, of Envoy %q; want %+v", i+1, a.status, limit, remaining, policy, want)
		}
		reset := a.header.Get("x-whole-again")
		if seconds, err := strconv.Atoi(reset); err != nil || seconds < 1 {
			t.Errorf("request %d: the limit is reset in %q seconds", i+1, reset)
		}
		if got := a.header.Get("retry-after"); want.status == 429 && got != reset {
			t.Errorf("request %d: retry-after is %q, but the limit is reset in %q seconds", i+1, got, reset)
		}
	}
	for i, line := range linesOf(t, log, len(requests)) {
		status, metadata, _ := strings.Cut(line, " ")
		var got, want any
		testenv.OK(t, json.Unmarshal([]byte(metadata), &got))
		testenv.OK(t, json.Unmarshal([]byte(requests[i].logged), &want))
		if status != strconv.Itoa(requests[i].status) || !reflect.DeepEqual(got, want) {
			t.Errorf("request %d: Envoy logged %s\nwant %d %s", i+1, line, requests[i].status, requests[i].logged)
		}
	}
}

// linesOf waits until a file has so many lines and returns them.
func linesOf(t *testing.T, file string, count int) (lines []string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		data, err := os.ReadFile(file)
		lines = strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
		if err == nil && (len(data) == 0 || len(lines) != count) {
			err = fmt.Errorf("%s: %d lines, want %d", file, len(lines), count)
		}
		return err
	})
	return lines
}

// A client that speaks gRPC learns from its status that it is over a limit.
func TestGRPCClientsGetResourceExhausted(t *testing.T) {
	t.Parallel()
	upstream := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(upstream, health.NewServer())
	s := gateway{
		rateLimit: "rate_limited_as_resource_exhausted: true",
		virtualHost: `
routes:
  - match: {prefix: /, grpc: {}}
    route:
      cluster: echo
      rate_limits:
        - actions:
            - request_headers: {header_name: ":path", descriptor_key: method}
            - request_headers: {header_name: x-user, descriptor_key: user}
`,
		http2:    true,
		upstream: testenv.ServeGRPC(t, upstream),
	}.start(t, `
domain: api
descriptors:
  - key: method
    value: /grpc.health.v1.Health/Check
    descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 2}}]
`)
	client := grpc_health_v1.NewHealthClient(connection(t, "passthrough:///"+s.addr))
	for _, user := range []string{"alice", "bob"} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-user", user)
		for i, want := range []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted, codes.ResourceExhausted} {
			_, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
			if got := status.Code(err); got != want {
				t.Errorf("call %d of %s: %v (%v), want %v", i+1, user, got, err, want)
			}
		}
	}
}

// Envoy limits the connections of each client before they are forwarded.
func TestConnectionsAreLimited(t *testing.T) {
	t.Parallel()
	testenv.Envoy(t)
	awayFromMidnight(t)
	w := startWeir(t, writeRules(t, "domain: api\ndescriptors: [{key: connections_of, value: 127.0.0.1, rate_limit: {unit: day, requests_per_unit: 2}}]\n"))
	doc := gateway{}.bootstrap(t, w.grpc)
	chain := get(t, doc, "static_resources", "listeners", 0, "filter_chains", 0)
	parse(t, `
filters:
  - name: envoy.filters.network.ratelimit
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.filters.network.ratelimit.v3.RateLimit
      stat_prefix: connections
      domain: api
      timeout: 60s
      failure_mode_deny: true
      descriptors:
        - entries: [{key: connections_of, value: "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"}]
      rate_limit_service:
        transport_api_version: V3
        grpc_service: {envoy_grpc: {cluster_name: weir}}
  - name: envoy.filters.network.tcp_proxy
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
      stat_prefix: connections
      cluster: echo
`, &chain)
	e := runEnvoy(t, doc)
	for i := range 4 { // each on a connection of its own
		a, err := fetch("http://" + e.addr)
		if admitted := err == nil && a.status == 200; admitted != (i < 2) {
			t.Errorf("connection %d: status %d, %v; want two connections", i+1, a.status, err)
		}
	}
	for name, want := range map[string]int{"ok": 2, "over_limit": 2, "cx_closed": 2, "error": 0} {
		if got := e.stat("ratelimit.connections." + name); got != want {
			t.Errorf("Envoy counts %d of %s, want %d", got, name, want)
		}
	}
}

// headerSizes answers rate limit requests and remembers how large their headers are.
type headerSizes struct {
	service.UnimplementedRateLimitServiceServer
	largest atomic.Int64
}

func (s *headerSizes) ShouldRateLimit(ctx context.Context, _ *service.RateLimitRequest) (*service.RateLimitResponse, error) {
	received, _ := metadata.FromIncomingContext(ctx)
	size := 0
	for name, values := range received {
		for _, value := range values {
			size += len(name) + len(value) + 32 // as in RFC 9113
		}
	}
	s.largest.Store(max(s.largest.Load(), int64(size)))
	return &service.RateLimitResponse{OverallCode: service.RateLimitResponse_OK}, nil
}

// TestHeadersOfEnvoy holds the bound of the headers to what Envoy sends with the headers
// of tracing that W3C lets grow largest: half of it is enough for all but what a
// configuration adds. A denial has the ID that Envoy sends with it.
func TestHeadersOfEnvoy(t *testing.T) {
	t.Parallel()
	testenv.Envoy(t)
	sizes, server := new(headerSizes), grpc.NewServer()
	service.RegisterRateLimitServiceServer(server, sizes)
	traced := func(weirAddr string) *envoy {
		g := gateway{manager: `
tracing:
  random_sampling: {value: 100}
  provider:
    name: envoy.tracers.opentelemetry
    typed_config:
      "@type": type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig
      service_name: gateway
      http_service: {http_uri: {uri: "http://collector/v1/traces", cluster: echo, timeout: 1s}}
`}
		doc := g.bootstrap(t, weirAddr)
		calls := get(t, connectionManager(t, doc), "http_filters", 0, "typed_config", "rate_limit_service", "grpc_service")
		parse(t, `initial_metadata: [{key: baggage, value: "%REQ(baggage)%"}, {key: x-request-id, value: "%STREAM_ID%"}]`, &calls)
		return runEnvoy(t, doc)
	}
	ask := func(e *envoy, baggage int) int {
		return e.ask("/", "x-user: alice", "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			"tracestate: vendor="+strings.Repeat("s", 500), "baggage: tenant="+strings.Repeat("b", baggage)).status
	}
	e := traced(testenv.ServeGRPC(t, server))
	for _, baggage := range []int{1, 8185} { // W3C permits 8192 bytes
		if status := ask(e, baggage); status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
		t.Logf("headers of %d bytes with %d bytes of baggage", sizes.largest.Load(), baggage)
		if size, most := int(sizes.largest.Load()), 2048+baggage; size > most {
			t.Errorf("the headers have %d bytes, want at most %d", size, most)
		}
	}
	w := startWeir(t, writeRules(t, userRules(1)))
	e = traced(w.grpc)
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		if status := ask(e, 8185); status != want {
			t.Errorf("status %d, want %d", status, want)
		}
	}
	if page, err := fetch("http://" + w.debug + "/denials"); err != nil || !regexp.MustCompile(`"request_id": "[0-9a-f-]{36}"`).MatchString(page.body) {
		t.Errorf("no ID of Envoy in %s (error: %v)", page.body, err)
	}
}
