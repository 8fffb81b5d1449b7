package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	collogsv1 "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	coltracev1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	logsv1 "go.opentelemetry.io/proto/otlp/logs/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"weir/internal/testenv"
)

// collector takes traces and logs by OTLP that have the header token.
type collector struct {
	coltracev1.UnimplementedTraceServiceServer
	spans chan *tracev1.ResourceSpans
	logs  chan *logsv1.ResourceLogs
}

func (c *collector) take(token string, message proto.Message) {
	if token != "b c" {
		return
	}
	switch m := message.(type) {
	case *coltracev1.ExportTraceServiceRequest:
		for _, r := range m.GetResourceSpans() {
			c.spans <- r
		}
	case *collogsv1.ExportLogsServiceRequest:
		for _, r := range m.GetResourceLogs() {
			c.logs <- r
		}
	}
}

// Export takes traces over gRPC.
func (c *collector) Export(ctx context.Context, m *coltracev1.ExportTraceServiceRequest) (*coltracev1.ExportTraceServiceResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	c.take(strings.Join(md.Get("token"), ""), m)
	return &coltracev1.ExportTraceServiceResponse{}, nil
}

// logCollector takes logs over gRPC.
type logCollector struct {
	collogsv1.UnimplementedLogsServiceServer
	*collector
}

// Export takes logs over gRPC.
func (c logCollector) Export(ctx context.Context, m *collogsv1.ExportLogsServiceRequest) (*collogsv1.ExportLogsServiceResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	c.take(strings.Join(md.Get("token"), ""), m)
	return &collogsv1.ExportLogsServiceResponse{}, nil
}

// ServeHTTP takes both over HTTP.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	messages := map[string]proto.Message{"/v1/traces": new(coltracev1.ExportTraceServiceRequest), "/v1/logs": new(collogsv1.ExportLogsServiceRequest)}
	body, err := io.ReadAll(r.Body)
	message := messages[r.URL.Path]
	if err != nil || message == nil || proto.Unmarshal(body, message) != nil {
		http.Error(w, "nothing of OTLP", http.StatusBadRequest)
		return
	}
	c.take(r.Header.Get("Token"), message)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// startCollector serves a collector over a protocol, and has servers of the test send to it.
func startCollector(t *testing.T, protocol string) *collector {
	c := &collector{spans: make(chan *tracev1.ResourceSpans, 100), logs: make(chan *logsv1.ResourceLogs, 100)}
	var address string
	if protocol == "http" {
		server := httptest.NewServer(c)
		t.Cleanup(server.Close)
		address = server.URL
	} else {
		server := grpc.NewServer()
		coltracev1.RegisterTraceServiceServer(server, c)
		collogsv1.RegisterLogsServiceServer(server, logCollector{collector: c})
		address = "http://" + testenv.ServeGRPC(t, server)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "token=b%20c")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10") // ms; what is sent at the end has but two seconds
	return c
}

// next is what arrives next.
func next[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatal("nothing arrives")
	}
	return v
}

func attributes(list []*commonv1.KeyValue) map[string]string {
	m := map[string]string{}
	for _, a := range list {
		m[a.GetKey()] = a.GetValue().GetStringValue()
	}
	return m
}

const traceID, parentID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"

