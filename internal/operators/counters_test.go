package operators

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	grpcmetadata "google.golang.org/grpc/metadata"

	"weir/internal/limiter"
	"weir/internal/plan"
	"weir/internal/plan/explain"
	"weir/internal/rlqs"
	"weir/internal/testenv"
)

const rules = `domain: api
descriptors:
  - key: user
    rate_limit:
      - {name: burst, unit: hour, requests_per_unit: 3, deny_for: 10m}
      - {name: daily, unit: day, requests_per_unit: 100, replaces: [{name: old}]}
      - {name: old, unit: hour, requests_per_unit: 7, algorithm: sliding_window}
  - key: vip
    rate_limit:
      - {unlimited: true}
      - {unit: hour, requests_per_unit: 9, shadow_mode: true}
  - key: path
    value: /files/*
    share_threshold: true
    rate_limit: {unit: hour, requests_per_unit: 5}
  - key: open
  - key: tenant
    below: true
    rate_limit: {name: tenants, unit: hour, requests_per_unit: 50}
    descriptors:
      - key: upload
        rate_limit: {unit: minute, requests_per_unit: 2, algorithm: concurrency}
`

// lines returns an answer as text: its rule, and a line for each limit.
func (f *fixture) lines(a Counters, err error) (text string) {
	f.Helper()
	testenv.OK(f.T, err)
	_, place, _ := strings.Cut(a.Location, ".yaml:")
	text = a.Rule + " at " + place + "\n"
	for _, l := range a.Limits {
		_, place, _ := strings.Cut(l.Location, ".yaml:")
		text += fmt.Sprintf("%s|%s at %s %q %s: ", l.Rule, l.Limit, place, l.Rate, l.Mode)
		retry := "never"
		if l.RetryAfter != nil {
			retry = fmt.Sprint(*l.RetryAfter)
		}
		switch {
		case l.Unlimited:
			text += "unlimited"
		case l.Replaced:
			text += "replaced"
		default:
			text += fmt.Sprintf("%d of %d, %d left, retry %s, whole %v, banned %v, shared %v, %s", l.Used, l.Amount, l.Remaining, retry, l.ResetAfter, l.BannedFor, l.Shared, l.Key)
		}
		text += "\n"
	}
	return text
}

