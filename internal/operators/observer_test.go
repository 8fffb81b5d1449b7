package operators

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

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

// known returns the keys of a recorder as "limit descriptor denials".
func known(r *Recorder) (all []string) {
	for _, l := range r.Denials(began).Minute.Limits {
		for _, k := range l.Keys {
			text, _ := k.Descriptor.Spell()
			line := fmt.Sprintf("%s %s|%s %s %d", l.Domain, l.Rule, l.Limit, text, k.Denied)
			if l.Shadow {
				line += " shadow"
			}
			all = append(all, line)
		}
	}
	return all
}

// TestDenialsAreRecorded sends each request three times.
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
			testenv.EqualLists(t, known(f.Observer.Recorder), tt.want, "keys")
		})
	}
}

// TestDenialsOfARuleWithoutKey distinguishes it from rules whose keys look like its name.
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
	d := f.Observer.Recorder.Denials(began)
	d.locate(f.tree.Locations)
	got := map[string]string{}
	for _, e := range mergeDenials(d).Last {
		text, lacks := e.Descriptor.Spell()
		got[e.Location] = fmt.Sprintf("%s of %q %s", e.Rule, text, lacks)
	}
	want := map[string]string{"rules.yaml:3:5": `otherwise of "otherwise=a" `, "rules.yaml:4:5": `"(no key)" of "(no key)" `, "rules.yaml:5:5": `(no key) of "" all`}
	testenv.EqualDeep(t, got, want, "denials by location")
}

// TestRequestIsNamed checks that the last request's ID comes from an entry, or else from the metadata, and
// only from the metadata if values are hidden.
func TestRequestIsNamed(t *testing.T) {
	ctx := grpcmetadata.NewIncomingContext(t.Context(), grpcmetadata.Pairs("X-Request-Id", "of-call"))
	for request, want := range map[string]string{
		"user=alice":                            "of-call",
		"user=bob request_id=of-entry":          "of-entry",
		"x-request-id=of-header user=eve":       "of-header",
		"hidden request_id=of-entry user=bob":   "of-call",
		"hidden x-request-id=of-entry user=bob": "of-call",
	} {
		request, hidden := strings.CutPrefix(request, "hidden ")
		f := newFixture(t, observedRules, hidden)
		f.ask(ctx, 2, request)
		if last := shown(f.Observer.Recorder, began).Last; !slices.ContainsFunc(last, func(e LastDenial) bool { return e.RequestID == want && e.Count == 1 }) {
			t.Errorf("%s: got %+v, want %s", request, last, want)
		}
	}
}

// TestCallsAfterTheResponseAreNoDenials sends the calls that Envoy makes before and after a response.
func TestCallsAfterTheResponseAreNoDenials(t *testing.T) {
	for code, want := range map[string]uint64{"": 3, "0": 3, "200": 1, "429": 1} {
		f := newFixture(t, observedRules, false)
		f.ask(t.Context(), 2, "user=alice") // the second is denied
		var sent []string
		if code != "" {
			sent = []string{"x-response-code", code}
		}
		f.ask(grpcmetadata.NewIncomingContext(t.Context(), grpcmetadata.Pairs(sent...)), 2, "user=alice")
		testenv.Equal(t, shown(f.Observer.Recorder, began).Last[0].Count, want, "%q", code)
	}
}

// TestDecisionsAreLogged logs all decisions of some requests, and then only denials. The first two requests
// have trace headers.
func TestDecisionsAreLogged(t *testing.T) {
	const (
		begin     = `{"domain":"api","descriptor":{"entries":[{"key":"user","value":"`
		burst     = `]},"rule":"user","location":"rules.yaml:4:5","limit":"burst","rate":"1 per minute","outcome":"admitted","remaining":0`
		hour      = `]},"rule":"user","location":"rules.yaml:4:5","limit":"hour","rate":"1000 per hour","outcome":"admitted","remaining":999`
		first     = `,"request_id":"id-0","trace_id":"0af7651916cd43dd8448eb211c80319c"}` + "\n"
		second    = `,"request_id":"id-1","trace_id":"1af7651916cd43dd8448eb211c80319c"}` + "\n"
		unmatched = `{"domain":"api","descriptor":{"entries":[{"key":"nobody","value":""}]},"outcome":"admitted"`
	)
	denied := begin + `bob"}` + strings.Replace(burst, "admitted", "denied", 1) + `,"retry_after":60}` + "\n"
	withheld := begin + `bob"}` + strings.Replace(hour, "admitted", "withheld", 1) + "}\n"
	broken := begin + "a\uFFFD" + `","value_base64":"Yf8="}`
	for _, tt := range []struct {
		all, hashed bool
		want        string
	}{
		{true, false, broken + burst + first + broken + hour + first + begin + `bob"}` + burst + second + begin + `bob"}` + hour + second + unmatched + second + denied + withheld},
		{false, false, denied},
		{false, true, strings.Replace(denied, `bob"`, `#gbY32PzSxtpjWeaWMROhFw","hashed":true`, 1)},
	} {
		var text bytes.Buffer
		f := newFixture(t, observedRules, tt.hashed)
		f.Log = StartDecisionLog(LogOptions{
			All: tt.all, Rate: 1000, Sink: NewLines(&text),
			Registerer: prometheus.NewRegistry(), Failed: func(err error) { t.Error(err) },
		})
		for id, words := range []string{"user=a\xff", "user=bob nobody"} {
			traced := grpcmetadata.Pairs("x-request-id", fmt.Sprint("id-", id), "traceparent", fmt.Sprintf("00-%daf7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", id))
			f.ask(grpcmetadata.NewIncomingContext(t.Context(), traced), 1, words)
		}
		f.ask(t.Context(), 1, "user=bob")
		testenv.OK(t, f.Log.Close(t.Context()))
		testenv.Equal(t, strings.ReplaceAll(text.String(), `"time":"2026-08-01T11:30:00Z",`, ""), tt.want, "the log")
	}
}
