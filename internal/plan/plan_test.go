package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/testenv"
)

func load(t testing.TB, rules string) *descriptors.Tree {
	t.Helper()
	return testenv.Must(descriptors.Load([]descriptors.File{{Name: "rules.yaml", Data: []byte(rules)}}, descriptors.Options{}))(t)
}

const rules = `
domain: api
descriptors:
  - key: user
    detailed_metric: true
    rate_limit:
      - {name: burst, unit: second, requests_per_unit: 2}
      - {name: day, unit: day, requests_per_unit: 9, charge: always}
  - {key: vip, rate_limit: {unit: hour, requests_per_unit: 5, replaces: [{name: burst}]}}
  - {key: free, rate_limit: {unlimited: true}}
`

// named returns a descriptor with an entry for each word of the form key=value.
func named(words ...string) (d Descriptor) {
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		d.Entries = append(d.Entries, limiter.Entry{Key: key, Value: value})
	}
	return d
}

// words returns a descriptor with the entries in text, which are separated by blanks.
func words(text string) Descriptor { return named(strings.Fields(text)...) }

// with returns d with an override.
func (d Descriptor) with(o Override) Descriptor {
	d.Override, d.HasOverride = o, true
	return d
}

// refund returns d as a refund.
func (d Descriptor) refund() Descriptor {
	d.Refund = true
	return d
}

// planned returns the plan of a request.
func planned(t *testing.T, opts Options, tree *descriptors.Tree, list ...Descriptor) *Plan {
	t.Helper()
	p := new(Plan)
	testenv.OK(t, New(opts).Prepare(p, tree, &Request{Domain: "api", Descriptors: list}))
	return p
}

// counters is a store that has the states by key. Its clock stands still at 0.
type counters map[string]*limiter.State

func (c counters) Decide(_ context.Context, hits []limiter.Hit, out []limiter.Decision) (bool, error) {
	var states []*limiter.State
	for i := range hits {
		key := string(hits[i].Key)
		if c[key] == nil {
			c[key] = new(limiter.State)
		}
		states = append(states, c[key])
	}
	return limiter.Decide(hits, states, nil, 0, out), nil
}

// decide decides r into res.
func decide(t *testing.T, pl *Planner, tree *descriptors.Tree, store limiter.Store, r *Request, res *Result) {
	t.Helper()
	d := Decider{Planner: pl, Rules: func() *descriptors.Tree { return tree }, Store: store}
	testenv.OK(t, d.Decide(t.Context(), r, res))
}

// hitsOf formats the hits of a request. It omits usual values.
func hitsOf(p *Plan) (hits []string) {
	for _, h := range p.Hits {
		hit := h.Limit.Name + " " + string(h.Key)
		if labels := strings.ReplaceAll(string(h.Labels), "\x00", ";"); labels != "" {
			hit += " " + labels
		}
		if h.Cost != 1 {
			hit += fmt.Sprint(" cost ", h.Cost)
		}
		if h.Refund {
			hit += " refund"
		}
		if h.Always {
			hit += " always"
		}
		if h.Hold != nil {
			hit += " hold"
		}
		if h.Reservation != nil {
			hit += " reservation"
		}
		hits = append(hits, hit)
	}
	return hits
}

// statusOf formats a status with its limit, its remaining units and its rule.
func statusOf(s Status) string {
	text := fmt.Sprintf("%t %d", s.OverLimit, s.Remaining)
	if s.Limit != nil {
		text = s.Limit.Name + " " + text
	}
	if s.Rule != nil {
		text += " " + s.Rule.String()
	}
	return text
}

// A request becomes hits, and their decisions become statuses.
func TestPlan(t *testing.T) {
	tokens := named("user=alice")
	tokens.HitsAddend, tokens.HasHitsAddend = 4, true
	r := &Request{Domain: "api", HitsAddend: 3, Descriptors: []Descriptor{tokens, named("free=x"), named("nobody=x"), named("user=bob")}}
	var res Result
	decide(t, New(Options{QuotaMode: true}), load(t, rules), counters{}, r, &res)
	if got, want := hitsOf(&res.Plan), []string{
		"burst w1|api|user=alice|1s user_alice; cost 4 always",
		"day w1|api|user=alice|1d user_alice; cost 4 always",
		"burst w1|api|user=bob|1s user_bob; cost 3",
		"day w1|api|user=bob|1d user_bob; cost 3 always",
	}; !slices.Equal(got, want) || res.Plan.Hits[0].Mode != limiter.Quota {
		t.Errorf("hits are\n%q in mode %d, want\n%q as quotas", got, res.Plan.Hits[0].Mode, want)
	}
	var statuses []string
	for _, s := range res.Statuses {
		statuses = append(statuses, fmt.Sprint(statusOf(s), " ", s.UntilReset))
	}
	if want := []string{"burst true 0 api|user 0s", "false 4294967295 api|free 0s", "false 0 0s", "burst true 0 api|user 0s"}; !slices.Equal(statuses, want) {
		t.Errorf("statuses are\n%q, want\n%q", statuses, want)
	}
	if res.Denied || res.Plan.Unmatched != 1 {
		t.Errorf("denied %t, %d unmatched, want an admitted request with one", res.Denied, res.Plan.Unmatched)
	}
}

