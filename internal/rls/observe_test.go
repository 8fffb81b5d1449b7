package rls

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	grpcmetadata "google.golang.org/grpc/metadata"

	"weir/internal/limiter"
	"weir/internal/operators/decisionlog"
	"weir/internal/operators/denials"
)

const observedRules = `
domain: api
descriptors:
  - key: user
    rate_limits:
      - {name: burst, unit: minute, requests_per_unit: 1}
      - {unit: hour, requests_per_unit: 1000}
  - key: trial
    shadow_mode: true
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: path
    value: /files/*
    share_threshold: true
    rate_limit: {unit: minute, requests_per_unit: 1}
  - key: tenant
    below: true
    rate_limit: {unit: minute, requests_per_unit: 1}
    descriptors:
      - key: user
        rate_limit: {unit: hour, requests_per_unit: 100}
`

// known is what a recorder knows: "limit descriptor denials".
func known(r *denials.Recorder) (all []string) {
	for _, l := range r.Summary(time.Now(), denials.MaxKeys).Minute.Limits {
		for _, k := range l.Keys {
			var entries []string
			for _, e := range k.Descriptor.Entries {
				entries = append(entries, fmt.Sprintf("%s=%s", e.Key, e.Value))
			}
			line := fmt.Sprintf("%s %s|%s %s %d", l.Domain, l.Rule, l.Limit, strings.Join(entries, ","), k.Denied)
			if l.Shadow {
				line += " shadow"
			}
			all = append(all, line)
		}
	}
	return all
}

// TestDenialsAreRecorded asks each thing three times.
func TestDenialsAreRecorded(t *testing.T) {
	for _, tt := range []struct {
		name    string
		request string
		change  func(*Options)
		want    []string
	}{
		{name: "denied", request: d("user", "alice"), want: []string{"api user|burst user=alice 2"}},
		{name: "shadow mode of a limit", request: d("trial", "bob"), want: []string{"api trial|day trial=bob 2 shadow"}},
		{name: "SHADOW_MODE", request: d("user", "alice"), change: func(o *Options) { o.ShadowMode = true }, want: []string{"api user|burst user=alice 2 shadow"}},
		{name: "only what is over", request: d("user", "alice") + d("nobody", "x"), want: []string{"api user|burst user=alice 2"}},
		{name: "shared counter", request: d("path", "/files/a"), want: []string{"api path=/files/*|minute path=/files/* 2"}},
		{name: "below", request: `descriptors: {entries: {key: "tenant" value: "acme"} entries: {key: "user" value: "alice"}}`, want: []string{"api tenant|minute tenant=acme 2"}},
		{name: "admitted", request: d("nobody", "x")},
		{name: "hashes", request: d("user", "alice"), change: hashed, want: []string{"api user|burst user=#K9gGyX8OAK8aH8Myj6djqQ 2"}},
		{name: "nobody records", request: d("user", "alice"), change: func(o *Options) { o.Denials = nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := options(t, observedRules)
			o.Denials = denials.New(time.Now())
			recorder := o.Denials
			if tt.change != nil {
				tt.change(&o)
			}
			conn := serve(t, New(o))
			for range 3 {
				if _, err := ask(t, conn, "domain: 'api' "+tt.request); err != nil {
					t.Fatal(err)
				}
			}
			if got := known(recorder); fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func hashed(o *Options) { o.Keys, _ = limiter.NewKeys("", true) }

// logged asks a service that logs, and returns the lines, in which the time is left out.
func logged(t *testing.T, all bool, change func(*Options), asks func(s *Service)) (lines []map[string]any) {
	t.Helper()
	var text bytes.Buffer
	o := options(t, observedRules)
	o.Log = decisionlog.Start(decisionlog.Options{
		All: all, Sample: 1, Rate: 1000, Sink: decisionlog.Lines{W: &text},
		Registerer: prometheus.NewRegistry(), Failed: func(err error) { t.Error(err) },
	})
	if change != nil {
		change(&o)
	}
	asks(New(o))
	if err := o.Log.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for text := range strings.Lines(text.String()) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		if at, err := time.Parse(time.RFC3339Nano, line["time"].(string)); err != nil || time.Since(at) > time.Minute {
			t.Errorf("time %v: %v", line["time"], err)
		}
		delete(line, "time")
		lines = append(lines, line)
	}
	return lines
}

func wantLines(t *testing.T, got []map[string]any, want ...string) {
	t.Helper()
	var texts []string
	for _, line := range got {
		text, _ := json.Marshal(line)
		texts = append(texts, string(text))
	}
	if got, want := strings.Join(texts, "\n"), strings.Join(want, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// askTwice asks for a user over gRPC, as part of a trace, and then over HTTP.
func askTwice(t *testing.T) func(*Service) {
	return func(s *Service) {
		conn := serve(t, s)
		ctx := grpcmetadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")
		wire := message{}.string(1, "api").bytes(2, message{}.bytes(1, message{}.string(1, "user").string(2, "a\xff")))
		if err := conn.Invoke(ctx, "/"+serviceName+"/"+methodName, []byte(wire), new([]byte), grpc.ForceCodec(rawCodec{})); err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodPost, "/json", strings.NewReader(`{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "bob"}]}, {"entries": [{"key": "nobody"}]}]}`))
		r.Header.Set("Traceparent", "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		for range 2 {
			w := httptest.NewRecorder()
			s.JSONHandler().ServeHTTP(w, r.Clone(context.Background()))
			r.Body = http.NoBody
			r = httptest.NewRequest(http.MethodPost, "/json", strings.NewReader(`{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "bob"}]}]}`))
		}
	}
}

// TestDecisionsAreLogged logs all, and only what is denied.
func TestDecisionsAreLogged(t *testing.T) {
	const (
		at     = `"place":"rules.yaml:4:5",`
		bob    = `{"descriptor":{"entries":[{"key":"user","value":"bob"}]},"domain":"api","limit":`
		broken = `{"descriptor":{"entries":[{"key":"user","value":"a�","value_base64":"Yf8="}]},"domain":"api","limit":`
		first  = `"trace_id":"0af7651916cd43dd8448eb211c80319c"}`
		second = `"trace_id":"1af7651916cd43dd8448eb211c80319c"}`
		denied = bob + `"burst","outcome":"denied",` + at + `"rate":"1 per minute","remaining":0,"retry_after":30,"rule":"user"}`
	)
	wantLines(t, logged(t, true, nil, askTwice(t)),
		broken+`"burst","outcome":"admitted",`+at+`"rate":"1 per minute","remaining":0,"rule":"user",`+first,
		broken+`"hour","outcome":"admitted",`+at+`"rate":"1000 per hour","remaining":999,"rule":"user",`+first,
		bob+`"burst","outcome":"admitted",`+at+`"rate":"1 per minute","remaining":0,"rule":"user",`+second,
		bob+`"hour","outcome":"admitted",`+at+`"rate":"1000 per hour","remaining":999,"rule":"user",`+second,
		`{"descriptor":{"entries":[{"key":"nobody","value":""}]},"domain":"api","outcome":"admitted",`+second,
		denied,
		bob+`"hour","outcome":"withheld",`+at+`"rate":"1000 per hour","remaining":999,"rule":"user"}`,
	)
	wantLines(t, logged(t, false, nil, askTwice(t)), denied)
	wantLines(t, logged(t, false, hashed, askTwice(t)), strings.ReplaceAll(denied, `"key":"user","value":"bob"`, `"hashed":true,"key":"user","value":"#gbY32PzSxtpjWeaWMROhFw"`))
}
