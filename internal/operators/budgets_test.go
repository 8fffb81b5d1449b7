package operators

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/limiter"
	"weir/internal/limiter/memory"
	"weir/internal/plan"
	"weir/internal/testenv"
)

const budgetRules = `
domain: api
descriptors:
  - key: team
    rate_limit: {unit: hour, requests_per_unit: 1000, notify: [50, 80, 100]}
  - key: user
    rate_limit:
      - {unit: minute, requests_per_unit: 5}
      - {name: daily, unit: day, requests_per_unit: 10, algorithm: calendar, time_zone: Europe/Berlin}
  - {key: once, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: trial, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 4}}
  - {key: slow, rate_limit: {unit: hour, requests_per_unit: 100, algorithm: concurrency}}
  - {key: closed, rate_limit: {unit: hour, requests_per_unit: 0}}
`

// budgets returns the budgets of a list as texts such as "user=bob 5 of 10", with " shadow" in shadow mode.
func budgets(list BudgetList) (all []string) {
	for _, b := range list.Budgets {
		text, _ := b.Descriptor.Spell()
		text += fmt.Sprintf(" %d of %d", b.Used, b.Amount)
		if b.Shadow {
			text += " shadow"
		}
		all = append(all, text)
	}
	return all
}

// TestBudgets lists the used budgets, including those that are used up and deny.
func TestBudgets(t *testing.T) {
	f := newFixture(t, budgetRules, false)
	for request, times := range map[string]int{"team=blue": 700, "user=alice": 4, "user=bob": 6, "once=a": 3, "trial=x": 6, "slow=a,request_id=1": 1, "closed=x": 1} {
		f.ask(t.Context(), times, request)
	}
	list := mergeBudgets(f.Desk.Spending.list(began))
	testenv.Equal(t, strings.Join(budgets(list), "; "), "once=a 1 of 1; trial=x 4 of 4 shadow; team=blue 700 of 1000; user=bob 5 of 10; user=alice 4 of 10", "budgets")
	bob := list.Budgets[3]
	if bob.Limit != "daily" || bob.TimeZone != "Europe/Berlin" || bob.StartsAgain.Format(time.RFC3339) != "2026-08-02T00:00:00+02:00" || bob.Left != 5 || list.OthersAtMost != 0 {
		t.Errorf("got %+v", bob)
	}
	const reached = `
# HELP weir_limit_reached_total Times that a counter of a limit reached a percentage in notify. After a refund, it may reach one again.
# TYPE weir_limit_reached_total counter
weir_limit_reached_total{domain="api",limit="hour",rule="team",threshold="100"} 0
weir_limit_reached_total{domain="api",limit="hour",rule="team",threshold="50"} 1
weir_limit_reached_total{domain="api",limit="hour",rule="team",threshold="80"} 0
`
	testenv.OK(t, testutil.CollectAndCompare(f.Desk.Spending.reached, strings.NewReader(reached)))
	testenv.EqualLists(t, budgets(f.Desk.Spending.list(began.Add(24*time.Hour))), nil, "budgets after their windows")
}

// TestBudgetsAreFresh changes counters and limits without a request.
func TestBudgetsAreFresh(t *testing.T) {
	f := newFixture(t, budgetRules+"  - {key: path, value: /files/*, share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 10}}\n", false)
	for request, times := range map[string]int{"team=blue": 700, "user=bob": 6, "user=eve": 6, "once=a": 3, "path=/files/a": 2} {
		f.ask(t.Context(), times, request)
	}
	exception := func(id, of string, effect plan.Effect) *plan.Exception {
		return &plan.Exception{ID: id, JSONDescriptor: plan.NewJSONDescriptor("api", entries(of)), Effect: effect, Factor: 10, Until: time.Now().Add(time.Hour)}
	}
	f.InForce.Current.Store(plan.NewExceptions([]*plan.Exception{exception("a", "team=blue", plan.Amount), exception("b", "once=a", plan.Allow)}))
	testenv.Must(f.Reset(t.Context(), plan.NewJSONDescriptor("api", entries("user=eve")), "ann", "peer"))(t)
	fresh := func() BudgetList {
		list := mergeBudgets(f.Desk.Spending.list(began))
		f.refresh(t.Context(), began, list.Budgets)
		return list
	}
	want := "[once=a 1 of 1 user=bob 5 of 10 path=/files/* 2 of 10 team=blue 700 of 10000 user=eve 0 of 10] 9300 [0]"
	for range 2 {
		list := fresh()
		if got := fmt.Sprint(budgets(list), list.Budgets[3].Left, list.Budgets[4].Day); got != want || list.Budgets[0].Exception != plan.Allow {
			t.Errorf("got %s\nwant %s\n%+v", got, want, list)
		}
		f.Store = broken{memory.New(memory.Options{})} // like a Redis that fails
		want = "[once=a 1 of 1 team=blue 700 of 1000 user=bob 5 of 10 user=eve 5 of 10 path=/files/* 2 of 10] 5 [2]"
	}
	f.Store = memory.New(memory.Options{}) // like a Redis that has lost its data
	list := fresh()
	testenv.Equal(t, fmt.Sprint(list.Budgets[0].Used, list.Budgets[4].Used), "0 0", "used units in %v", budgets(list))
}

