package operators

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	goredis "github.com/redis/go-redis/v9"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/limiter/redis"
	"weir/internal/limiter/redis/conn"
	"weir/internal/plan"
	"weir/internal/testenv"
)

const assignedRules = `domain: api
descriptors:
  - key: tenant
    rate_limit: {unit: day, requests_per_unit: 100}
    descriptors: [{key: path, value: /x, rate_limit: {name: x, unit: hour, requests_per_unit: 7}}]
  - {key: two, rate_limit: [{name: day, unit: day, requests_per_unit: 10}, {name: hour, unit: hour, requests_per_unit: 5}]}
  - {key: shared, value: x*, share_threshold: true, rate_limit: {unit: day, requests_per_unit: 5}}
  - {key: above, below: true, rate_limit: {unit: day, requests_per_unit: 5}}
  - {key: bucket, rate_limit: {unit: year, requests_per_unit: 31536000, algorithm: token_bucket}}
  - {key: open}
  - {key: log, rate_limit: {unit: minute, requests_per_unit: 100, algorithm: sliding_log}}
`

const tooLong = "an amount of 11000 is too large for sliding_log, which keeps the time of each unit; at most 10000 is allowed, else use sliding_window, which estimates, or token_bucket, fixed_window, first_hit or calendar"

// use puts rules in use.
func (d *Desk) use(t *testing.T, rules string) {
	t.Helper()
	tree := load(t, rules)
	d.Tree = func() *descriptors.Tree { return tree }
}

// assigner returns a server with rules for assigned amounts, and its log.
func assigner(t *testing.T, shared EntryStore) (*Desk, *testenv.Log) {
	t.Helper()
	log := new(testenv.Log)
	logger := slog.New(slog.NewTextHandler(log, nil))
	d := &Desk{Logger: logger, InForce: NewExceptionStore(shared, prometheus.NewRegistry(), logger)}
	d.Plan.Assigned = d.InForce.Assigned()
	d.use(t, assignedRules)
	return d, log
}

// sharing is assigner for a server on a Redis, which stays open until the test ends.
func sharing(t *testing.T, o redis.Server) *Desk {
	t.Helper()
	shared := redis.OpenShared(o, "")
	t.Cleanup(func() { shared.Close() })
	d, _ := assigner(t, shared)
	return d
}

// assigned lists the amounts of a server as text.
func assigned(d *Desk) (list []string) {
	for _, a := range d.Assigned("", "", 1000).Assigned {
		text := a.Descriptor + ":" + a.Limit + ":" + string(a.Amount) + ":" + a.By + ":" + a.Note
		if a.NoRule != "" {
			text += " (" + a.NoRule + ")"
		}
		list = append(list, text)
	}
	return list
}

// TestSecondLoss empties Redis twice. The second time, a server changes an amount before it notices the loss.
func TestSecondLoss(t *testing.T) {
	r := testenv.RedisServer(t)
	o := redis.Server{Addr: r.Addr(), Timeout: 20 * time.Second}
	a, b, lines := sharing(t, o), sharing(t, o), ""
	for i := range 100 {
		lines += fmt.Sprintf("api,tenant=%d,,5\n", i)
	}
	testenv.Must(a.Assign(t.Context(), strings.NewReader(lines), How{CSV: true}))(t)
	testenv.OK(t, b.InForce.Load(t.Context()))
	r.Command("FLUSHALL")
	for _, d := range []*Desk{a, b, a} { // a restores the amounts
		testenv.OK(t, d.InForce.Load(t.Context()))
	}
	r.Command("FLUSHALL")
	id, part := plan.AssignedID("api", []limiter.Entry{{Key: "tenant", Value: "0"}}, "")
	testenv.OK(t, a.InForce.change(t.Context(), part, func() [][2]string { return [][2]string{{id, "7\n9999999999999\n\n\n"}} }))
	for _, d := range []*Desk{b, a, b} {
		testenv.OK(t, d.InForce.Load(t.Context()))
		if list := assigned(d); len(list) != 100 || list[0] != "tenant=0::7::" && d == a {
			t.Errorf("%d amounts, the first is %s", len(list), list[0])
		}
	}
}

