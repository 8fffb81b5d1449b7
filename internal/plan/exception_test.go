package plan

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/limiter/memory"
	"weir/internal/limiter/redis"
	"weir/internal/testenv"
)

const exceptedRules = `
domain: api
descriptors:
  - {key: fixed_window, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: first_hit, rate_limit: {unit: year, requests_per_unit: 2, algorithm: first_hit}}
  - {key: calendar, rate_limit: {unit: year, requests_per_unit: 2, algorithm: calendar}}
  - {key: sliding_window, rate_limit: {unit: year, requests_per_unit: 2, algorithm: sliding_window}}
  - {key: token_bucket, rate_limit: {unit: year, requests_per_unit: 2, algorithm: token_bucket}}
  - {key: sliding_log, rate_limit: {unit: year, requests_per_unit: 2, algorithm: sliding_log}}
  - {key: concurrency, rate_limit: {unit: year, requests_per_unit: 2, algorithm: concurrency}}
  - {key: banned, rate_limit: {unit: year, requests_per_unit: 2, deny_for: 1h}}
  - key: user
    below: true
    rate_limit: {unit: year, requests_per_unit: 2}
    descriptors:
      - {key: path, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: shared, value: x*, share_threshold: true, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: quota, quota_mode: true, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: none, rate_limit: {unit: year, requests_per_unit: 0}}
  - {key: usual, rate_limit: {name: usual, unit: year, requests_per_unit: 0}}
  - {key: special, rate_limit: {unit: year, requests_per_unit: 0, replaces: [{name: usual}]}}
`

// world is a server with a store and with exceptions of operators.
type world struct {
	t       *testing.T
	planner *Planner
	tree    *descriptors.Tree
	store   limiter.Store
	holds   int
}

// inWorlds runs test with an empty store of each kind.
func inWorlds(t *testing.T, opts Options, test func(*world)) {
	for _, name := range []string{"memory", "redis"} {
		t.Run(name, func(t *testing.T) {
			opts := opts
			opts.Exceptions = new(atomic.Pointer[Exceptions])
			w := &world{t: t, planner: New(opts), tree: load(t, exceptedRules), store: memory.New(memory.Options{})}
			if name == "redis" {
				server := redis.Server{Addr: testenv.RedisServer(t).Addr(), Timeout: 20 * time.Second}
				s := redis.New(redis.Options{Main: server, Wait: server.Timeout, DenyMemory: 1 << 20})
				t.Cleanup(func() { s.Close() })
				w.store = s
			}
			test(w)
		})
	}
}

// except adds an exception with an effect such as "deny", "allow" or "3x".
func (w *world) except(effect string, words ...string) {
	w.t.Helper()
	e := &Exception{JSONDescriptor: NewJSONDescriptor("api", named(words...).Entries), Effect: Effect(effect)}
	if _, err := fmt.Sscanf(effect, "%gx", &e.Factor); err == nil {
		e.Effect = Amount
	}
	w.add(e)
}

// add adds e to the exceptions in force.
func (w *world) add(e *Exception) {
	e.Created, e.Until = time.Now(), time.Now().Add(time.Hour)
	w.planner.Exceptions.Store(NewExceptions(append(slices.Clone(w.planner.Exceptions.Load().All()), e)))
}

func (w *world) end() { w.planner.Exceptions.Store(nil) }

func (w *world) decide(domain string, ds ...Descriptor) *Result {
	w.t.Helper()
	res := new(Result)
	decide(w.t, w.planner, w.tree, w.store, &Request{Domain: domain, Descriptors: ds}, res)
	return res
}

// want sends a request until it is denied, at most 20 times, and checks the number of
// admissions.
func (w *world) want(when string, passing int, words ...string) {
	w.t.Helper()
	passed := 0
	for passed < 20 {
		d := named(words...)
		if d.Entries[0].Key == "concurrency" {
			w.holds++
			d.Entries = append(d.Entries, limiter.Entry{Key: "request_id", Value: fmt.Sprint(w.holds)})
		}
		if w.decide("api", d).Denied {
			break
		}
		passed++
	}
	testenv.Equal(w.t, passed, passing, "%s: requests of %q that passed", when, words)
}

const all = 20 // number of requests that want sends if none is denied

