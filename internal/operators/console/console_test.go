package console

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/descriptors"
	"weir/internal/descriptors/plaintext"
	"weir/internal/limiter"
	"weir/internal/operators"
	"weir/internal/operators/api"
	"weir/internal/telemetry"
	"weir/internal/testenv"
)

// TestChart draws no rates, rates of 15 minutes with one that is too old, and means of minutes.
func TestChart(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	if c := draw(nil, now); c.Decisions != "" || c.Area != "" || c.Ticks[0] != 1 || len(c.Minutes) != 0 {
		t.Errorf("got %+v", c)
	}
	c := draw([]api.Rates{
		{At: now.Add(-16 * time.Minute), Decisions: 1},
		{At: now.Add(-15 * time.Minute), Decisions: 100, Denials: 50},
		{At: now, Decisions: 150, Denials: 20},
	}, now)
	if c.Decisions != "0.0,100.0 900.0,50.0 " || c.Denials != "0.0,150.0 900.0,180.0 " || c.Area != "0.0,200.0 0.0,150.0 900.0,180.0 900.0,200.0 " || c.Ticks[0] != 200 {
		t.Errorf("got %+v", c)
	}
	var rates []api.Rates
	for i := range 30 {
		rates = append(rates, api.Rates{At: now.Add(time.Duration(i-30) * 5 * time.Second), Decisions: float64(i)})
	}
	if m := draw(rates, now).Minutes; len(m) != 3 || m[0].Decisions != 26.5 || m[2].Decisions != 5.5 {
		t.Errorf("got %+v", m)
	}
}

// TestUntil lets a date and time replace the duration.
func TestUntil(t *testing.T) {
	form := url.Values{"domain": {"api"}, "descriptor": {"user=alice"}, "effect": {"allow"}, "for": {""}, "until": {time.Now().UTC().Add(3 * time.Hour).Format("2006-01-02T15:04")}}
	if e, err := exception(form); err != nil || e.For > 3*3600 || e.For < 3*3600-120 {
		t.Errorf("got %v, error %v", e.For, err)
	}
}

func TestNumbers(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{plaintext.Number(1234567), "1,234,567"}, {plaintext.Number(uint64(999)), "999"}, {plaintext.Number(1000), "1,000"},
		{string(place("/a/<b>.yaml:3:5")), "/<wbr>a/<wbr>&lt;b&gt;.yaml:3:5"},
		{rate(0), "0"}, {rate(0.04), "0.0"}, {rate(12.34), "12.3"}, {rate(12345.6), "12,346"},
	} {
		testenv.Equal(t, tt.got, tt.want, "text")
	}
	for n, want := range map[float64]float64{0: 1, 1: 1, 1.5: 2, 3: 5, 7: 10, 10: 10, 11: 20, 501: 1000} {
		testenv.Equal(t, roundUp(n), want, "roundUp(%v)", n)
	}
}

// TestDescriptorsThatLack shows incomplete descriptors, with the reason and without a link.
func TestDescriptorsThatLack(t *testing.T) {
	alice := []limiter.Entry{{Key: "user", Value: "alice"}}
	for _, tt := range []struct {
		asked operators.Asked
		want  string
	}{
		{operators.Asked{Entries: alice}, `<span class="descriptor"><a href="/console/descriptor?domain=api&amp;descriptor=user%3dalice">user=alice</a></span>`},
		{operators.Asked{Entries: alice, Patterns: []string{"a*"}}, `<span class="descriptor">user=a* <small>(all that match)</small></span>`},
		{operators.Asked{Patterns: []string{"*"}}, `<span class="descriptor"> <small>(all)</small></span>`},
		{operators.Asked{Entries: alice, Hashed: true}, " <small>(hash)</small></span>"},
	} {
		var text strings.Builder
		testenv.OK(t, layout.ExecuteTemplate(&text, "descriptor", kept("api", tt.asked.Excerpt(256))))
		testenv.Contains(t, text.String(), tt.want)
	}
}