// TestAssign assigns amounts line by line, with and without Redis.
func TestAssign(t *testing.T) {
	shared := redis.OpenShared(redis.Server{Addr: testenv.RedisServer(t).Addr(), Timeout: 20 * time.Second}, "")
	defer shared.Close()
	for name, store := range map[string]EntryStore{"redis": shared, "memory": nil} {
		t.Run(name, func(t *testing.T) {
			d, log := assigner(t, store)
			for i, step := range []struct {
				how  How
				body string
				want string // numbers of added, changed, unchanged, removed, refused and unpruned, then refusals
				list string
			}{
				{How{CSV: true}, "domain,descriptor,limit,amount,note\napi,tenant=a,,5000,contract 1\napi, tenant=b,, unlimited\napi,\"tenant=c,path=/x\",,0,\n\napi,two=z,hour,9\n", "4 0 0 0 0 0", "tenant=a::5000:me:contract 1, tenant=b::unlimited:me:, tenant=c,path=/x:x:0:me:, two=z:hour:9:me:"},
				{How{CSV: true}, "api,tenant=a,,5000\napi,tenant=b,,7,new\napi,\"tenant=c,path=/x\",x,0,", "0 1 2 0 0 0", "tenant=a::5000:me:contract 1, tenant=b::7:me:new, tenant=c,path=/x:x:0:me:, two=z:hour:9:me:"},
				{How{CSV: true}, "api,tenat=a,,5\nap,tenant=a,,5\napi,two=z,,5\napi,two=z,hours,5\napi,shared=xy,,5\napi,\"above=a,x=y\",,5\napi,open=a,,5\napi,tenant=a,,5x\napi,tenant=a,,5,a,b\napi,=,,5\n\"", "0 0 0 0 11 0" +
					"\n1: leads to no rule: below the domain nothing matches tenat=a (did you mean tenant=a?)\n2: leads to no rule: there are no rules for the domain \"ap\", did you mean \"api\"?\n3: the rule api|two has 2 limits: name one of [\"day\" \"hour\"]" +
					"\n4: the rule api|two has no limit \"hours\", only [\"day\" \"hour\"]; did you mean \"hour\"?\n5: the rule api|shared=x* has one counter for several values\n6: leads to no rule of its own, only to the limits of api|above above: assign to above=a" +
					"\n7: the rule api|open has no limit\n8: \"5x\" is not an amount; use 0 to 1125899906842624, or unlimited\n9: it has 6 columns, at most 5 are allowed: domain, descriptor, limit, amount, note; put a value with a comma in double quotes" +
					"\n10: descriptor \"=\": entry 1 has no key\n11: extraneous or missing \" in quoted-field", ""},
				{How{Add: true}, `{"domain":"api","descriptor":"tenant=p","amount":1000,"id":"pay 1"}` + "\n\n" + `{"domain":"api","descriptor":"tenant=p","amount":"1000","id":"pay 2","note":"n"}`, "1 1 0 0 0 0", ""},
				{How{Add: true}, `{"domain":"api","descriptor":"tenant=p","amount":1000,"id":"pay 1"}` + "\n" + `{"domain":"api","descriptor":"tenant=p","amount":1125899906842624}` + "\n" + `{"domain":"api","descriptor":"tenant=p","amount":"unlimited"}` + "\n" + `{"domain":"api"`, "0 0 1 0 3 0\n2: the sum is more than 1125899906842624\n3: \"unlimited\" is not an amount; use 0 to 1125899906842624\n4: unexpected EOF", "tenant=a::5000:me:contract 1, tenant=b::7:me:new, tenant=c,path=/x:x:0:me:, tenant=p::2000:me:n, two=z:hour:9:me:"},
				{How{Remove: true, CSV: true}, "api,two=z,hour\napi,\"tenant=c,path=/x\"", "0 0 0 2 0 0", "tenant=a::5000:me:contract 1, tenant=b::7:me:new, tenant=p::2000:me:n"},
				{How{Remove: true, CSV: true}, "api,two=z,hour", "0 0 0 0 1 0\n1: nothing is assigned", ""},
				{How{CSV: true, Prune: true}, "api,tenant=a,,5000\napi,tenant=b,,8\n", "0 1 1 0 0 1", ""},
				{How{CSV: true, Prune: true, Yes: true}, "api,tenant=a,,5000\napi,tenant=b,,8\n\"", "0 0 2 0 1 1\n3: extraneous or missing \" in quoted-field", ""},
				{How{CSV: true, Prune: true, Yes: true}, "api,tenant=a,,5000\napi,tenant=b,,x\n", "0 0 1 0 1 2\n2: \"x\" is not an amount; use 0 to 1125899906842624, or unlimited", ""},
				{How{CSV: true, Prune: true, Yes: true}, "api,tenant=a,,5000\napi,tenat=b,,8\n", "0 0 1 0 1 2\n2: leads to no rule: below the domain nothing matches tenat=b (did you mean tenant=b?)", "tenant=a::5000:me:contract 1, tenant=b::8:me:new, tenant=p::2000:me:n"},
				{How{CSV: true, Prune: true, Yes: true}, "\xef\xbb\xbfdomain,descriptor,limit,amount\napi,tenant=a,,5000\napi,tenant=b,,8\n", "0 0 2 1 0 0", "tenant=a::5000:me:contract 1, tenant=b::8:me:new"},
				{How{CSV: true}, "api,tenant=caf\xe9,,5", "0 0 0 0 1 0\n1: it is not UTF-8; write other bytes as \\x and two digits", ""},
				{How{}, `{"domain":"api","descriptor":"tenant=b","amount":8,"id":"c1"}` + "\n" + `{"domain":"api","descriptor":"tenant=b","amount":"unlimited"}` + "\n" + `{"domain":"api","descriptor":"tenant=b","amount":8,"id":"c1"}`, "0 1 2 0 0 0", "tenant=a::5000:me:contract 1, tenant=b::unlimited:me:new"},
				{How{Add: true}, `{"domain":"api","descriptor":"tenant=b","amount":1,"id":"p1"}`, "0 0 1 0 0 0", ""},
				{How{}, `{"domain":"api","descriptor":"tenant=b","amount":8}` + "\n" + `{"domain":"api","descriptor":"log=a","amount":9000}`, "1 1 0 0 0 0", ""},
				{How{Add: true}, `{"domain":"api","descriptor":"tenant=b","amount":1,"id":"p1"}` + "\n" + `{"domain":"api","descriptor":"log=a","amount":2000}`, "0 0 1 0 1 0\n2: " + tooLong, "log=a::9000:me:, tenant=a::5000:me:contract 1, tenant=b::8:me:new"},
				{How{CSV: true}, "api,tenant=a,minut,5", "0 0 0 0 1 0\n1: the limit of the rule api|tenant has no name: omit \"minut\"", ""},
				{How{CSV: true}, "amount,note,descriptor, domain\n 9 ,n,log=a,api\n7,,log=a,api,x\n", "0 1 0 0 1 0\n3: it has 5 columns, at most 4 are allowed: amount, note, descriptor, domain; put a value with a comma in double quotes", "log=a::9:me:n, tenant=a::5000:me:contract 1, tenant=b::8:me:new"},
				{How{CSV: true, Prune: true, Yes: true}, "api,tenant=a,,5000\napi,\"log=a\",,8\napi,tenant=a,,1", "0 1 1 0 1 1\n3: line 1 assigns to the same limit", "log=a::8:me:n, tenant=a::5000:me:contract 1, tenant=b::8:me:new"},
				{How{CSV: true}, "api,\"tenant=c,path=/x\",,3\napi,\"tenant=c,path=/x\",x,4", "1 0 0 0 1 0\n2: line 1 assigns to the same limit", ""},
				{How{Remove: true, CSV: true}, "descriptor,domain\nlog=a,api\n\"tenant=c,path=/x\",api", "0 0 0 2 0 0", "tenant=a::5000:me:contract 1, tenant=b::8:me:new"},
			} {
				step.how.By = "me"
				got, err := d.Assign(t.Context(), strings.NewReader(step.body), step.how)
				testenv.OK(t, err)
				text := fmt.Sprint(got.Added, got.Changed, got.Unchanged, got.Removed, got.Refused, got.Unpruned)
				for _, r := range got.Refusals {
					text += fmt.Sprintf("\n%d: %s", r.Line, r.Reason)
				}
				if list := strings.Join(assigned(d), ", "); text != step.want || step.list != "" && list != step.list {
					t.Errorf("step %d: got %s\nwith %s, want %s\nwith %s", i, text, list, step.want, step.list)
				}
				testenv.Equal(t, got.Note != "", store == nil, "step %d: there is a note", i)
				testenv.Equal(t, got.Last != nil, got.Added+got.Changed == 1 && got.Removed == 0, "step %d: it shows the amount", i)
			}
			if text := log.String(); strings.Count(text, "amounts assigned") != 12 || !strings.Contains(text, `removed=1 domain=api descriptor="tenant=p" amount=2000`) || !strings.Contains(text, `audit=true by=me`) {
				t.Errorf("the log is\n%s", text)
			}
			d.use(t, "domain: x")
			if got := assigned(d); len(got) != 2 || !strings.HasPrefix(got[0], "tenant=a::5000:me:contract 1 (leads to no rule: ") {
				t.Errorf("without its rule: %q", got)
			}
			if _, err := d.Assign(t.Context(), strings.NewReader("api,tenant=a"), How{CSV: true, Remove: true}); err != nil || len(assigned(d)) != 1 {
				t.Errorf("%q is left (error: %v)", assigned(d), err)
			}
		})
	}
}

