package explain

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/limiter/memory"
	"weir/internal/plan"
	"weir/internal/rls"
	"weir/internal/telemetry"
	"weir/internal/testenv"
)

var update = flag.Bool("update", false, "write testdata/*.txt and *.json anew")

func tree(t *testing.T) *descriptors.Tree { return treeOf(t, "testdata/rules.yaml") }

func treeOf(t *testing.T, path string) *descriptors.Tree {
	t.Helper()
	files, _, err := descriptors.ReadFiles(path)
	if err != nil {
		t.Fatal(err)
	}
	return testenv.Must(descriptors.Load(files, descriptors.Options{}))(t)
}

// question is about a descriptor as ParseDescriptor takes it.
func question(t *testing.T, descriptor string) Question {
	t.Helper()
	entries := testenv.Must(ParseDescriptor(descriptor))(t)
	return Question{Tree: tree(t), Domain: "shop", Descriptor: entries, Redis: true, Cluster: true}
}

func units(n uint64) *uint64 { return &n }

func explained(t *testing.T, q Question) Answer {
	t.Helper()
	return testenv.Must(Explain(q))(t)
}

// What the server refuses is not explained as if it were admitted.
func TestExplainRefusedRequest(t *testing.T) {
	q := question(t, strings.Repeat("user=alice,", 100)+"user=alice")
	if _, err := Explain(q); err == nil || err.Error() != "descriptor 0: more than the 100 entries allowed" {
		t.Errorf("101 entries: got %v", err)
	}
	q = question(t, "slow=a")
	if _, err := Explain(q); err == nil || err.Error() != `descriptor 0: rule shop|slow needs an entry "request_id" with a value that names the request in flight` {
		t.Errorf("no hold: got %v", err)
	}
	q.Domain = ""
	if _, err := Explain(q); err == nil || err.Error() != "the domain is empty" {
		t.Errorf("no domain: got %v", err)
	}
}

func text(t *testing.T, a Answer) string {
	t.Helper()
	var b bytes.Buffer
	testenv.OK(t, a.WriteText(&b))
	return b.String()
}

