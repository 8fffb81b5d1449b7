package server

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/operators/console"
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
	tree, err := descriptors.Load([]descriptors.File{{Name: "a.yaml", Data: []byte(text.String())}}, descriptors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var series []limiter.Series
	for l := range tree.Limits() {
		series = append(series, l.Series)
	}
	return tree, series
}

// TestBusiestOfManyRules finds the busiest of 100,000 rules, cheaply.
func TestBusiestOfManyRules(t *testing.T) {
	const n = 100_000
	tree, series := manyUsers(t, n)
	w := &watched{App: &App{rules: new(rules)}}
	w.rules.tree.Store(tree)
	sums := map[limiter.Series]telemetry.Outcome{}
	for _, s := range series {
		sums[s] = telemetry.Outcome{Asked: 1000}
	}
	w.limits.take = func() map[limiter.Series]telemetry.Outcome { return sums }
	if first := w.busiestRules(""); len(first.Rules) != console.MaxRules || first.Over != 0 || first.All != n {
		t.Fatalf("got %d of %d rules over %v", len(first.Rules), first.All, first.Over)
	}
	w.limits.old[0].at, w.limits.seen.at = time.Now().Add(-10*time.Second), time.Now().Add(-10*time.Second)
	before := sums
	sums = map[limiter.Series]telemetry.Outcome{}
	for i, s := range series {
		sums[s] = before[s]
		if i%100 == 99 {
			sums[s] = telemetry.Outcome{Asked: 1000 + uint64(i), Over: uint64(i / 2)}
		}
	}
	var got console.Rules
	testenv.InProcessorTime(t, 400*time.Millisecond, func() { got = w.busiestRules("") })
	if last := got.Rules[console.MaxRules-1]; len(got.Rules) != console.MaxRules || strings.Join(last.Words, " ") != "api user=u99999" || last.Asked < 9000 || last.Over < 4500 || got.Rules[0].Words[1] != "user=u80099" {
		t.Errorf("got %+v", got.Rules[0])
	}
	testenv.InProcessorTime(t, 400*time.Millisecond, func() { got = w.busiestRules("U9999") })
	if got.Matching != 11 || len(got.Rules) != 11 || got.Rules[0].Place != "a.yaml:10002:3" {
		t.Errorf("got %d rules, the first at %s", got.Matching, got.Rules[0].Place)
	}
	w.limits.drop()
}

// TestLooksAreAboutTenSecondsApart looks every two seconds, and not at all for a while.
func TestLooksAreAboutTenSecondsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taken := 0
		l := lately[int]{take: func() int { taken++; return taken }}
		for i := range 30 {
			now, before, over := l.look(time.Now())
			if want := min(time.Duration(i)*2*time.Second, 10*time.Second); over < want || over > 20*time.Second {
				t.Errorf("look %d compares with %v ago", i, over)
			}
			if _, _, again := l.look(time.Now()); taken != i+1 || again != over {
				t.Errorf("a second reader took another look")
			}
			if i > 0 && before >= now {
				t.Errorf("got %d and %d", now, before)
			}
			time.Sleep(2 * time.Second)
		}
		time.Sleep(2 * lookForgets)
		synctest.Wait()
		if l.old != nil {
			t.Error("it still remembers")
		}
	})
}

// TestLoadsAreRemembered loads well, badly again and again, and well.
func TestLoadsAreRemembered(t *testing.T) {
	r := new(rules)
	r.remember(console.Load{Rules: 3})
	for range 5 {
		r.remember(console.Load{Problems: "a.yaml:1:1: bad"})
	}
	r.remember(console.Load{Problems: "a.yaml:2:1: bad"})
	if got := r.lastLoads(); len(got) != 3 || got[0].Times != 1 || got[1].Times != 5 || got[2].Rules != 3 {
		t.Errorf("got %+v", got)
	}
	for range 30 {
		r.remember(console.Load{Rules: 4})
	}
	if got := r.lastLoads(); len(got) != mostLoads || got[0].Rules != 4 {
		t.Errorf("got %+v", got)
	}
}
