package explain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/limiter/memory"
	"weir/internal/plan"
	"weir/internal/testenv"
)

func treeOf(t *testing.T, path string) *descriptors.Tree {
	t.Helper()
	files, _, err := descriptors.ReadFiles(path)
	testenv.OK(t, err)
	return testenv.Must(descriptors.Load(files, descriptors.Options{}))(t)
}

// question returns a question about a descriptor in the syntax of ParseDescriptor.
func question(t *testing.T, descriptor string) Question {
	t.Helper()
	entries := testenv.Must(ParseDescriptor(descriptor))(t)
	return Question{Tree: treeOf(t, "testdata/rules.yaml"), Domain: "shop", Descriptor: entries, Redis: true, Cluster: true}
}

func units(n uint64) *uint64 { return &n }

func explained(t *testing.T, q Question) Answer {
	t.Helper()
	return testenv.Must(Explain(q))(t)
}

// Explain returns an error for a request that the server refuses, and does not explain such a
// request as admitted.
func TestExplainRefusedRequest(t *testing.T) {
	noDomain := question(t, "user=alice")
	noDomain.Domain = ""
	for want, q := range map[string]Question{
		"descriptor 0: more than the 100 entries allowed":                                                        question(t, strings.Repeat("user=alice,", 100)+"user=alice"),
		`descriptor 0: rule shop|slow needs an entry "request_id" with a value that names the request in flight`: question(t, "slow=a"),
		"the domain is empty": noDomain,
	} {
		if _, err := Explain(q); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func text(t *testing.T, a Answer) string {
	t.Helper()
	var b bytes.Buffer
	testenv.OK(t, a.WriteText(&b))
	return b.String()
}

// Each answer is in a text file in testdata, and some answers are in a JSON file, too.
func TestExplain(t *testing.T) {
	levels := func(q *Question) { q.Tree = treeOf(t, "testdata/levels.yaml") }
	keys := limiter.Keys{Prefix: "{weir}", Digests: true}
	for name, tt := range map[string]struct {
		descriptor string
		change     func(*Question) // changes the question, or nil
	}{
		"several":       {"user=alice", nil},
		"too_many_hits": {"user=alice", func(q *Question) { q.HitsAddend, q.Charge = units(30), limiter.Admitted }},
		"charge":        {"user=alice", func(q *Question) { q.HitsAddend = units(30) }},
		"peek_auto":     {"user=alice", func(q *Question) { q.HitsAddend = units(0) }},
		"peek":          {"user=alice", func(q *Question) { q.HitsAddend, q.Charge, q.Failure = units(0), limiter.Admitted, limiter.FailureDeny }},
		"shadow_mode":   {"user=alice", func(q *Question) { q.HitsAddend, q.ShadowMode = units(30), true }},
		"quota_mode":    {"user=alice,method=GET", func(q *Question) { q.QuotaMode = true }},
		"quota_group":   {"user=alice,path=/files/a", func(q *Question) { q.GroupKeys = []string{"backend_name", "user"} }},
		"digests":       {"user=alice", func(q *Question) { q.Keys = keys }},
		"domain":        {"user=alice", func(q *Question) { q.Domain = "shopping" }},
		"wildcard":      {"user=alice,path=/files/a", nil},
		"whitelist":     {"user=root", nil},
		"unlimited":     {"user=batch", nil},
		"replaced":      {"job=a", nil},
		"closed":        {"closed=a", nil},
		"in_memory":     {"closed=a", func(q *Question) { q.Redis, q.Cluster = false, false }},
		"in_redis":      {"closed=a", func(q *Question) { q.Cluster = false }},
		"nowhere":       {"user=alice,path=/cart,x=y", nil},
		"first_level":   {"users=alice", nil},
		"hidden":        {"tenant=acme,user=bob", nil},
		"in_flight":     {"request_id=abc,slow=a", nil},
		"too_short":     {"tenant=a", nil},
		"large":         {"tokens=a", nil},
		"calendar":      {"user=plan", nil},
		"ban":           {"login=a", nil},
		"no_ban":        {"login=a", func(q *Question) { q.ShadowMode = true }},
		"bytes":         {"user=\xff\"\x00 ", nil},
		"list":          {"team=blue,path=/v2/a", nil},
		"network":       {"from=::ffff:10.2.0.1", nil},
		"narrower":      {"from=10.1.0.1", nil},
		"too_long": {"k=" + strings.Repeat("a", 600) + ",user=a", func(q *Question) {
			file := descriptors.File{Name: "long.yaml", Data: []byte("domain: shop\ndescriptors: [{key: k, regex: '.*a(.?){480}[yz]', descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1}}]}]")}
			q.Tree = testenv.Must(descriptors.Load([]descriptors.File{file}, descriptors.Options{}))(t)
		}},

		"bucket": {"method=GET,tenant=a", func(q *Question) {
			file := descriptors.File{Name: "quota.yaml", Data: []byte("domain: shop\ndescriptors: [{key: tenant, descriptors: [{key: method, quota_service: true, rate_limit: {unit: second, requests_per_unit: 5}}]}]")}
			q.Tree = testenv.Must(descriptors.Load([]descriptors.File{file}, descriptors.Options{}))(t)
		}},

		"below":           {"user=alice,path=/login", levels},
		"below_leaf":      {"user=root,path=/", nil},
		"below_shared":    {"user=alice,path=/files/a,method=GET", levels},
		"below_nothing":   {"user=alice,path=/cart,x=y", levels},
		"below_unlimited": {"user=alice,path=/free", levels},
		"below_whitelist": {"user=alice,path=/health", levels},
		"below_replaced":  {"user=alice,path=/export", levels},
		"no_key":          {"nobody=x", levels},
		"override":        {"tenant=acme", levels},
	} {
		t.Run(name, func(t *testing.T) {
			q := question(t, tt.descriptor)
			if tt.change != nil {
				tt.change(&q)
			}
			a, file := explained(t, q), "testdata/"+name+".json"
			testenv.Golden(t, "testdata/"+name+".txt", text(t, a))
			if _, err := os.Stat(file); err == nil {
				testenv.Golden(t, file, string(testenv.Must(json.MarshalIndent(a, "", "  "))(t))+"\n")
			}
		})
	}
}

// The text shows only the first candidates, and candidates with the same key come first.
func TestManyCandidates(t *testing.T) {
	var rules strings.Builder
	rules.WriteString("domain: shop\ndescriptors:\n  - key: zone\n")
	for i := range 100 {
		fmt.Fprintf(&rules, "  - {key: user, value: user%02d}\n", i)
	}
	q := question(t, "zone=1,x=y")
	q.Tree = testenv.Must(descriptors.Load([]descriptors.File{{Name: "rules.yaml", Data: []byte(rules.String())}}, descriptors.Options{}))(t)
	q.Descriptor = question(t, "user=nobody").Descriptor
	a := explained(t, q)
	if got := text(t, a); !strings.Contains(got, "there are: user=user00, user=user01,") || !strings.Contains(got, "user=user19 and 81 more\n") {
		t.Errorf("got\n%s", got)
	}
	if len(a.Candidates) != 101 || a.Candidates[100] != "zone" {
		t.Errorf("got %d candidates: %v", len(a.Candidates), a.Candidates)
	}
}

// The answer denies and charges a request as the server does on unused counters, with all
// combinations of switches and with limits that replace others.
func TestDeniedAsByTheServer(t *testing.T) {
	for _, descriptor := range []string{"user=alice", "user=alice,path=/files/a", "job=a", "closed=a", "user=batch"} {
		for switches := range 4 {
			for hits := range uint64(40) {
				q := question(t, descriptor)
				q.ShadowMode, q.QuotaMode = switches&1 > 0, switches&2 > 0
				if hits > 0 {
					hits-- // so that the descriptor's own hits_addend starts at 0
					q.HitsAddend = &hits
				}
				denied, left, then := askTwice(t, q)
				a := explained(t, q)
				testenv.Equal(t, a.Denied, denied, "%v hits of %s are denied, as the server says", hits, descriptor)
				if charged := len(a.Limits) == 1 && a.Limits[0].Decision != nil && a.Limits[0].Decision.Charged; charged && left > 0 && then >= left {
					t.Errorf("%v hits of %s: charged, but then the server has %d and %d left", hits, descriptor, left, then)
				}
			}
		}
	}
}

// askTwice sends a request twice to a server with unused counters. It returns whether the first
// request is denied, and the remaining units after each request.
func askTwice(t *testing.T, q Question) (denied bool, left, then uint64) {
	t.Helper()
	decider := plan.Decider{
		Planner: plan.New(q.Options), Rules: func() *descriptors.Tree { return q.Tree }, Store: memory.New(memory.Options{}),
	}
	d := plan.Descriptor{Entries: q.Descriptor}
	if q.HitsAddend != nil {
		d.HitsAddend, d.HasHitsAddend = *q.HitsAddend, true
	}
	request := plan.Request{Domain: q.Domain, Descriptors: []plan.Descriptor{d}}
	var first, second plan.Result
	testenv.OK(t, decider.Decide(t.Context(), &request, &first))
	testenv.OK(t, decider.Decide(t.Context(), &request, &second))
	return first.Denied, first.Statuses[0].Remaining, second.Statuses[0].Remaining
}