// Each answer is in a file of testdata, some as JSON, too.
func TestExplain(t *testing.T) {
	inJSON := map[string]bool{"several": true, "too_many_hits": true, "nowhere": true, "unlimited": true, "bytes": true, "large": true, "replaced": true, "shadow_mode": true, "wildcard": true, "hidden": true, "in_memory": true, "ban": true, "in_flight": true, "below": true, "no_key": true, "calendar": true, "list": true, "network": true}
	levels := func(descriptor string) func(*Question) {
		return func(q *Question) {
			q.Tree, q.Descriptor = treeOf(t, "testdata/levels.yaml"), question(t, descriptor).Descriptor
		}
	}
	keys := testenv.Must(limiter.NewKeys("{weir}", true))(t)
	for name, change := range map[string]func(*Question){
		"several":       func(q *Question) { q.Descriptor = question(t, "user=alice").Descriptor },
		"too_many_hits": func(q *Question) { q.HitsAddend = units(30); q.Charge = limiter.Admitted },
		"charge":        func(q *Question) { q.HitsAddend = units(30) },
		"peek_auto":     func(q *Question) { q.HitsAddend = units(0) },
		"shadow_mode":   func(q *Question) { q.HitsAddend = units(30); q.ShadowMode = true },
		"quota_mode":    func(q *Question) { q.Descriptor = question(t, "user=alice,method=GET").Descriptor; q.QuotaMode = true },
		"peek": func(q *Question) {
			q.HitsAddend = units(0)
			q.Charge = limiter.Admitted
			q.Failure = limiter.FailureDeny
		},
		"wildcard":        func(q *Question) { q.Descriptor = question(t, "user=alice,path=/files/a").Descriptor },
		"digests":         func(q *Question) { q.Keys = keys },
		"whitelist":       func(q *Question) { q.Descriptor = question(t, "user=root").Descriptor },
		"unlimited":       func(q *Question) { q.Descriptor = question(t, "user=batch").Descriptor },
		"replaced":        func(q *Question) { q.Descriptor = question(t, "job=a").Descriptor },
		"closed":          func(q *Question) { q.Descriptor = question(t, "closed=a").Descriptor },
		"domain":          func(q *Question) { q.Domain = "shopping" },
		"nowhere":         func(q *Question) { q.Descriptor = question(t, "user=alice,path=/cart,x=y").Descriptor },
		"first_level":     func(q *Question) { q.Descriptor = question(t, "users=alice").Descriptor },
		"below_leaf":      func(q *Question) { q.Descriptor = question(t, "user=root,path=/").Descriptor },
		"hidden":          func(q *Question) { q.Descriptor = question(t, "tenant=acme,user=bob").Descriptor },
		"in_memory":       func(q *Question) { q.Descriptor, q.Redis, q.Cluster = question(t, "closed=a").Descriptor, false, false },
		"in_redis":        func(q *Question) { q.Descriptor, q.Cluster = question(t, "closed=a").Descriptor, false },
		"in_flight":       func(q *Question) { q.Descriptor = question(t, "request_id=abc,slow=a").Descriptor },
		"too_short":       func(q *Question) { q.Descriptor = question(t, "tenant=a").Descriptor },
		"large":           func(q *Question) { q.Descriptor = question(t, "tokens=a").Descriptor },
		"below":           levels("user=alice,path=/login"),
		"below_shared":    levels("user=alice,path=/files/a,method=GET"),
		"below_nothing":   levels("user=alice,path=/cart,x=y"),
		"below_unlimited": levels("user=alice,path=/free"),
		"below_whitelist": levels("user=alice,path=/health"),
		"below_replaced":  levels("user=alice,path=/export"),
		"no_key":          levels("nobody=x"),
		"override":        levels("tenant=acme"),
		"calendar":        func(q *Question) { q.Descriptor = question(t, "user=plan").Descriptor },
		"ban":             func(q *Question) { q.Descriptor = question(t, "login=a").Descriptor },
		"no_ban":          func(q *Question) { q.Descriptor, q.ShadowMode = question(t, "login=a").Descriptor, true },
		"bytes":           func(q *Question) { q.Descriptor = question(t, "user=\xff\"\x00 ").Descriptor },
		"list":            func(q *Question) { q.Descriptor = question(t, "team=blue,path=/v2/a").Descriptor },
		"network":         func(q *Question) { q.Descriptor = question(t, "from=::ffff:10.2.0.1").Descriptor },
		"narrower":        func(q *Question) { q.Descriptor = question(t, "from=10.1.0.1").Descriptor },
	} {
		t.Run(name, func(t *testing.T) {
			q := question(t, "user=alice")
			change(&q)
			a := explained(t, q)
			data := testenv.Must(json.MarshalIndent(a, "", "  "))(t)
			golden(t, "testdata/"+name+".txt", text(t, a))
			if inJSON[name] {
				golden(t, "testdata/"+name+".json", string(data)+"\n")
			}
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		testenv.OK(t, os.WriteFile(name, []byte(got), 0o644))
	}
	want := testenv.Must(os.ReadFile(name))(t)
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

// People are not shown a hundred thousand of what they might have meant, but
// those of the same key come first.
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

// A request is denied as the server denies the first one, whatever replaces
// whatever and whatever the server's switches are, and is charged if it charges it.
func TestDeniedAsByTheServer(t *testing.T) {
	for _, descriptor := range []string{"user=alice", "user=alice,path=/files/a", "job=a", "closed=a", "user=batch"} {
		for switches := range 4 {
			for hits := range uint64(40) {
				q := question(t, descriptor)
				q.ShadowMode, q.QuotaMode = switches&1 > 0, switches&2 > 0
				if hits > 0 {
					hits-- // of the descriptor itself, from 0 on
					q.HitsAddend = &hits
				}
				first, second := askTwice(t, q)
				a := explained(t, q)
				if denied := first.GetOverallCode() == ratelimitv3.RateLimitResponse_OVER_LIMIT; a.Denied != denied {
					t.Errorf("%v hits of %s: denied is %v, the server says %v", hits, descriptor, a.Denied, denied)
				}
				left, then := first.GetStatuses()[0].GetLimitRemaining(), second.GetStatuses()[0].GetLimitRemaining()
				if charged := len(a.Limits) == 1 && a.Limits[0].Decision != nil && a.Limits[0].Decision.Charged; charged && left > 0 && then >= left {
					t.Errorf("%v hits of %s: charged, but then the server has %d and %d left", hits, descriptor, left, then)
				}
			}
		}
	}
}

// askTwice asks a server with fresh counters twice.
func askTwice(t *testing.T, q Question) (first, second *ratelimitv3.RateLimitResponse) {
	t.Helper()
	reg := prometheus.NewRegistry()
	server := rls.New(rls.Options{
		Decider: &plan.Decider{
			Planner: plan.New(q.Options), Rules: func() *descriptors.Tree { return q.Tree },
			Store: memory.New(memory.Options{}), Usage: telemetry.New(telemetry.Options{Registerer: reg, Logger: slog.New(slog.DiscardHandler)}),
		},
		Registerer: reg,
		Logger:     slog.New(slog.DiscardHandler),
	}).JSONHandler()
	d := &commonv3.RateLimitDescriptor{}
	for _, e := range q.Descriptor {
		d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: e.Key, Value: e.Value})
	}
	if q.HitsAddend != nil {
		d.HitsAddend = wrapperspb.UInt64(*q.HitsAddend)
	}
	body := testenv.Must(protojson.Marshal(&ratelimitv3.RateLimitRequest{Domain: q.Domain, Descriptors: []*commonv3.RateLimitDescriptor{d}}))(t)
	first, second = new(ratelimitv3.RateLimitResponse), new(ratelimitv3.RateLimitResponse)
	for _, response := range []proto.Message{first, second} {
		w := httptest.NewRecorder()
		server.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/json", bytes.NewReader(body)))
		if err := protojson.Unmarshal(w.Body.Bytes(), response); err != nil {
			t.Fatalf("%v in %s", err, w.Body)
		}
	}
	return first, second
}