// A reused result equals a new result.
func TestResultIsUsedAgain(t *testing.T) {
	var used Result
	planner, tree := New(Options{}), load(t, rules)
	for _, descriptors := range [][]Descriptor{
		{named("user=a"), named("vip=a"), named("nobody=a")}, {named("user=a")}, {named("free=a")}, {named("user=a"), named("user=b")},
	} {
		var texts []string
		for _, res := range []*Result{&used, new(Result)} {
			decide(t, planner, tree, counters{}, &Request{Domain: "api", Descriptors: descriptors}, res)
			texts = append(texts, fmt.Sprint(hitsOf(&res.Plan), len(res.Decisions), len(res.Statuses), len(res.Plan.replacing), res.Plan.Unmatched, res.Denied))
		}
		testenv.Equal(t, texts[0], texts[1], "%v", descriptors)
	}
	used.Reset()
	if hits := used.Plan.Hits[:1]; hits[0].Limit != nil || used.Statuses[:1][0].Limit != nil || used.Plan.Unmatched != 0 {
		t.Error("something of the request is kept")
	}
}

// denies is a store that denies every request.
type denies struct{}

func (denies) Decide(context.Context, []limiter.Hit, []limiter.Decision) (bool, error) {
	return true, nil
}

// A used Result needs no new memory. A descriptor passes at most as many rules as it has
// entries, so the number of hits is bounded.
func TestDecisionsAllocateNothing(t *testing.T) {
	const depth = 45
	deep := strings.Repeat("{key: a, below: true, rate_limit: {unit: day, requests_per_unit: 1}, descriptors: [", depth) + strings.Repeat("]}", depth)
	var exceptions atomic.Pointer[Exceptions]
	var all []*Exception
	for _, effect := range Effects {
		all = append(all, &Exception{JSONDescriptor: NewJSONDescriptor("api", named("user="+string(effect)).Entries), Effect: effect, Factor: 2})
	}
	exceptions.Store(NewExceptions(all))
	assigned := new(SharedSet)
	assigned.assign("tenant=a", "", "5000")
	for name, test := range map[string]struct {
		rules       string
		descriptors []Descriptor
		hits        int
	}{
		"assigned":     {judgedRules, []Descriptor{words("tenant=a"), words("tenant=b")}, 2},
		"exceptions":   {rules, []Descriptor{named("user=allow"), named("user=deny"), named("user=amount"), named("user=bob")}, 5},
		"holds":        {flightRules, []Descriptor{words("user=alice request_id=r1"), words("request_id=r2 user=bob")}, 4},
		"an override":  {judgedRules, []Descriptor{named("tenant=a").with(Override{RequestsPerUnit: 5, Unit: limiter.Day})}, 2},
		"quota groups": {groupRules, []Descriptor{words("backend=a model=m"), words("backend=b model=m all=x"), words("backend=a model=m trial=x"), named("user=u")}, 6},
		"levels below": {"domain: api\ndescriptors: [" + deep + "]\n", slices.Repeat([]Descriptor{words(strings.Repeat("a=1 ", 2*depth))}, 100), 100 * depth},
	} {
		res, planner, tree := new(Result), New(Options{Exceptions: &exceptions, Assigned: assigned, GroupKeys: groupKeys}), load(t, test.rules)
		d := Decider{Planner: planner, Rules: func() *descriptors.Tree { return tree }, Store: denies{}}
		r := &Request{Domain: "api", Descriptors: test.descriptors}
		if n := testing.AllocsPerRun(10, func() {
			testenv.OK(t, d.Decide(context.Background(), r, res))
		}); n != 0 || len(res.Plan.Hits) != test.hits {
			t.Errorf("%s: %v allocations and %d hits, want none and %d", name, n, len(res.Plan.Hits), test.hits)
		}
	}
}
