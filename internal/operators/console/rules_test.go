package console

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/operators"
	"weir/internal/operators/api"
	"weir/internal/telemetry"
	"weir/internal/testenv"
)

// manyUsers returns a tree with so many rules, and the series of their limits.
func manyUsers(t *testing.T, n int) (*descriptors.Tree, []limiter.Series) {
	t.Helper()
	var text strings.Builder
	text.WriteString("domain: api\ndescriptors:\n")
	for i := range n {
		fmt.Fprintf(&text, "- {key: user, value: u%d, rate_limit: {unit: minute, requests_per_unit: 5}}\n", i)
	}
	tree := testenv.Must(descriptors.Load([]descriptors.File{{Name: "a.yaml", Data: []byte(text.String())}}, descriptors.Options{}))(t)
	var series []limiter.Series
	for l := range tree.Limits() {
		series = append(series, l.Series)
	}
	return tree, series
}

// TestBusiestOfManyRules finds the busiest of 50,000 rules, cheaply.
func TestBusiestOfManyRules(t *testing.T) {
	const n = 50_000
	tree, series := manyUsers(t, n)
	c := &console{Server: &api.Server{Desk: &operators.Desk{Tree: func() *descriptors.Tree { return tree }}}}
	sums := map[limiter.Series]telemetry.Outcome{}
	for _, s := range series {
		sums[s] = telemetry.Outcome{Asked: 1000}
	}
	c.outcomes.take = func() map[limiter.Series]telemetry.Outcome { return sums }
	busiest := func(filter string) rulesPage {
		page := testenv.Must(c.rules(&http.Request{Form: url.Values{"filter": {filter}}}))(t)
		return page.(rulesPage)
	}
	if first := busiest(""); first.Shown != maxRules || first.Over != 0 || first.All != n {
		t.Fatalf("got %d of %d rules over %v", first.Shown, first.All, first.Over)
	}
	c.outcomes.older.at = time.Now().Add(-10 * time.Second)
	before := sums
	sums = map[limiter.Series]telemetry.Outcome{}
	for i, s := range series {
		sums[s] = before[s]
		if i%100 == 99 {
			sums[s] = telemetry.Outcome{Asked: 1000 + uint64(i), Over: uint64(i / 2)}
		}
	}
	var got rulesPage
	testenv.InProcessorTime(t, 200*time.Millisecond, func() { got = busiest("") })
	users := got.Tree[0].Below
	if last := users[maxRules-1]; len(users) != maxRules || last.Name != "user=u49999" || math.Abs(last.Sum.Asked*got.Over.Seconds()-49_999) > 1 || math.Abs(last.Sum.Over*got.Over.Seconds()-24_999) > 1 || users[0].Name != "user=u30099" {
		t.Errorf("got %+v, the last %+v", users[0], users[len(users)-1])
	}
	testenv.InProcessorTime(t, 200*time.Millisecond, func() { got = busiest("U4999") })
	if users = got.Tree[0].Below; got.Matching != 11 || len(users) != 11 || users[0].Place() != "a.yaml:5002:3" {
		t.Errorf("got %d rules, the first at %s", got.Matching, users[0].Place())
	}
}

// TestLooksAreAboutTenSecondsApart looks every two seconds, and not at all for a while.
func TestLooksAreAboutTenSecondsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taken := 0
		l := lately[int]{take: func() int { taken++; return taken }}
		for i := range 30 {
			now, before, over := l.look(time.Now())
			if want := min(time.Duration(i)*2*time.Second, lookBack); over < want || over > 3*lookBack || now != i+1 || before != now-int(over/(2*time.Second)) {
				t.Errorf("look %d: got %d, %d of %v ago", i, now, before, over)
			}
			time.Sleep(2 * time.Second)
		}
		time.Sleep(2 * lookForgets)
		if _, _, over := l.look(time.Now()); over != 0 {
			t.Errorf("it compares with %v ago", over)
		}
	})
}

// TestTree joins the rules of two files, and sums their rates.
func TestTree(t *testing.T) {
	const limit = ", rate_limit: {unit: minute, requests_per_unit: 5}"
	tree := testenv.Must(descriptors.Load([]descriptors.File{
		{Name: "a.yaml", Data: []byte("domain: api\ndescriptors:\n- {key: user" + limit + ", descriptors: [{key: path, value: /login" + limit + "}]}\n- {key: tenant" + limit + "}\n")},
		{Name: "b.yaml", Data: []byte("domain: web\ndescriptors:\n- {key: user" + limit + "}\n")},
	}, descriptors.Options{}))(t)
	rates := &rates{now: map[limiter.Series]telemetry.Outcome{}, over: time.Second}
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