// spend notes the use of a counter whose limit is 1000 per hour.
func spend(s *Spending, at time.Time, label, value string, used int64) {
	l := limiter.MustLimit(limiter.Spec{RequestsPerUnit: 1000, Unit: limiter.Hour, Series: limiter.LabelSet{Domain: "api", Rule: label, Limit: "hour"}.Series()})
	h := limiter.Hit{Limit: l, Key: []byte(label + value), Cost: 1}
	end := at.Truncate(time.Hour).Add(time.Hour)
	s.observe(at, &Asked{Domain: "api", Entries: []limiter.Entry{{Key: label, Value: value}}, Key: h.Key}, &h, &limiter.Decision{Charged: true, Used: used, ResetAfter: end.Sub(at)}, 0, 0)
}

// TestBudgetsOfMany has many counters of one limit, then many limits. The most used counters stay, and the
// list has a bound of the use of all others until their windows end.
func TestBudgetsOfMany(t *testing.T) {
	s := NewSpending(prometheus.NewRegistry())
	spend(s, began, "quiet", "alice", 300)
	for i := range int64(20_000) {
		spend(s, began, "flood", fmt.Sprint(i), i*7919%901)
	}
	list := s.list(began)
	if merged := mergeBudgets(list, list); len(list.Budgets) != maxKeys+1 || len(merged.Budgets) != maxKeys+1 || merged.Budgets[0].Used != 900 || merged.Budgets[maxKeys].Used != 300 || list.OthersAtMost != 90 {
		t.Errorf("got %q, others at most %v", budgets(list), list.OthersAtMost)
	}
	for i := range int64(20_000) {
		spend(s, began, fmt.Sprint("rule", i*7919%20_000), "x", i*7919%20_000/20)
	}
	list = mergeBudgets(s.list(began))
	least := list.Budgets[maxLimits-1].Percent
	if len(s.limits) != maxLimits || len(list.Budgets) != maxLimits || list.Budgets[0].Used != 999 || least < 90 || list.OthersAtMost < least-1 || list.OthersAtMost > least {
		t.Errorf("got %d limits, %d budgets of %v to %v %%, others at most %v", len(s.limits), len(list.Budgets), list.Budgets[0].Percent, least, list.OthersAtMost)
	}
	later := began.Add(time.Hour)
	spend(s, later, "new", "bob", 10)
	if list := s.list(later.Add(20 * time.Minute)); fmt.Sprint(budgets(list)) != "[new=bob 10 of 1000]" || list.OthersAtMost > 99.9 {
		t.Errorf("in the next window: got %q, others at most %v", budgets(list), list.OthersAtMost)
	}
	testenv.Equal(t, s.list(later.Add(2*time.Hour)).OthersAtMost, 0, "bound of others in a window that nobody used")
}

// TestBudgetIsUsedUpAt uses a counter steadily, then faster, then not at all.
func TestBudgetIsUsedUpAt(t *testing.T) {
	noon := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	s := NewSpending(prometheus.NewRegistry())
	used := int64(0)
	pass := func(from, minutes int, each int64) Budget {
		for m := from; m < from+minutes; m++ {
			if used += each; each > 0 {
				spend(s, noon.Add(time.Duration(m)*time.Minute), "user", "alice", used)
			}
		}
		return s.list(noon.Add(time.Duration(from+minutes) * time.Minute)).Budgets[0]
	}
	wants := func(b Budget, minutes float64) {
		t.Helper()
		got := math.NaN()
		if !b.UsedUp.IsZero() {
			got = b.UsedUp.Sub(noon).Minutes()
		}
		if math.Abs(got-minutes) > 1.5 || math.IsNaN(got) != math.IsNaN(minutes) {
			t.Errorf("used up after %v minutes, want %v (used %d)", got, minutes, b.Used)
		}
	}
	wants(pass(0, 10, 10), math.NaN())   // 100 in 10 minutes, so 600 in the hour
	wants(pass(10, 10, 20), math.NaN())  // 300 in 20 minutes, 235 in the last 12, so 900 in the hour
	wants(pass(20, 15, 30), 35+250/30.0) // 750, and 30 a minute in the last quarter
	wants(pass(35, 20, 0), math.NaN())   // nobody used it for a quarter of the hour
	s, used = NewSpending(prometheus.NewRegistry()), 100
	wants(pass(30, 10, 40), 52.5) // 500, of which a newly started server saw 400
	used = 0
	if b := pass(65, 1, 5); b.Used != 5 || fmt.Sprint(b.Day) != "[500 5]" { // in a new window
		t.Errorf("got %+v", b)
	}
}

// TestBudgetsOfServers counts on two servers with the same counters. The last change wins.
func TestBudgetsOfServers(t *testing.T) {
	one, two := NewSpending(prometheus.NewRegistry()), NewSpending(prometheus.NewRegistry())
	spend(one, began.Add(-2*time.Hour), "user", "alice", 900)
	spend(one, began, "user", "alice", 200)
	spend(two, began.Add(time.Second), "user", "alice", 210)
	spend(two, began, "user", "bob", 500)
	at := began.Add(time.Minute)
	merged := mergeBudgets(one.list(at), two.list(at))
	testenv.Equal(t, fmt.Sprint(budgets(merged), merged.Servers, merged.Budgets[1].Day), "[user=bob 500 of 1000 user=alice 210 of 1000] 2 [900 0 200]", "merged budgets")
	var again BudgetList
	testenv.OK(t, json.Unmarshal(testenv.Must(json.Marshal(merged))(t), &again))
	testenv.Equal(t, mergeBudgets(again).Budgets[0].Percent, 50, "percentage of %+v", again)
}