// TestBadForms checks that each error names its field.
func TestBadForms(t *testing.T) {
	for _, tt := range []struct{ field, value, want string }{
		{"domain", "", "a domain and a descriptor are required"},
		{"domain", `a\`, "domain: a backslash at the end"},
		{"descriptor", "=x", "descriptor: entry 1 has no key"},
		{"factor", "many", `times: "many" is not a number`},
		{"for", "soon", `for: "soon" is not a duration`},
		{"until", "tomorrow", `until: "tomorrow" is not a date and time`},
	} {
		form := url.Values{"domain": {"api"}, "descriptor": {"user=alice"}, "effect": {"amount"}, "factor": {"2x"}, "for": {"1h"}, "reason": {"x"}}
		form.Set(tt.field, tt.value)
		if _, err := exception(form); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s=%s: got %v, want %s", tt.field, tt.value, err, tt.want)
		}
	}
}

// TestBusiestOfManyRules finds the busiest of 50,000 rules in little time.
func TestBusiestOfManyRules(t *testing.T) {
	const n = 50_000
	var text strings.Builder
	text.WriteString("domain: api\ndescriptors:\n")
	for i := range n {
		fmt.Fprintf(&text, "- {key: user, value: u%d, rate_limit: {unit: minute, requests_per_unit: 5}}\n", i)
	}
	tree := testenv.Must(descriptors.Load([]descriptors.File{{Name: "a.yaml", Data: []byte(text.String())}}, descriptors.Options{}))(t)
	c := &console{Server: &api.Server{Desk: &operators.Desk{Tree: func() *descriptors.Tree { return tree }}}}
	sums := map[limiter.Series]telemetry.Outcome{}
	for l := range tree.Limits() {
		sums[l.Series] = telemetry.Outcome{Asked: 1000}
	}
	c.outcomes.take = func() map[limiter.Series]telemetry.Outcome { return sums }
	busiest := func(filter string) rulesPage {
		page := testenv.Must(c.rules(&http.Request{Form: url.Values{"filter": {filter}}}))(t)
		return page.(rulesPage)
	}
	if first := busiest(""); first.Shown != maxRules || first.Interval != 0 || first.All != n {
		t.Fatalf("got %d of %d rules over %v", first.Shown, first.All, first.Interval)
	}
	c.outcomes.older.at = time.Now().Add(-10 * time.Second)
	sums, i := maps.Clone(sums), 0
	for l := range tree.Limits() {
		if i%100 == 99 {
			sums[l.Series] = telemetry.Outcome{Asked: 1000 + uint64(i), Over: uint64(i / 2)}
		}
		i++
	}
	var got rulesPage
	testenv.InProcessorTime(t, 200*time.Millisecond, func() { got = busiest("") })
	users := got.Tree[0].Below
	if last := users[maxRules-1]; len(users) != maxRules || last.Name != "user=u49999" || math.Abs(last.Sum.Asked*got.Interval.Seconds()-49_999) > 1 || math.Abs(last.Sum.Over*got.Interval.Seconds()-24_999) > 1 || users[0].Name != "user=u30099" {
		t.Errorf("got %+v, the last %+v", users[0], users[len(users)-1])
	}
	testenv.InProcessorTime(t, 200*time.Millisecond, func() { got = busiest("U4999") })
	if users = got.Tree[0].Below; got.Matching != 11 || len(users) != 11 || users[0].Location() != "a.yaml:5002:3" {
		t.Errorf("got %d rules, the first at %s", got.Matching, users[0].Location())
	}
}

// TestSamplesAreAboutTenSecondsApart samples every two seconds, and then pauses.
func TestSamplesAreAboutTenSecondsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taken := 0
		l := sampler[int]{take: func() int { taken++; return taken }}
		for i := range 30 {
			now, before, over := l.sample(time.Now())
			if want := min(time.Duration(i)*2*time.Second, minAge); over < want || over > 3*minAge || now != i+1 || before != now-int(over/(2*time.Second)) {
				t.Errorf("look %d: got %d, %d of %v ago", i, now, before, over)
			}
			time.Sleep(2 * time.Second)
		}
		time.Sleep(2 * maxAge)
		_, _, over := l.sample(time.Now())
		testenv.Equal(t, over, 0, "age of the sample that it compares with")
	})
}

// TestTree makes trees of the rules of two files, and adds up their rates.
func TestTree(t *testing.T) {
	const limit = ", rate_limit: {unit: minute, requests_per_unit: 5}"
	tree := testenv.Must(descriptors.Load([]descriptors.File{
		{Name: "a.yaml", Data: []byte("domain: api\ndescriptors:\n- {key: user" + limit + ", descriptors: [{key: path, value: /login" + limit + "}]}\n- {key: tenant" + limit + "}\n")},
		{Name: "b.yaml", Data: []byte("domain: web\ndescriptors:\n- {key: user" + limit + "}\n")},
	}, descriptors.Options{}))(t)
	rates := &rates{now: map[limiter.Series]telemetry.Outcome{}, interval: time.Second}
	var rules []*descriptors.Rule
	for r := range tree.All() {
		rules = append(rules, r)
		asked := map[string]uint64{"api user path=/login": 1, "web user": 2, "api user": 4, "api tenant": 8}[strings.Join(r.Words(), " ")]
		rates.now[r.Limits[0].Series] = telemetry.Outcome{Asked: asked, Over: asked / 2}
	}
	roots := growTree(rules, rates)
	if len(roots) != 2 || roots[0].Sum != (demand{13, 6}) || len(roots[0].Below) != 2 || roots[1].Sum.Asked != 2 {
		t.Fatalf("got %+v %+v", *roots[0], *roots[1])
	}
	user := roots[0].Below[0]
	if user.Name != "user" || rates.Of(user.Limits[0]).Asked != 4 || user.Sum.Asked != 5 || user.Below[0].Name != "path=/login" || roots[0].Below[1].Name != "tenant" {
		t.Errorf("got %+v", user)
	}
	if user.ID == roots[1].Below[0].ID {
		t.Error("rules of two domains have the same ID")
	}
}

// TestAssets serves the files of the folder assets to everybody, and no files outside it.
func TestAssets(t *testing.T) {
	endpoints := New(nil, Options{})
	serve := endpoints[slices.IndexFunc(endpoints, func(e api.Endpoint) bool { return e.Path == "/console/assets/" })].Handler
	for path, want := range map[string]int{"console.css": 200, "%2e%2e/pages/now.html": 404, "..%2fpages/now.html": 404, "pages/now.html": 404} {
		answer := httptest.NewRecorder()
		serve(answer, httptest.NewRequest(http.MethodGet, "/console/assets/"+path, nil))
		testenv.Equal(t, answer.Code, want, "%s", path)
	}
}