// TestTraces sends a call that belongs to a trace to a server, and looks for it
// at the collector.
func TestTraces(t *testing.T) {
	for _, protocol := range []string{"http", "grpc"} {
		t.Run(protocol, func(t *testing.T) {
			c := startCollector(t, protocol)
			f := start(t, "--config="+directory(t, metricsRules), "--tracing-enabled", "--tracing-exporter-protocol="+protocol,
				"--tracing-service-name=limits", "--tracing-service-namespace=edge", "--tracing-service-instance-id=one", "--tracing-sampling-rate=0")
			f.wantHealth(true, "OK")                     // which is not traced
			testenv.Must(f.ask(t.Context(), "alice"))(t) // begins here, and is not sampled
			testenv.Must(f.ask(metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-"+traceID+"-"+parentID+"-01"), "alice"))(t)
			r := next(t, c.spans)
			f.stop()
			testenv.OK(t, f.wantEnd())
			if n := len(c.spans); n > 0 {
				t.Errorf("%d more messages arrived", n)
			}
			about := attributes(r.GetResource().GetAttributes())
			if about["service.name"] != "limits" || about["service.namespace"] != "edge" || about["service.instance.id"] != "one" {
				t.Errorf("the service is %v", about)
			}
			spans := r.GetScopeSpans()[0].GetSpans()
			if got, want := fmt.Sprintf("%d %s %x %x", len(spans), spans[0].GetName(), spans[0].GetTraceId(), spans[0].GetParentSpanId()),
				"1 envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit "+traceID+" "+parentID; got != want {
				t.Errorf("got spans %s, want %s", got, want)
			}
		})
	}
}

// TestDecisionsToACollector sends a denial that belongs to a trace to a collector.
func TestDecisionsToACollector(t *testing.T) {
	for protocol, more := range map[string][]string{"http": nil, "grpc": {"--tracing-enabled", "--tracing-sampling-rate=0"}} {
		t.Run(protocol, func(t *testing.T) {
			c := startCollector(t, protocol)
			f := start(t, append(more, "--config="+directory(t, limited(1)), "--decision-log=denied", "--decision-log-to=otlp",
				"--tracing-exporter-protocol="+protocol, "--tracing-service-name=limits")...)
			ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-"+traceID+"-"+parentID+"-00")
			for range 2 {
				testenv.Must(f.ask(ctx, "alice"))(t)
			}
			r := next(t, c.logs)
			records := r.GetScopeLogs()[0].GetLogRecords()
			if service := attributes(r.GetResource().GetAttributes())["service.name"]; len(records) != 1 || service != "limits" {
				t.Fatalf("got %v", r)
			}
			body := records[0].GetBody().GetStringValue()
			for _, want := range []string{`"domain":"api"`, `"value":"alice"`, `"outcome":"denied"`, `"trace_id":"` + traceID + `"`} {
				if !strings.Contains(body, want) {
					t.Errorf("got body %s, want %s", body, want)
				}
			}
			if got := attributes(records[0].GetAttributes()); fmt.Sprint(got) != "map[domain:api limit:year outcome:denied rule:user]" || fmt.Sprintf("%x", records[0].GetTraceId()) != traceID || records[0].GetEventName() != "weir.decision" {
				t.Errorf("got %v", records[0])
			}
		})
	}
}

// TestNoCollector answers as ever, and says what was lost.
func TestNoCollector(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "100") // ms
	for name, args := range map[string][]string{"traces": {"--tracing-enabled"}, "decisions": {"--decision-log=all", "--decision-log-to=otlp"}} {
		t.Run(name, func(t *testing.T) {
			f := start(t, append(args, "--config="+directory(t, limited(1)))...)
			testenv.Must(f.ask(t.Context(), "alice"))(t)
			if name == "decisions" {
				f.wantAnswer("GET", f.metrics.addr(), "/metrics", 200, `weir_decision_log_left_out_total{reason="failed"} 1`)
			}
			f.stop()
			testenv.OK(t, f.wantEnd())
			f.wantLog("traces or decisions were lost")
		})
	}
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

// TestDecisionsToStdout logs what was denied, one line each, and nothing unless told so.
func TestDecisionsToStdout(t *testing.T) {
	r, w := io.Pipe()
	f := startWithStdout(t, w, "--config="+directory(t, limited(1)), "--decision-log=denied")
	for _, user := range []string{"alice", "alice", "bo\nb", "bo\nb"} {
		testenv.Must(f.ask(t.Context(), user))(t)
	}
	lines := bufio.NewScanner(r)
	for _, want := range []string{"alice", "bo\nb"} {
		var line struct {
			Outcome    string
			Descriptor struct{ Entries []struct{ Value string } }
		}
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &line) != nil || line.Outcome != "denied" || line.Descriptor.Entries[0].Value != want {
			t.Errorf("got %s, want %q denied (error: %v)", lines.Bytes(), want, lines.Err())
		}
	}
	var out testenv.Log
	quiet := startWithStdout(t, &out, "--config="+directory(t, limited(1)))
	testenv.Must(quiet.limit())(t)
	if _, body, err := quiet.request("GET", quiet.metrics.addr(), "/metrics", ""); err != nil || strings.Contains(body, "weir_decision_log") || out.String() != "" {
		t.Errorf("without a log of decisions: got %v, %s, %s", err, body, &out)
	}
}

// TestDenialsPage finds who is denied, by which rule, also after the rule has moved.
func TestDenialsPage(t *testing.T) {
	dir := directory(t, limited(1))
	f := start(t, "--config="+dir)
	f.askMany("alice")
	f.askMany("alice")
	file := dir + "/rules.yaml"
	load := func(rules string) {
		write(t, file, rules)
		f.wantAnswer("POST", f.debug.addr(), "/-/reload", 200)
	}
	f.wantAnswer("GET", f.debug.addr(), "/denials", 200, `"rule": "user"`, `"place": "`+file+`:3:5"`, `"rate": "1 per year"`, `"denied": 1`, `"value": "alice"`, `"retry_after": `)
	load("# a comment\n" + limited(1))
	f.wantAnswer("GET", f.debug.addr(), "/denials", 200, `"place": "`+file+`:4:5"`, `"denied": 1`)
	load("domain: api\ndescriptors: [{key: tenant}]\n")
	if _, body, err := f.request("GET", f.debug.addr(), "/denials", ""); err != nil || strings.Contains(body, `"place"`) || !strings.Contains(body, `"denied": 1`) {
		t.Errorf("got %v, %s", err, body)
	}
}