// A limit with a multiplied amount uses the same counter, with each algorithm, and bans do not
// apply.
func TestExceptionWithAmount(t *testing.T) {
	inWorlds(t, Options{}, func(w *world) {
		keys := append(limiter.AlgorithmNames(), "banned", "user")
		for _, key := range keys {
			used, unused := key+"=used", key+"=unused"
			w.want(key+" before", 2, used)
			w.want(key+" before, again", 0, used) // so that the store remembers the denial
			w.except("3x", used)
			w.except("0.5x", unused)
			w.want(key+" 3x", 4, used)
			w.want(key+" 0.5x", 1, unused)
			w.end()
			w.want(key+" after", 0, used)
			w.want(key+" after 0.5x", 1, unused)
		}
		w.except("1000x", "none=x")
		w.want("a thousand times nothing", 0, "none=x")
	})
}

// An exception also changes the limits of rules above and of overrides.
func TestExceptionWithAmountOfAllLimits(t *testing.T) {
	inWorlds(t, Options{}, func(w *world) {
		w.except("3x", "user=alice", "path=/")
		w.want("path and user", 3, "user=alice", "path=/")
		w.want("user alone, of which 3 are used", 0, "user=alice")
		w.except("3x", "user=bob")
		d := named("user=bob", "path=/x").with(Override{RequestsPerUnit: 1, Unit: limiter.Day})
		for i := range 4 {
			res := w.decide("api", d)
			if res.Denied != (i == 3) || res.Plan.Hits[0].Limit.RequestsPerUnit != 3 || res.Plan.Hits[1].Limit.RequestsPerUnit != 6 {
				w.t.Errorf("request %d: denied %t, hits %+v", i, res.Denied, res.Plan.Hits)
			}
			for o := range res.Outcomes(&Request{Domain: "api", Descriptors: []Descriptor{d}}) {
				if o.Exception == nil || o.Hit.Limit == res.Plan.Hits[1].Limit && (o.Rule == nil || o.Rule.Way() != "user") {
					w.t.Errorf("got outcome %+v", o)
				}
			}
		}
	})
}

// An allowed request passes and takes nothing, even if its limits are used up or ban it.
func TestExceptionThatAllows(t *testing.T) {
	inWorlds(t, Options{}, func(w *world) {
		for _, key := range append(limiter.AlgorithmNames(), "banned", "user", "quota") {
			w.want(key, 2, key+"=alice")
			w.except("allow", key+"=alice")
			w.except("allow", key+"=fresh")
			w.want(key+" allowed", all, key+"=alice")
			w.want(key+" allowed", all, key+"=fresh")
			w.want(key+" of another", 2, key+"=bob")
			w.end()
			w.want(key+" after", 0, key+"=alice")
			w.want(key+" after", 2, key+"=fresh")
		}
		w.except("allow", "none=x")
		w.want("a limit of 0", all, "none=x")
		if s := w.decide("api", named("none=x")).Statuses[0]; s.OverLimit || s.Limit != nil || s.Remaining == 0 {
			w.t.Errorf("got status %+v", s)
		}
	})
}

// If an exception allows a descriptor, the limits that the descriptor's limits replace stay
// replaced, so they cannot deny.
func TestExceptionForReplacingLimit(t *testing.T) {
	inWorlds(t, Options{}, func(w *world) {
		w.except("allow", "special=alice")
		if res := w.decide("api", named("usual=x"), named("special=alice")); res.Denied || len(res.Plan.Hits) != 0 {
			w.t.Errorf("allowed: denied %t, hits %+v", res.Denied, res.Plan.Hits)
		}
		if !w.decide("api", named("usual=x"), named("special=bob")).Denied || !w.decide("api", named("usual=x")).Denied {
			w.t.Error("others are not denied")
		}
	})
}