func TestPeekAndReset(t *testing.T) {
	f := newFixture(t, rules, false)
	ctx := t.Context()
	peek := func(text string) string {
		t.Helper()
		return f.lines(f.Peek(ctx, plan.NewJSONDescriptor("api", entries(text))))
	}
	const old = `user|old at 3:5 "7 per hour" enforced: replaced` + "\n"
	testenv.Equal(t, peek("user=alice"), "user at 3:5\n"+
		`user|burst at 3:5 "3 per hour" enforced: 0 of 3, 3 left, retry 0, whole 0, banned 0, shared [], p:w1|api|user=alice|1h`+"\n"+
		`user|daily at 3:5 "100 per day" enforced: 0 of 100, 100 left, retry 0, whole 0, banned 0, shared [], p:w1|api|user=alice|1d`+"\n"+old, "an unused rule")
	f.ask(t.Context(), 5, "user=alice")
	f.ask(t.Context(), 2, "user=bob")
	banned := "user at 3:5\n" +
		`user|burst at 3:5 "3 per hour" enforced: 3 of 3, 0 left, retry 1800, whole 1800, banned 600, shared [], p:w1|api|user=alice|1h` + "\n" +
		`user|daily at 3:5 "100 per day" enforced: 3 of 100, 97 left, retry 0, whole 45000, banned 0, shared [], p:w1|api|user=alice|1d` + "\n" + old
	for range 2 {
		testenv.Equal(t, peek("user=alice"), banned, "a banned user")
	}
	f.ask(t.Context(), 4, "path=/files/a")
	testenv.Equal(t, peek("path=/files/b"), "path=/files/* at 12:5\n"+
		`path=/files/*|hour at 12:5 "5 per hour" enforced: 4 of 5, 1 left, retry 0, whole 1800, banned 0, shared [/files/*], p:w1|api|path~/files/*|1h`+"\n", "a shared counter")
	testenv.Equal(t, peek("open=x"), "open at 16:5\n", "without a limit")
	testenv.Equal(t, peek("vip=x"), "vip at 8:5\n"+
		`vip|unlimited at 8:5 "" : unlimited`+"\n"+
		`vip|hour at 8:5 "9 per hour" shadow_mode: 0 of 9, 9 left, retry 0, whole 0, banned 0, shared [], p:w1|api|vip=x|1h`+"\n", "unlimited, and one in shadow mode")
	f.ask(ctx, 1, "tenant=acme,upload=x,request_id=1")
	upload := func(held, left, whole int) string {
		return "tenant|upload at 21:9\n" + fmt.Sprintf(`tenant|upload|minute concurrency at 21:9 "2 in flight, each for up to 1m0s" enforced: %d of 2, %d left, retry 0, whole %d, banned 0, shared [], p:w1|api|tenant=acme|upload=x|c1m`+"\n", held, left, whole)
	}
	for _, text := range []string{"tenant=acme,upload=x", "tenant=acme,upload=x,request_id=", "request_id=7,tenant=acme,upload=x"} {
		testenv.Equal(t, peek(text), upload(1, 1, 60)+
			`tenant|tenants at 17:5 "50 per hour" enforced: 1 of 50, 49 left, retry 0, whole 1800, banned 0, shared [], p:w1|api|tenant=acme|1h`+"\n", "holds")
	}
	testenv.Equal(t, peek("stranger=x"), " at \n", "no rule")

	a, err := f.Reset(ctx, plan.NewJSONDescriptor("api", entries("user=alice")), "ann", "peer")
	testenv.Equal(t, f.lines(a, err), "user at 3:5\n"+
		`user|burst at 3:5 "3 per hour" enforced: 0 of 3, 3 left, retry 0, whole 0, banned 0, shared [], p:w1|api|user=alice|1h`+"\n"+
		`user|daily at 3:5 "100 per day" enforced: 0 of 100, 100 left, retry 0, whole 0, banned 0, shared [], p:w1|api|user=alice|1d`+"\n"+old, "reset")
	testenv.Equal(t, a.Reset, 2, "reset counters")
	testenv.Equal(t, f.ask(t.Context(), 3, "user=alice"), 0, "denied requests after the reset")
	testenv.Equal(t, f.ask(t.Context(), 2, "user=bob"), 1, "denied requests of another user")
	a, err = f.Reset(ctx, plan.NewJSONDescriptor("api", entries("tenant=acme,upload=x")), "ann", "peer")
	testenv.Equal(t, strings.Join(strings.SplitAfter(f.lines(a, err), "\n")[:2], ""), upload(0, 2, 0), "reset of holds")
	testenv.Equal(t, a.Reset, 2, "reset counters")
	if a, err := f.Reset(ctx, plan.NewJSONDescriptor("nowhere", entries("user=alice")), "ann", "peer"); err != nil || a.Reset != 0 || a.Rule != "" || len(a.Limits) != 0 {
		t.Errorf("no rule: got %+v, error %v", a, err)
	}
}

// TestQuotaService looks at a descriptor whose limit Envoys divide: at its rule, and at their shares.
func TestQuotaService(t *testing.T) {
	f := newFixture(t, "{domain: api, descriptors: [{key: tenant, quota_service: true, rate_limit: {unit: second, requests_per_unit: 100}}]}", true)
	d := plan.NewJSONDescriptor("api", entries("tenant=acme"))
	for _, look := range []func() (Counters, error){
		func() (Counters, error) { return f.Peek(t.Context(), d) },
		func() (Counters, error) { return f.Reset(t.Context(), d, "ann", "peer") },
	} {
		if a, err := look(); err != nil || a.Rule != "tenant" || a.Divided != "100 per second, at most 100 at once" || len(a.Limits) != 0 {
			t.Errorf("got %+v, error %v", a, err)
		}
	}
	testenv.Contains(t, explain.Doubt(f.tree, "api", entries("tenant=acme")), "api|tenant at rules.yaml:1:29 has quota_service: Envoys divide its limit, and do not ask")
	limit := f.tree.Buckets()[0].Limits[0]
	share := rlqs.Share{Domain: "api", Entries: entries("tenant=acme"), Key: "w1|api|tenant=#|1sq", Limit: limit, Rates: rlqs.Rates{Envoy: "10.0.0.1:5", Demand: 9, Share: 5, Held: 7}}
	f.Shares = func(time.Time, int) []rlqs.Share { return []rlqs.Share{share} }
	list := testenv.Must(f.Budgets(t.Context(), false))(t)
	text := string(testenv.Must(json.Marshal(list.Shares))(t))
	const want = `[{"domain":"api","rule":"tenant","limit":"second","rate":"100 per second","descriptor":{"entries":[{"key":"tenant","value":"#`
	if !strings.HasPrefix(text, want) || !strings.HasSuffix(text, `","hashed":true}]},"envoy":"10.0.0.1:5","demand":9,"share":5,"held":7,"use":0}]`) {
		t.Errorf("got %s\nwant %s...", text, want)
	}
}

