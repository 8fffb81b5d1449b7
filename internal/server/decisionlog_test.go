package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	collogsv1 "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	logsv1 "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"weir/internal/testenv"
)

// logCollector takes logs by OTLP.
type logCollector struct {
	collogsv1.UnimplementedLogsServiceServer
	resources chan *logsv1.ResourceLogs
}

func (c *logCollector) take(ctx context.Context, request *collogsv1.ExportLogsServiceRequest) {
	for _, r := range request.GetResourceLogs() {
		select {
		case c.resources <- r:
		case <-ctx.Done():
		}
	}
}

// Export serves gRPC.
func (c *logCollector) Export(ctx context.Context, request *collogsv1.ExportLogsServiceRequest) (*collogsv1.ExportLogsServiceResponse, error) {
	if md, _ := metadata.FromIncomingContext(ctx); len(md.Get("token")) == 1 && md.Get("token")[0] == "b c" {
		c.take(ctx, request)
	}
	return &collogsv1.ExportLogsServiceResponse{}, nil
}

// ServeHTTP serves HTTP.
func (c *logCollector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request collogsv1.ExportLogsServiceRequest
	if err != nil || r.URL.Path != "/v1/logs" || r.Header.Get("Token") != "b c" || proto.Unmarshal(body, &request) != nil {
		http.Error(w, "no logs", http.StatusBadRequest)
		return
	}
	c.take(r.Context(), &request)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// serveLogs serves a collector over a protocol, and returns its address.
func serveLogs(t *testing.T, protocol string) (*logCollector, string) {
	c := &logCollector{resources: make(chan *logsv1.ResourceLogs, 100)}
	if protocol == "http" {
		server := httptest.NewServer(c)
		t.Cleanup(server.Close)
		return c, server.URL
	}
	server := grpc.NewServer()
	collogsv1.RegisterLogsServiceServer(server, c)
	return c, "http://" + testenv.ServeGRPC(t, server)
}

// TestDecisionsToACollector sends a denial that belongs to a trace to a collector.
func TestDecisionsToACollector(t *testing.T) {
	const traceID = "0af7651916cd43dd8448eb211c80319c"
	for _, protocol := range []string{"http", "grpc"} {
		for _, traced := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, traces %t", protocol, traced), func(t *testing.T) {
				c, address := serveLogs(t, protocol)
				t.Setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", address+map[string]string{"http": "/v1/logs"}[protocol])
				t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:1")
				t.Setenv("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "token=b%20c")
				args := []string{
					"--config=" + directory(t, limited(1)), "--decision-log=denied", "--decision-log-to=otlp",
					"--tracing-exporter-protocol=" + protocol, "--tracing-service-name=limits",
				}
				if traced {
					args = append(args, "--tracing-enabled", "--tracing-sampling-rate=0")
				}
				f := start(t, args...)
				ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-"+traceID+"-b7ad6b7169203331-00")
				for range 2 {
					testenv.Must(f.ask(ctx, "alice"))(t)
				}
				var r *logsv1.ResourceLogs
				select {
				case r = <-c.resources:
				case <-time.After(patience):
					t.Fatal("nothing arrives")
				}
				service := ""
				for _, a := range r.GetResource().GetAttributes() {
					if a.GetKey() == "service.name" {
						service = a.GetValue().GetStringValue()
					}
				}
				records := r.GetScopeLogs()[0].GetLogRecords()
				if len(records) != 1 || service != "limits" {
					t.Fatalf("got %v", r)
				}
				body := records[0].GetBody().GetStringValue()
				for _, want := range []string{`"domain":"api"`, `"value":"alice"`, `"outcome":"denied"`, `"trace_id":"` + traceID + `"`} {
					if !strings.Contains(body, want) {
						t.Errorf("got body %s, want %s", body, want)
					}
				}
				attributes := map[string]string{}
				for _, a := range records[0].GetAttributes() {
					attributes[a.GetKey()] = a.GetValue().GetStringValue()
				}
				if fmt.Sprint(attributes) != "map[domain:api limit:year outcome:denied rule:user]" || fmt.Sprintf("%x", records[0].GetTraceId()) != traceID || records[0].GetEventName() != "weir.decision" {
					t.Errorf("got %v", records[0])
				}
			})
		}
	}
}