// A denied request takes nothing from any of its limits, even if it matches no rule.
func TestExceptionThatDenies(t *testing.T) {
	inWorlds(t, Options{}, func(w *world) {
		w.except("deny", "user=alice")
		w.except("deny", "nobody=x")
		for _, d := range []Descriptor{named("user=alice"), named("user=alice", "path=/", "x=y"), named("nobody=x")} {
			peek, tokens := d, d
			peek.HasHitsAddend = true
			tokens.HasHitsAddend, tokens.HitsAddend = true, 5 // without the exception, charged even if denied
			for _, d := range []Descriptor{d, peek, tokens, d, tokens} {
				res := w.decide("api", named("user=bob"), d)
				s := res.Statuses[1]
				if !res.Denied || !s.OverLimit || s.UntilReset > time.Hour || s.UntilReset < 50*time.Minute || res.RetryAfter() <= 0 || s.Limit.Series.Labels().Rule != "exception" {
					w.t.Errorf("%+v: denied %t, status %+v, retry after %v", d, res.Denied, s, res.RetryAfter())
				}
			}
		}
		w.end()
		w.want("after", 2, "user=alice")
		w.want("of the same requests", 2, "user=bob")

		e := &Exception{JSONDescriptor: NewJSONDescriptor("\xff", named("a=\xff").Entries), Effect: Deny}
		w.add(e)
		if res := w.decide("\xff", named("a=\xff", "b=c")); !res.Denied || res.Plan.Hits[0].Limit.Series.Domain() != "unknown" || *e.Used != 1 {
			w.t.Errorf("in a domain without rules: denied %t, %d uses, hits %+v", res.Denied, *e.Used, res.Plan.Hits)
		}
	})
}

// Exceptions apply to the values of requests, even if keys have digests or values share a counter.
func TestExceptionsOfHashedAndSharedKeys(t *testing.T) {
	keys := limiter.Keys{Digests: true}
	inWorlds(t, Options{Keys: keys}, func(w *world) {
		w.want("hashed", 2, "user=alice")
		w.except("3x", "user=alice")
		w.want("hashed, 3x", 4, "user=alice")
		w.end()
		w.except("deny", "user=carol")
		if res := w.decide("api", named("user=carol")); !res.Denied || strings.Contains(string(res.Plan.Hits[0].Key), "carol") {
			w.t.Errorf("denied %t with key %s", res.Denied, res.Plan.Hits[0].Key)
		}
		w.want("shared", 2, "shared=xa")
		w.except("2x", "shared=xb")
		w.want("shared, of another value", 2, "shared=xb")
		w.want("shared, without exception", 0, "shared=xa")
		w.except("allow", "shared=xa")
		w.want("shared, allowed", all, "shared=xa")
	})
}

// Requests in flight when an exception begins can release their holds. Requests that begin
// during an exception need no name for a hold.
func TestExceptionsAndHolds(t *testing.T) {
	inWorlds(t, Options{}, func(w *world) {
		for _, effect := range []string{"allow", "deny", "0.5x"} {
			user := "concurrency=" + strings.Trim(effect, "0.")
			w.want(effect, 2, user)
			held := []int{w.holds - 2, w.holds - 1}
			w.except(effect, user)
			for i, id := range held {
				ended := named(fmt.Sprint("request_id=", id), user)
				if i == 1 {
					ended = named(user, fmt.Sprint("request_id=", id))
				}
				ended.Refund = true
				if res := w.decide("api", ended); res.Denied || len(res.Plan.Hits) != 1 {
					w.t.Errorf("%s: what ends: denied %t, hits %+v", effect, res.Denied, res.Plan.Hits)
				}
			}
			if effect != "0.5x" {
				if res := w.decide("api", named(user)); res.Denied != (effect == "deny") {
					w.t.Errorf("%s without a name: denied %t", effect, res.Denied)
				}
			}
			w.end()
			w.want(effect+", after", 2, user)
		}
	})
}

// With SHADOW_MODE, an exception denies nothing, but the status shows it. QUOTA_MODE does not
// affect exceptions.
func TestExceptionsInModes(t *testing.T) {
	for _, shadow := range []bool{true, false} {
		inWorlds(t, Options{ShadowMode: shadow, QuotaMode: true}, func(w *world) {
			w.except("deny", "user=alice")
			res := w.decide("api", named("user=alice"), named("user=bob"))
			if res.Denied == shadow || res.WouldBeDenied != shadow || !res.Statuses[0].OverLimit {
				w.t.Errorf("shadow mode %t: denied %t, would be %t", shadow, res.Denied, res.WouldBeDenied)
			}
		})
	}
}
