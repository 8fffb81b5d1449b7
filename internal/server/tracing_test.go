package server

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coltracev1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"weir/internal/testenv"
)

// collector takes traces by OTLP.
type collector struct {
	coltracev1.UnimplementedTraceServiceServer
	resources chan *tracev1.ResourceSpans
}

func (c *collector) take(request *coltracev1.ExportTraceServiceRequest) {
	for _, r := range request.GetResourceSpans() {
		c.resources <- r
	}
}

// Export serves gRPC.
func (c *collector) Export(_ context.Context, request *coltracev1.ExportTraceServiceRequest) (*coltracev1.ExportTraceServiceResponse, error) {
	c.take(request)
	return &coltracev1.ExportTraceServiceResponse{}, nil
}

// ServeHTTP serves HTTP.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request coltracev1.ExportTraceServiceRequest
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &request) != nil {
		http.Error(w, "no traces", http.StatusBadRequest)
		return
	}
	c.take(&request)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func serveTracesHTTP(t *testing.T) (*collector, string) {
	c := &collector{resources: make(chan *tracev1.ResourceSpans, 100)}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	return c, server.URL
}

func serveTracesGRPC(t *testing.T) (*collector, string) {
	c := &collector{resources: make(chan *tracev1.ResourceSpans, 100)}
	server := grpc.NewServer()
	coltracev1.RegisterTraceServiceServer(server, c)
	return c, "http://" + testenv.ServeGRPC(t, server)
}

// TestTraces sends a call that belongs to a trace to a server, and looks for it
// at the collector.
func TestTraces(t *testing.T) {
	for protocol, serve := range map[string]func(*testing.T) (*collector, string){"http": serveTracesHTTP, "grpc": serveTracesGRPC} {
		t.Run(protocol, func(t *testing.T) {
			c, address := serve(t)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
			t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10") // ms; what is sent at the end has but two seconds
			f := start(t, "--config="+directory(t, metricsRules), "--tracing-enabled", "--tracing-exporter-protocol="+protocol,
				"--tracing-service-name=limits", "--tracing-service-namespace=edge", "--tracing-service-instance-id=one", "--tracing-sampling-rate=0")
			f.wantHealth(true, "OK") // which is not traced
			const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
			testenv.Must(f.ask(t.Context(), "alice"))(t) // begins here, and is not sampled
			testenv.Must(f.ask(metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-"+trace+"-"+parent+"-01"), "alice"))(t)
			var r *tracev1.ResourceSpans
			select {
			case r = <-c.resources:
			case <-time.After(patience):
				t.Fatal("nothing arrives")
			}
			f.stop()
			testenv.OK(t, f.wantEnd())
			if n := len(c.resources); n > 0 {
				t.Errorf("%d more messages arrived", n)
			}
			about := map[string]string{}
			for _, a := range r.GetResource().GetAttributes() {
				about[a.GetKey()] = a.GetValue().GetStringValue()
			}
			for key, want := range map[string]string{"service.name": "limits", "service.namespace": "edge", "service.instance.id": "one"} {
				if about[key] != want {
					t.Errorf("%s is %q, want %q", key, about[key], want)
				}
			}
			var spans []*tracev1.Span
			for _, s := range r.GetScopeSpans() {
				spans = append(spans, s.GetSpans()...)
			}
			if len(spans) != 1 {
				t.Fatalf("got %d spans, want 1: %v", len(spans), spans)
			}
			s := spans[0]
			if s.GetName() != "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" ||
				hex.EncodeToString(s.GetTraceId()) != trace || hex.EncodeToString(s.GetParentSpanId()) != parent {
				t.Errorf("got span %v", s)
			}
		})
	}
}

// A collector that is not there makes a line in the log, and no failure.
func TestNoCollectorOfTraces(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	f := start(t, "--config="+directory(t, metricsRules), "--tracing-enabled")
	f.wantHealth(true, "OK")
	testenv.Must(f.ask(t.Context(), "alice"))(t)
	f.stop()
	testenv.OK(t, f.wantEnd())
	f.wantLog("traces or decisions were lost")
}

// TestLostTracesDoNotFillTheLog loses a batch every 100 ms for two minutes.
func TestLostTracesDoNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		lost := &lostSignals{logger: slog.New(slog.NewTextHandler(&log, nil)), now: rate.Sometimes{Interval: time.Minute}}
		for range 1200 {
			lost.Handle(errors.New(`Post "https://collector:4318/swordfish/v1/traces": EOF, failed to send to http://collector/swordfish: 404`))
			testenv.Pass(100 * time.Millisecond)
		}
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 || !strings.HasSuffix(lines[0], "times=1") || !strings.Contains(lines[1], "times=600") {
			t.Errorf("got %d lines, want one with times=1, and one with times=600:\n%s", len(lines), &log)
		}
		if want := `Post \"https://collector:4318/...\": EOF, failed to send to http://collector/...: 404`; !strings.Contains(lines[0], want) || strings.Contains(log.String(), "swordfish") {
			t.Errorf("got %s, want %s", lines[0], want)
		}
	})
}