// A limit that the last request sent replaces the limit of the rule in the counters of a descriptor, as it
// did in the request.
func TestPeekAtSentLimits(t *testing.T) {
	f := newFixture(t, `domain: api
descriptors:
  - key: org
    below: true
    rate_limit: {name: orgs, unit: hour, requests_per_unit: 50}
    descriptors:
      - {key: plan, override: {max_requests_per_unit: 20}, rate_limit: {unit: day, requests_per_unit: 9}}
      - {key: upload, override: {}, rate_limit: {unit: minute, requests_per_unit: 2, algorithm: concurrency}}
      - {key: free, rate_limit: {unit: day, requests_per_unit: 9}}
`, false)
	for i, step := range []struct {
		asked string
		sent  plan.Override // zero to send none
		want  string        // limits with their use
	}{
		{"org=a,plan=x", plan.Override{}, "org|plan day 1 of 9, org orgs 1 of 50"},
		{"org=a,plan=x", plan.Override{RequestsPerUnit: 15, Unit: limiter.Day}, "org|plan override 2 of 15, org orgs 2 of 50"},
		{"org=a,plan=x", plan.Override{RequestsPerUnit: 99, Unit: limiter.Day}, "org|plan override 3 of 20, org orgs 3 of 50"},
		{"org=a,plan=x", plan.Override{RequestsPerUnit: 99, Unit: limiter.Minute}, "org|plan override 1 of 99, org|plan override 4 of 20, org orgs 4 of 50"},
		{"org=a,plan=x", plan.Override{RequestsPerUnit: 99}, "org|plan day 4 of 9, org orgs 4 of 50"}, // invalid, so the request is denied
		{"org=a,plan=x", plan.Override{}, "org|plan day 5 of 9, org orgs 5 of 50"},
		{"org=a,upload=x,request_id=1", plan.Override{RequestsPerUnit: 5, Unit: limiter.Minute}, "org|upload override 1 of 5, org orgs 6 of 50"},
		{"org=a,free=x", plan.Override{RequestsPerUnit: 5, Unit: limiter.Hour}, "override override 1 of 5, org orgs 7 of 50"},
		{"org=a,free=x", plan.Override{}, "org|free day 1 of 9, org orgs 8 of 50"},
	} {
		f.decide(t.Context(), &plan.Request{Domain: "api", Descriptors: []plan.Descriptor{{Entries: entries(step.asked), Override: step.sent, HasOverride: step.sent != plan.Override{}}}})
		asked, _, _ := strings.Cut(step.asked, ",request_id")
		answer, err := f.Peek(t.Context(), plan.NewJSONDescriptor("api", entries(asked)))
		var got []string
		for _, l := range answer.Limits {
			got = append(got, fmt.Sprintf("%s %s %d of %d", l.Rule, l.Limit, l.Used, l.Amount))
		}
		if got := strings.Join(got, ", "); err != nil || got != step.want {
			t.Errorf("step %d: %s (error: %v), want %s", i, got, err, step.want)
		}
	}
}