// TestBadHeader checks that nothing is assigned if the names of columns are invalid.
func TestBadHeader(t *testing.T) {
	d, _ := assigner(t, nil)
	for header, want := range map[string]string{
		"domain,descriptor,amount,tenant": `first line: the column "tenant" is unknown or repeated; use domain, descriptor, limit, amount, note`,
		"domain,descriptor,amount,amount": `first line: the column "amount" is unknown or repeated; use domain, descriptor, limit, amount, note`,
		"domain,descriptor":               "first line: the column amount is missing",
		"amount,descriptor":               "first line: the column domain is missing",
		"domain,amount,limit,note":        "first line: the column descriptor is missing",
	} {
		if _, err := d.Assign(t.Context(), strings.NewReader(header+"\napi,tenant=a,5,5"), How{CSV: true}); !errors.Is(err, ErrBadRequest) || err.Error() != want {
			t.Errorf("%s: got %v, want %s", header, err, want)
		}
	}
	testenv.EqualLists(t, assigned(d), nil, "assigned amounts")
}

// TestRepeatedLines repeats a change with the same ID and another amount, and with an amount that the rule
// can no longer count.
func TestRepeatedLines(t *testing.T) {
	d, _ := assigner(t, nil)
	assign := func(amount int, id string) AssignedChanges {
		return testenv.Must(d.Assign(t.Context(), strings.NewReader(fmt.Sprintf(`{"domain":"api","descriptor":"tenant=a","amount":%d,"id":%q}`, amount, id)), How{}))(t)
	}
	assign(11_000, "sale 1")
	if got := assign(12_000, "sale 1"); got.Unchanged != 1 || got.Repeated != 1 {
		t.Errorf("with the id of another change: %+v", got)
	}
	if got := assign(11_000, "sale 2"); got.Unchanged != 1 || got.Repeated != 0 {
		t.Errorf("with a new id: %+v", got)
	}
	d.use(t, strings.Replace(assignedRules, "unit: day, requests_per_unit: 100}", "unit: day, requests_per_unit: 100, algorithm: sliding_log}", 1))
	for _, id := range []string{"", "sale 3"} {
		if got := assign(11_000, id); got.Refused != 1 || got.Refusals[0].Reason != tooLong {
			t.Errorf("with the id %q and a rule that cannot count it: %+v", id, got)
		}
	}
	testenv.EqualLists(t, assigned(d), []string{"tenant=a::11000::"}, "assigned amounts")
}

