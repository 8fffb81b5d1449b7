package e2e

import (
	"context"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"weir/internal/testenv"
)

// tracingEnvoy starts an Envoy whose calls bear what tracing and the
// configuration can add to them.
func tracingEnvoy(t *testing.T, weirAddr, collectorAddr string) *envoy {
	t.Helper()
	doc := exampleBootstrap(t)
	setUpstreams(t, doc, weirAddr, collectorAddr)
	manager := connectionManager(t, doc)
	manager["tracing"] = map[string]any{
		"random_sampling": map[string]any{"value": 100},
		"provider": map[string]any{"name": "envoy.tracers.opentelemetry", "typed_config": map[string]any{
			"@type":        "type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig",
			"service_name": "gateway",
			"http_service": map[string]any{"http_uri": map[string]any{"uri": "http://collector/v1/traces", "cluster": "echo", "timeout": "1s"}},
		}},
	}
	filter := get(t, manager, "http_filters", 0, "typed_config")
	maps.Copy(filter, patient)
	get(t, filter, "rate_limit_service", "grpc_service")["initial_metadata"] = []any{
		map[string]any{"key": "baggage", "value": "%REQ(baggage)%"},
		map[string]any{"key": "x-request-id", "value": "%REQ(x-request-id)%"},
	}
	return runEnvoy(t, doc)
}

// askTraced sends a request with the tracing headers that W3C lets grow largest.
func (e *envoy) askTraced(t *testing.T, baggage int) int {
	t.Helper()
	request := testenv.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+e.addr+"/", nil))(t)
	request.Header.Set("x-user", "alice")
	request.Header.Set("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	request.Header.Set("tracestate", "vendor="+strings.Repeat("s", 500))
	request.Header.Set("baggage", "tenant="+strings.Repeat("b", baggage))
	response := testenv.Must(http.DefaultClient.Do(request))(t)
	response.Body.Close()
	return response.StatusCode
}

// headerSizes answers rate limit requests and remembers how large their headers are.
type headerSizes struct {
	ratelimitv3.UnimplementedRateLimitServiceServer
	largest atomic.Int64
}

func (s *headerSizes) ShouldRateLimit(ctx context.Context, _ *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	received, _ := metadata.FromIncomingContext(ctx)
	size := 0
	for name, values := range received {
		for _, value := range values {
			size += len(name) + len(value) + 32 // as in RFC 9113
		}
	}
	s.largest.Store(max(s.largest.Load(), int64(size)))
	return &ratelimitv3.RateLimitResponse{OverallCode: ratelimitv3.RateLimitResponse_OK}, nil
}

// TestHeadersOfEnvoy holds the bound of the headers to what Envoy sends: half of it
// is enough for all but what a configuration adds.
func TestHeadersOfEnvoy(t *testing.T) {
	upstream := startUpstream(t)
	listener := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	sizes, server := new(headerSizes), grpc.NewServer()
	ratelimitv3.RegisterRateLimitServiceServer(server, sizes)
	go server.Serve(listener)
	defer server.Stop()
	e := tracingEnvoy(t, listener.Addr().String(), upstream)
	for _, baggage := range []int{1, 8185} { // W3C permits 8192 bytes
		if status := e.askTraced(t, baggage); status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
		t.Logf("headers of %d bytes with %d bytes of baggage", sizes.largest.Load(), baggage)
		if size, most := int(sizes.largest.Load()), 2048+baggage; size > most {
			t.Errorf("the headers have %d bytes, want at most %d", size, most)
		}
	}

	w := startWeir(t, writeRules(t, "{domain: api, descriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 1}}]}"))
	e = tracingEnvoy(t, w.grpc, upstream)
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		if status := e.askTraced(t, 8185); status != want {
			t.Errorf("status %d, want %d", status, want)
		}
	}
}
