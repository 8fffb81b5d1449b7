package plan

import (
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

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

// of is a descriptor of one entry.
func of(key, value string) Descriptor {
	return Descriptor{Entries: []limiter.Entry{{Key: key, Value: value}}}
}

// named is a descriptor of entries that are written key=value.
func named(words ...string) (d Descriptor) {
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		d.Entries = append(d.Entries, limiter.Entry{Key: key, Value: value})
	}
	return d
}

// words is a descriptor of entries with blanks between them.
func words(text string) Descriptor { return named(strings.Fields(text)...) }

// with is d with a limit that the request brings along.
func (d Descriptor) with(o Override) Descriptor {
	d.Override, d.HasOverride = o, true
	return d
}

// refund is d that gives back.
func (d Descriptor) refund() Descriptor {
	d.Refund = true
	return d
}

// planned is what becomes of a request before it is decided.
func planned(t *testing.T, opts Options, tree *descriptors.Tree, list ...Descriptor) *Result {
	t.Helper()
	p := new(Result)
	testenv.OK(t, New(opts).Prepare(p, tree, &Request{Domain: "api", Descriptors: list}))
	return p
}

// decided is the plan of a request, on fresh counters.
func decided(t *testing.T, planner *Planner, p *Result, r *Request) {
	t.Helper()
	testenv.OK(t, planner.Prepare(p, load(t, rules), r))
	decideFresh(p)
}

// What is asked becomes hits, and what is decided of them becomes statuses.
func TestPlan(t *testing.T) {
	var p Result
	tokens := of("user", "alice")
	tokens.HitsAddend, tokens.HasHitsAddend = 4, true
	r := &Request{Domain: "api", HitsAddend: 3, Descriptors: []Descriptor{tokens, of("free", "x"), of("nobody", "x"), of("user", "bob")}}
	decided(t, New(Options{QuotaMode: true}), &p, r)

	type hit struct {
		limit, key, labels string
		cost               uint64
		always             bool
		mode               limiter.Mode
	}
	var hits []hit
	for _, h := range p.Hits {
		hits = append(hits, hit{h.Limit.Name, string(h.Key), strings.TrimFunc(string(h.Labels), unicode.IsControl), h.Cost, h.Always, h.Mode})
	}
	if want := []hit{
		{"burst", "w1|api|user=alice|1s", "user_alice", 4, true, limiter.Quota},
		{"day", "w1|api|user=alice|1d", "user_alice", 4, true, limiter.Quota},
		{"burst", "w1|api|user=bob|1s", "user_bob", 3, false, limiter.Quota},
		{"day", "w1|api|user=bob|1d", "user_bob", 3, true, limiter.Quota},
	}; !reflect.DeepEqual(hits, want) {
		t.Errorf("hits are\n%+v, want\n%+v", hits, want)
	}

	type status struct {
		over      bool
		limit     string
		remaining uint64
		reset     time.Duration
	}
	var statuses []status
	for _, s := range p.Statuses {
		got := status{over: s.OverLimit, remaining: s.Remaining, reset: s.UntilReset}
		if s.Limit != nil {
			got.limit = s.Limit.Name
		}
		statuses = append(statuses, got)
	}
	if want := []status{
		{true, "burst", 0, 0}, {false, "", 1<<32 - 1, 0}, {false, "", 0, 0}, {true, "burst", 0, 0},
	}; !reflect.DeepEqual(statuses, want) {
		t.Errorf("statuses are\n%+v, want\n%+v", statuses, want)
	}
	if p.Denied || p.Unmatched != 1 {
		t.Errorf("denied %t, %d unmatched, want an admitted request with one", p.Denied, p.Unmatched)
	}
}

// A plan that is used again is what a new one would be.
func TestPlanIsUsedAgain(t *testing.T) {
	var used Result
	planner := New(Options{})
	for _, descriptors := range [][]Descriptor{
		{of("user", "a"), of("vip", "a"), of("nobody", "a")}, {of("user", "a")}, {of("free", "a")}, {of("user", "a"), of("user", "b")},
	} {
		var fresh Result
		for _, p := range []*Result{&used, &fresh} {
			decided(t, planner, p, &Request{Domain: "api", Descriptors: descriptors})
		}
		if len(used.Hits) != len(fresh.Hits) || len(used.Statuses) != len(fresh.Statuses) || len(used.replaced) != len(fresh.replaced) || used.Unmatched != fresh.Unmatched || used.Denied != fresh.Denied {
			t.Errorf("%v: got %+v, want %+v", descriptors, used, fresh)
		}
		for i := range used.Hits {
			if string(used.Hits[i].Key) != string(fresh.Hits[i].Key) || used.Hits[i].Limit.Name != fresh.Hits[i].Limit.Name {
				t.Errorf("%v: hit %d is on %s, want %s", descriptors, i, used.Hits[i].Key, fresh.Hits[i].Key)
			}
		}
	}
	used.Reset()
	if hits := used.Hits[:1]; hits[0].Limit != nil || used.Statuses[:1][0].Limit != nil || used.Unmatched != 0 {
		t.Error("something of the request is kept")
	}
}