// TestLook finds the denials of a descriptor: by its own limits, by those above, by a counter that it shares,
// by an exception that was removed, and of another descriptor of the same request.
func TestLook(t *testing.T) {
	f := newFixture(t, rules, false)
	f.Servers, f.Desk.Recorder = nil, NewRecorder(time.Now())
	f.Observer.Recorder = f.Desk.Recorder
	ctx := func(id string) context.Context {
		return grpcmetadata.NewIncomingContext(t.Context(), grpcmetadata.Pairs("x-request-id", id))
	}
	long := "user=" + strings.Repeat("x", 1000)
	f.ask(ctx("0"), 4, "user=alice path=/files/a")
	f.ask(t.Context(), 2, "path=/files/b")
	f.ask(t.Context(), 3, "user=eve")
	f.ask(ctx("2"), 4, "path=/files/b user=eve") // denied by both
	for i := range 20 {
		f.ask(ctx("8"), 4, fmt.Sprintf("user=u%d open=x tenant=big", i))
	}
	f.ask(ctx("3"), 51, "tenant=acme,upload=x,request_id=1")
	f.ask(ctx("4"), 10, "vip=x")
	f.ask(ctx("5"), 5, long+"1")
	f.ask(ctx("6"), 6, long+"2")
	f.InForce.Current.Store(plan.NewExceptions([]*plan.Exception{{ID: "a", JSONDescriptor: plan.NewJSONDescriptor("api", entries("user=bob")), Effect: plan.Deny, Until: time.Now().Add(time.Hour)}}))
	f.ask(ctx("7"), 2, "user=bob,path=/")
	f.InForce.Current.Store(nil)
	for i := range 3 {
		f.ask(t.Context(), 1, fmt.Sprint("tenant=long,upload=x,request_id=", i))
	}
	for of, want := range map[string]string{
		"user=alice":                        "3 per hour 1, ",
		"user=eve":                          "3 per hour 4, beside /files/*, ",
		"path=/files/c":                     "5 per hour 4, beside eve, beside alice, ",
		"tenant=acme,upload=x,request_id=9": "50 per hour 1, ",
		"tenant=acme":                       "50 per hour 1, ",
		"vip=x":                             "9 per hour 1 (shadow), ",
		long + "1":                          "3 per hour 2, ",
		long + "2":                          "3 per hour 3, ",
		"user=bob,path=/":                   "0 per day 2, ",
		"user=bob":                          "0 per day 2, ",
		"stranger=x":                        "",
		"tenant=long":                       "longer x, ",
		"tenant=long,upload=x":              "2 in flight, each for up to 1m0s 1, ",
		"tenant=longer":                     "",
		"tenant=big":                        "50 per hour 14, " + strings.Join([]string{"beside u0", "beside u1", "beside u2", "beside u3", "beside u4", "beside u5", "beside u6", "beside u7", "beside u8", "beside u9", ""}, ", "),
	} {
		a, err := f.Look(t.Context(), plan.NewJSONDescriptor("api", entries(of)), true)
		got := ""
		for _, l := range a.Denials {
			got += fmt.Sprintf("%s %d", l.Rate, l.Count)
			if l.Shadow {
				got += " (shadow)"
			}
			got += ", "
		}
		for _, l := range a.Longer {
			got += "longer " + l.Descriptor.Entries[1].Value + ", "
		}
		for _, l := range a.Beside {
			got += "beside " + l.Descriptor.Entries[0].Value + ", "
		}
		if got != want || err != nil || a.Servers != 1 {
			t.Errorf("%.40s: got %s, want %s (error: %v)", of, got, want, err)
		}
	}
	f.Store = broken{f.Store}
	if a, err := f.Look(t.Context(), plan.NewJSONDescriptor("api", entries("user=alice")), true); len(a.Denials) != 1 || len(a.Levels) != 1 || !errors.Is(err, ErrUnavailable) {
		t.Errorf("without a store: got %+v, error %v", a, err)
	}
}