// TestPruneKeepsLaterChanges assigns amounts that are not in the file that is being read.
func TestPruneKeepsLaterChanges(t *testing.T) {
	d, _ := assigner(t, nil)
	assign := func(body string) {
		testenv.Must(d.Assign(t.Context(), strings.NewReader(body), How{CSV: true}))(t)
	}
	assign("api,tenant=old,,1\napi,tenant=raised,,1\napi,tenant=gone,,1\n")
	in, out := io.Pipe()
	done := make(chan AssignedChanges, 1)
	go func() {
		got, _ := d.Assign(t.Context(), in, How{CSV: true, Prune: true, Yes: true})
		done <- got
	}()
	_, err := out.Write([]byte("api,tenant=old,,1\n")) // returns once the line is read
	testenv.OK(t, err)
	assign("api,tenant=sold,,9\napi,tenant=raised,,9\n")
	testenv.OK(t, out.Close())
	if got := <-done; got.Removed != 1 || strings.Join(assigned(d), " ") != "tenant=old::1:: tenant=raised::9:: tenant=sold::9::" {
		t.Errorf("%d removed, %q stay", got.Removed, assigned(d))
	}
}

// TestPrepaidWhileRedisFails adds to amounts on two servers while Redis is frozen, emptied, killed, set back
// to an older state, and killed again, so that a replica takes its place. A change without an answer is repeated with the same ID. All
// amounts must be the sum of the changes.
func TestPrepaidWhileRedisFails(t *testing.T) {
	t.Parallel()
	const changes, tenants = 10_000, 500
	r := testenv.RedisServer(t)
	testenv.RedisReplica(t, r)
	sentinel := testenv.RedisSentinel(t, r, "sentinel down-after-milliseconds weir 600000") // only the test starts a failover
	admin, watcher := goredis.NewClient(&goredis.Options{Addr: r.Addr()}), goredis.NewClient(&goredis.Options{Addr: sentinel.Addr()})
	defer watcher.Close()
	defer admin.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var desks []*Desk
	var running, workers sync.WaitGroup
	for range 2 {
		d := sharing(t, redis.Server{Type: conn.Sentinel, Primary: "weir", Addr: sentinel.Addr(), Timeout: time.Second})
		desks = append(desks, d)
		running.Go(func() { d.InForce.Run(ctx, func() {}) })
	}
	defer running.Wait()
	defer cancel()
	var made, repeated atomic.Int64
	for w := range 8 {
		random := rand.New(rand.NewPCG(uint64(w), 3))
		workers.Go(func() {
			for made.Add(1) <= changes {
				line := fmt.Sprintf(`{"domain":"api","descriptor":"tenant=%d","amount":1,"id":"%d"}`, random.IntN(tenants), random.Uint64())
				for {
					done, err := desks[w%2].Assign(ctx, strings.NewReader(line), How{Add: true})
					if err == nil && done.Refused == 0 {
						break
					}
					repeated.Add(1)
					time.Sleep(10 * time.Millisecond) // a stopped Redis fails immediately
				}
			}
		})
	}
	after := func(n int64) { testenv.Until(t, fmt.Sprint(n, " changes"), func() bool { return made.Load() >= n }) }
	after(2000)
	r.Pause()
	time.Sleep(1200 * time.Millisecond) // longer than the timeout
	r.Resume()
	after(4000)
	testenv.OK(t, admin.FlushAll(ctx).Err())
	after(6000)
	r.Stop()
	r.Start()
	after(8000)
	keys := testenv.Must(admin.Keys(ctx, "*").Result())(t)
	old := testenv.Must(admin.TxPipelined(ctx, func(p goredis.Pipeliner) error { // all in one transaction
		for _, key := range keys {
			p.Dump(ctx, key)
		}
		return nil
	}))(t)
	after(8200)
	_, err := admin.TxPipelined(ctx, func(p goredis.Pipeliner) error {
		for i, key := range keys {
			p.RestoreReplace(ctx, key, 0, old[i].(*goredis.StringCmd).Val())
		}
		return nil
	})
	testenv.OK(t, err)
	after(9000)
	r.Stop()
	testenv.Until(t, "the replica takes over", func() bool {
		_ = watcher.Do(ctx, "sentinel", "failover", "weir").Err() // fails during a failover
		return made.Load() >= 9500
	})
	workers.Wait()
	for i, d := range desks {
		testenv.OK(t, d.InForce.Load(t.Context()))
		sum := 0
		for _, a := range d.Assigned("", "", tenants+1).Assigned {
			n, _ := plan.ParseAmount(string(a.Amount))
			sum += int(n)
		}
		testenv.Equal(t, sum, changes, "server %d: the sum", i)
	}
	if repeated.Load() == 0 {
		t.Error("no change was repeated")
	}
}