// TestNoCollectorOfDecisions answers as ever, and says what was lost.
func TestNoCollectorOfDecisions(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "100") // ms
	f := start(t, "--config="+directory(t, limited(1)), "--decision-log=all", "--decision-log-to=otlp")
	testenv.Must(f.ask(t.Context(), "alice"))(t)
	f.wantLog("traces or decisions were lost")
	f.wantAnswer("GET", f.metrics.addr(), "/metrics", 200, `weir_decision_log_left_out_total{reason="failed"} 1`)
	f.stop()
	testenv.OK(t, f.wantEnd())
}

// startWithStdout is start with a standard output.
func startWithStdout(t *testing.T, stdout io.Writer, args ...string) *fixture {
	return startWith(t, func(opts *Options) { opts.Stdout = stdout }, args...)
}

// TestDecisionsToStdout logs what was denied, one line each.
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
}

// TestStdoutThatNobodyReads holds up no decision, nor the end.
func TestStdoutThatNobodyReads(t *testing.T) {
	r, w := io.Pipe()
	defer r.Close()
	f := startWithStdout(t, w, "--config="+directory(t, limited(1)), "--decision-log=all", "--decision-log-rate=1000000", "--drain-timeout=300ms")
	for range 1500 {
		testenv.Must(f.ask(t.Context(), "alice"))(t)
	}
	testenv.Eventually(t, func() error {
		_, body, err := f.request("GET", f.metrics.addr(), "/metrics", "")
		if err == nil && !strings.Contains(body, `weir_decision_log_left_out_total{reason="slow"} `) || strings.Contains(body, `{reason="slow"} 0`) {
			err = fmt.Errorf("nothing was left out: %s", body)
		}
		return err
	})
	f.stop()
	testenv.OK(t, f.wantEnd())
	f.wantLog("the last decisions were not logged")
}

// TestNoDecisionLog has no metrics of a log, and writes nothing.
func TestNoDecisionLog(t *testing.T) {
	var out testenv.Log
	f := startWithStdout(t, &out, "--config="+directory(t, limited(1)))
	testenv.Must(f.limit())(t)
	if _, body, err := f.request("GET", f.metrics.addr(), "/metrics", ""); err != nil || strings.Contains(body, "weir_decision_log") {
		t.Errorf("got %v, %s", err, body)
	}
	if out.String() != "" {
		t.Errorf("got %s", &out)
	}
}

// TestDenialsPage finds who is denied, by which rule, also after the rule has moved.
func TestDenialsPage(t *testing.T) {
	dir := directory(t, limited(1))
	f := start(t, "--config="+dir)
	for range 3 {
		testenv.Must(f.ask(t.Context(), "alice"))(t)
	}
	file := onlyFile(t, dir)
	f.wantAnswer("GET", f.debug.addr(), "/denials", 200, `"rule": "user"`, `"place": "`+file+`:3:5"`, `"rate": "1 per year"`, `"denied": 2`, `"value": "alice"`, `"retry_after": `)
	write(t, file, "# a comment\n"+limited(1))
	f.wantAnswer("POST", f.debug.addr(), "/-/reload", 200)
	f.wantAnswer("GET", f.debug.addr(), "/denials", 200, `"place": "`+file+`:4:5"`, `"denied": 2`)
	write(t, file, "domain: api\ndescriptors: [{key: tenant}]\n")
	f.wantAnswer("POST", f.debug.addr(), "/-/reload", 200)
	_, body, err := f.request("GET", f.debug.addr(), "/denials", "")
	if err != nil || strings.Contains(body, `"place"`) || !strings.Contains(body, `"denied": 2`) {
		t.Errorf("got %v, %s", err, body)
	}
}

// onlyFile is the path of the one file in a directory.
func onlyFile(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatal(err, entries)
	}
	return filepath.Join(dir, entries[0].Name())
}
