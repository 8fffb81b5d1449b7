package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	collogsv1 "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	coltracev1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"weir/internal/testenv"
)

// collector receives the traces and logs of OTLP requests with the expected header.
type collector chan proto.Message

// take reads the message of a request to an HTTP path or a gRPC method.
func (c collector) take(path, token string, read func(proto.Message) error) error {
	var message proto.Message = new(collogsv1.ExportLogsServiceRequest)
	if strings.Contains(strings.ToLower(path), "trace") {
		message = new(coltracev1.ExportTraceServiceRequest)
	}
	err := read(message)
	if err == nil && token == "b c" {
		c <- message
	}
	return err
}

// startCollector starts a collector, and sets the environment so that servers of the test send to it.
func startCollector(t *testing.T, protocol string) collector {
	c := make(collector, 100)
	var address string
	if protocol == "http" {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/x-protobuf")
			err := c.take(r.URL.Path, r.Header.Get("Token"), func(m proto.Message) error {
				body, err := io.ReadAll(r.Body)
				return errors.Join(err, proto.Unmarshal(body, m))
			})
			if err != nil {
				http.Error(w, "nothing of OTLP", http.StatusBadRequest)
			}
		}))
		t.Cleanup(server.Close)
		address = server.URL
	} else {
		address = "http://" + testenv.ServeGRPC(t, grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			method, _ := grpc.MethodFromServerStream(stream)
			md, _ := metadata.FromIncomingContext(stream.Context())
			if err := c.take(method, strings.Join(md.Get("token"), ""), func(m proto.Message) error { return stream.RecvMsg(m) }); err != nil {
				return err
			}
			return stream.SendMsg(new(coltracev1.ExportTraceServiceResponse)) // empty, like the response for logs
		})))
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "token=b%20c")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10") // ms; when the server stops, there are only two seconds
	return c
}

func attributes(list []*commonv1.KeyValue) map[string]string {
	m := map[string]string{}
	for _, a := range list {
		m[a.GetKey()] = a.GetValue().GetStringValue()
	}
	return m
}

// TestTraces denies a call that is part of a trace. The collector must receive the decision and,
// if traces are on, the call's span.
func TestTraces(t *testing.T) {
	const traceID, parentID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for name, tt := range map[string]struct{ protocol, traced string }{
		"http": {"http", "1"}, "grpc": {"grpc", "1"}, "decisions alone": {"http", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			c := startCollector(t, tt.protocol)
			f := start(t, "--config="+directory(t, limited(1)), "--tracing-enabled="+tt.traced, "--tracing-exporter-protocol="+tt.protocol,
				"--tracing-service-name=limits", "--tracing-service-namespace=edge", "--tracing-service-instance-id=one", "--tracing-sampling-rate=0",
				"--decision-log=denied", "--decision-log-to=otlp")
			f.wantHealth(true, "OK")                     // not traced
			testenv.Must(f.ask(t.Context(), "alice"))(t) // a new trace, which is not sampled
			testenv.Must(f.ask(metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-"+traceID+"-"+parentID+"-0"+tt.traced), "alice"))(t)
			f.stop()
			testenv.OK(t, f.wantEnd())
			var about []map[string]string
			var got []string
			for len(c) > 0 {
				switch m := (<-c).(type) {
				case *coltracev1.ExportTraceServiceRequest:
					r := m.GetResourceSpans()[0]
					about = append(about, attributes(r.GetResource().GetAttributes()))
					for _, span := range r.GetScopeSpans()[0].GetSpans() {
						got = append(got, fmt.Sprintf("%s %x %x", span.GetName(), span.GetTraceId(), span.GetParentSpanId()))
					}
				case *collogsv1.ExportLogsServiceRequest:
					r := m.GetResourceLogs()[0]
					about = append(about, attributes(r.GetResource().GetAttributes()))
					for _, record := range r.GetScopeLogs()[0].GetLogRecords() {
						got = append(got, fmt.Sprintf("%s %x %v", record.GetEventName(), record.GetTraceId(), attributes(record.GetAttributes())))
						testenv.Contains(t, record.GetBody().GetStringValue(), `"domain":"api"`, `"value":"alice"`, `"outcome":"denied"`, `"trace_id":"`+traceID+`"`)
					}
				}
			}
			for _, service := range about {
				if service["service.name"] != "limits" || service["service.namespace"] != "edge" || service["service.instance.id"] != "one" {
					t.Errorf("the service is %v", service)
				}
			}
			want := []string{"weir.decision " + traceID + " map[domain:api limit:year outcome:denied rule:user]"}
			if tt.traced == "1" {
				want = append([]string{"envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit " + traceID + " " + parentID}, want...)
			}
			slices.Sort(got)
			testenv.EqualLists(t, got, want, "spans")
		})
	}
}

// TestNoCollector checks that the server answers without a collector and logs the losses.
func TestNoCollector(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "100") // ms
	for name, args := range map[string][]string{"traces": {"--tracing-enabled"}, "decisions": {"--decision-log=all", "--decision-log-to=otlp"}} {
		t.Run(name, func(t *testing.T) {
			f := start(t, append(args, "--config="+directory(t, limited(1)))...)
			testenv.Must(f.ask(t.Context(), "alice"))(t)
			if name == "decisions" {
				f.wantAnswer("GET", f.metrics.addr(), "/metrics", 200, `weir_decision_log_dropped_total{reason="failed"} 1`)
			}
			f.stop()
			testenv.OK(t, f.wantEnd())
			f.wantLog("traces or decisions were lost")
		})
	}
}

// TestLostTracesDoNotFillTheLog reports a lost batch every 100 ms for two minutes.
func TestLostTracesDoNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		lost := logLosses(slog.New(slog.NewTextHandler(&log, nil)))
		for range 1200 {
			lost(errors.New(`Post "https://collector:4318/swordfish/v1/traces": EOF, failed to send to http://collector/swordfish: 404`))
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