func TestBadQuestions(t *testing.T) {
	f := newFixture(t, rules, false)
	want := func(of plan.JSONDescriptor, kind error) {
		t.Helper()
		_, peek := f.Peek(t.Context(), of)
		_, reset := f.Reset(t.Context(), of, "ann", "peer")
		if !errors.Is(peek, kind) || !errors.Is(reset, kind) {
			t.Errorf("%.100v: got errors %v and %v, want %v", of, peek, reset, kind)
		}
	}
	want(plan.NewJSONDescriptor("", entries("user=x")), ErrBadRequest)
	want(plan.NewJSONDescriptor("api", nil), ErrBadRequest)
	want(plan.NewJSONDescriptor("api", entries("=x")), ErrBadRequest)
	want(plan.NewJSONDescriptor("api", slices.Repeat(entries("user=x"), plan.MaxEntries+1)), ErrBadRequest)
	f.Store = broken{f.Store}
	f.ask(t.Context(), 2, "user=alice")
	want(plan.NewJSONDescriptor("api", entries("user=alice")), ErrUnavailable)
	if a, err := f.Reset(t.Context(), plan.NewJSONDescriptor("api", entries("user=alice")), "ann", "peer"); a.Reset != 2 || !errors.Is(err, limiter.ErrUnavailable) {
		t.Errorf("a reset of what cannot be shown: got %d counters, error %v", a.Reset, err)
	}
	f.tree = nil
	want(plan.NewJSONDescriptor("api", entries("user=x")), ErrUnavailable)
}

// broken is a store whose Peek fails.
type broken struct{ limiter.CounterStore }

func (broken) Peek(context.Context, []limiter.Hit) ([]limiter.Counter, error) {
	return nil, limiter.ErrUnavailable
}

// If a rule has networks, all forms of an address are one client, for requests and for operators. A rule for
// all other values of the key also counts them as one.
func TestAnAddressHasOneCounter(t *testing.T) {
	for _, forms := range [][]string{
		{"10.1.2.3", "::ffff:10.1.2.3", "::FFFF:0a01:0203"},
		{"2001:db8::1", "2001:DB8::1", "2001:0db8::0001", "2001:db8:0:0:0:0:0:1"},
		{"fe80::1", "fe80::1%a", "FE80::1%b"},
		{"2001:dc8::1", "2001:0dc8::1", "2001:DC8:0::1"},
		{"192.0.2.1", "::ffff:192.0.2.1", "::ffff:c000:201"},
	} {
		f := newFixture(t, "domain: api\ndescriptors: [{key: ip, networks: ['2001:db8::/32', 'fe80::/16', 10.0.0.0/8], rate_limit: {unit: hour, requests_per_unit: 9}}, {key: ip, rate_limit: {unit: hour, requests_per_unit: 9}}]", false)
		for _, form := range forms {
			f.ask(t.Context(), 1, "ip="+form)
		}
		for _, form := range forms {
			a, err := f.Peek(t.Context(), plan.NewJSONDescriptor("api", entries("ip="+form)))
			if want := "p:w1|api|ip=" + forms[0] + "|1h"; err != nil || a.Limits[0].Used != uint64(len(forms)) || a.Limits[0].Key != want {
				t.Errorf("%s: got %+v, error %v, want %d of %s", form, a.Limits, err, len(forms), want)
			}
		}
		last := plan.NewJSONDescriptor("api", entries("ip="+forms[len(forms)-1]))
		if a, err := f.Reset(t.Context(), last, "ann", "peer"); err != nil || a.Limits[0].Used != 0 {
			t.Errorf("%s: reset to %+v, error %v", forms[0], a.Limits, err)
		}
		testenv.Must(f.AddException(t.Context(), plan.Exception{JSONDescriptor: last, Effect: plan.Deny, For: 60, Reason: "abuse"}, "peer"))(t)
		for _, form := range forms {
			a, err := f.Peek(t.Context(), plan.NewJSONDescriptor("api", entries("ip="+form)))
			if f.ask(t.Context(), 1, "ip="+form) != 1 || err != nil || a.Exception == nil {
				t.Errorf("%s: an exception for %s does not apply, or Peek does not show it: %+v, error %v", form, last.Entries[0].Value, a, err)
			}
		}
	}
}

// An exception for a descriptor with the entry of a hold applies to all holds.
func TestExceptionForAHold(t *testing.T) {
	f := newFixture(t, rules, false)
	added := testenv.Must(f.AddException(t.Context(), plan.Exception{JSONDescriptor: plan.NewJSONDescriptor("api", entries("tenant=acme,request_id=1,upload=x")), Effect: plan.Deny, For: 60, Reason: "abuse"}, "peer"))(t)
	if n := f.ask(t.Context(), 1, "tenant=acme,upload=x,request_id=2"); n != 1 || len(added.Entries) != 2 || added.Note != "" {
		t.Errorf("%d requests were denied by %+v", n, added)
	}
}
