package operators

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	grpcmetadata "google.golang.org/grpc/metadata"

	"weir/internal/limiter"
	"weir/internal/plan"
	"weir/internal/testenv"
)

const observedRules = `
domain: api
descriptors:
  - key: user
    rate_limit:
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
func known(r *Recorder) (all []string) {
	for _, l := range r.Denials(began).Minute.Limits {
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
		name, request string
		hashed        bool
		shadow        bool // SHADOW_MODE
		want          []string
	}{
		{name: "denied", request: "user=alice", want: []string{"api user|burst user=alice 2"}},
		{name: "shadow mode of a limit", request: "trial=bob", want: []string{"api trial|day trial=bob 2 shadow"}},
		{name: "SHADOW_MODE", request: "user=alice", shadow: true, want: []string{"api user|burst user=alice 2 shadow"}},
		{name: "only what is over", request: "user=alice nobody=x", want: []string{"api user|burst user=alice 2"}},
		{name: "shared counter", request: "path=/files/a", want: []string{"api path=/files/*|minute path=/files/* 2"}},
		{name: "below", request: "tenant=acme,user=alice", want: []string{"api tenant|minute tenant=acme 2"}},
		{name: "admitted", request: "nobody=x"},
		{name: "hashes", request: "user=alice", hashed: true, want: []string{"api user|burst user=#K9gGyX8OAK8aH8Myj6djqQ 2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, observedRules, tt.hashed)
			f.Plan.ShadowMode = tt.shadow
			f.ask(t.Context(), 3, tt.request)
			if got := known(f.Observer.Denials); fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestDenialsOfARuleWithoutKey tells it apart from rules whose keys are its names.
func TestDenialsOfARuleWithoutKey(t *testing.T) {
	f := newFixture(t, `domain: api
descriptors:
  - {key: otherwise, rate_limit: {unit: day, requests_per_unit: 0}}
  - {key: (no key), rate_limit: {unit: day, requests_per_unit: 0}}
  - {share_threshold: true, rate_limit: {unit: day, requests_per_unit: 0}}
`, false)
	f.ask(t.Context(), 1, "otherwise=a")
	f.ask(t.Context(), 1, "nobody=x")
	f.decide(t.Context(), &plan.Request{Domain: "api", Descriptors: []plan.Descriptor{{Entries: []limiter.Entry{{Key: "(no key)"}}}}})
	d := f.Observer.Denials.Denials(began)
	d.locate(f.tree.Places)
	got := map[string]string{}
	for _, e := range mergeDenials(d).Last {
		text, lacks := e.Descriptor.Spell()
		got[e.Place] = fmt.Sprintf("%s of %q %s", e.Rule, text, lacks)
	}
	want := map[string]string{"rules.yaml:3:5": `otherwise of "otherwise=a" `, "rules.yaml:4:5": `"(no key)" of "(no key)" `, "rules.yaml:5:5": `(no key) of "" all`}
	if !maps.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestRequestIsNamed finds the ID of the last request, in an entry before the metadata.
func TestRequestIsNamed(t *testing.T) {
	f := newFixture(t, observedRules, false)
	ctx := grpcmetadata.NewIncomingContext(t.Context(), grpcmetadata.Pairs("X-Request-Id", "of-call"))
	for request, want := range map[string]string{
		"user=alice":                      "of-call",
		"user=bob request_id=of-entry":    "of-entry",
		"x-request-id=of-header user=eve": "of-header",
	} {
		f.ask(ctx, 2, request)
		if last := shown(f.Observer.Denials, began).Last; !slices.ContainsFunc(last, func(e LastDenial) bool { return e.RequestID == want && e.Count == 1 }) {
			t.Errorf("%s: got %+v, want %s", request, last, want)
		}
	}
}

// logged asks several times, with headers of a trace the first two, and returns what is
// logged, without the time.
func logged(t *testing.T, all, hashed bool) (lines []map[string]any) {
	t.Helper()
	var text bytes.Buffer
	f := newFixture(t, observedRules, hashed)
	f.Log = StartDecisionLog(LogOptions{
		All: all, Rate: 1000, Sink: Lines{W: &text},
		Registerer: prometheus.NewRegistry(), Failed: func(err error) { t.Error(err) },
	})
	traced := func(id string) context.Context {
		return grpcmetadata.NewIncomingContext(t.Context(), grpcmetadata.Pairs("x-request-id", "id-"+id, "traceparent", "00-"+id+"af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"))
	}
	f.ask(traced("0"), 1, "user=a\xff")
	f.ask(traced("1"), 1, "user=bob nobody")
	f.ask(t.Context(), 1, "user=bob")
	testenv.OK(t, f.Log.Close(t.Context()))
	for text := range strings.Lines(text.String()) {
		var line map[string]any
		testenv.OK(t, json.Unmarshal([]byte(text), &line))
		if at, err := time.Parse(time.RFC3339Nano, line["time"].(string)); err != nil || !at.Equal(began) {
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

// TestDecisionsAreLogged logs all, and only what is denied.
func TestDecisionsAreLogged(t *testing.T) {
	const (
		at     = `"place":"rules.yaml:4:5",`
		bob    = `{"descriptor":{"entries":[{"key":"user","value":"bob"}]},"domain":"api","limit":`
		broken = `{"descriptor":{"entries":[{"key":"user","value":"a�","value_base64":"Yf8="}]},"domain":"api","limit":`
		first  = `"request_id":"id-0","rule":"user","trace_id":"0af7651916cd43dd8448eb211c80319c"}`
		second = `"request_id":"id-1","rule":"user","trace_id":"1af7651916cd43dd8448eb211c80319c"}`
		denied = bob + `"burst","outcome":"denied",` + at + `"rate":"1 per minute","remaining":0,"retry_after":60,"rule":"user"}`
	)
	wantLines(t, logged(t, true, false),
		broken+`"burst","outcome":"admitted",`+at+`"rate":"1 per minute","remaining":0,`+first,
		broken+`"hour","outcome":"admitted",`+at+`"rate":"1000 per hour","remaining":999,`+first,
		bob+`"burst","outcome":"admitted",`+at+`"rate":"1 per minute","remaining":0,`+second,
		bob+`"hour","outcome":"admitted",`+at+`"rate":"1000 per hour","remaining":999,`+second,
		`{"descriptor":{"entries":[{"key":"nobody","value":""}]},"domain":"api","outcome":"admitted",`+strings.Replace(second, `"rule":"user",`, "", 1),
		denied,
		bob+`"hour","outcome":"withheld",`+at+`"rate":"1000 per hour","remaining":999,"rule":"user"}`,
	)
	wantLines(t, logged(t, false, false), denied)
	wantLines(t, logged(t, false, true), strings.ReplaceAll(denied, `"key":"user","value":"bob"`, `"hashed":true,"key":"user","value":"#gbY32PzSxtpjWeaWMROhFw"`))
}
