package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
	"weir/internal/limiter/redisstore/redisconn"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

// checked compares each denial from memory with what a store without memory says,
// which it returns. Denied requests take nothing, so that it can be asked again.
type checked struct {
	*testing.T
	store, plain limiter.Store
	remembered   atomic.Int64 // denials from memory
}

// openChecked returns a store with a memory. The other one shares it, but does not
// deny by it: what it brings back after a step of the clock, this process knows.
func openChecked(t *testing.T, o Options) *checked {
	plain := open(t, o)
	o.DenyMemory = 1 << 20
	store := open(t, o)
	for _, b := range plain.backends() {
		b.denials = store.denials
	}
	return &checked{T: t, store: store, plain: plain}
}

func (c *checked) Decide(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (bool, error) {
	denied, err := c.store.Decide(ctx, hits, out)
	got := slices.Clone(out)
	if err != nil || !slices.ContainsFunc(got, func(d limiter.Decision) bool { return d.Remembered }) {
		return denied, err
	}
	c.remembered.Add(1)
	denied, err = c.plain.Decide(ctx, hits, out)
	if !denied {
		c.Errorf("%+v is denied from memory: %+v; Redis says %+v, error %v", hits, got, out, err)
	}
	for i, d := range got {
		same := out[i]
		same.Remembered = same.Over
		if d != same {
			c.Errorf("hit %d of %+v: from memory %+v, from Redis %+v", i, hits, d, same)
		}
	}
	return denied, err
}

// TestMemoryOfDenialsChangesNoDecision runs the suite, and long random histories,
// on a store with a memory. As long as one process asks, nobody can tell.
func TestMemoryOfDenialsChangesNoDecision(t *testing.T) {
	var c *checked
	store := func(t *testing.T, now func() time.Time) limiter.Store {
		c = openChecked(t, Options{Main: at(miniredis.RunT(t).Addr()), Now: now, OneClock: true})
		return c
	}
	storetest.Run(t, store)
	storetest.Differential(t, store, 7, 20_000)
	if c.remembered.Load() == 0 {
		t.Error("nothing was denied from memory")
	}
}

// memoryFixture is a store that counts by Redis' clock and remembers by one that
// the test sets, beside a second store without memory, as another process.
type memoryFixture struct {
	*testing.T
	store, other *Store
	redis        *testenv.Redis
	reg          *prometheus.Registry
	mu           sync.Mutex
	now          time.Time
}

func newMemoryFixture(t *testing.T) *memoryFixture {
	f := &memoryFixture{T: t, redis: testenv.RedisServer(t), reg: prometheus.NewRegistry(), now: time.Now()}
	f.store = open(t, Options{Main: at(f.redis.Addr()), Registerer: f.reg})
	f.store.denials = newDenials(1<<20, f.clock)
	f.store.main.denials, f.store.main.local = f.store.denials, f.clock
	f.other = open(t, Options{Main: at(f.redis.Addr())})
	return f
}

func (f *memoryFixture) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *memoryFixture) pass(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

// ask decides a request and tells how many calls it cost.
func (f *memoryFixture) ask(hits ...limiter.Hit) (out []limiter.Decision, denied bool, calls int) {
	f.Helper()
	before := value(f, f.reg, "weir_redis_calls_total", "")
	out = make([]limiter.Decision, len(hits))
	denied, err := f.store.Decide(f.Context(), hits, out)
	if err != nil {
		f.Fatalf("Decide: %v", err)
	}
	return out, denied, int(value(f, f.reg, "weir_redis_calls_total", "") - before)
}

// want asks and compares.
func (f *memoryFixture) want(what string, denied bool, calls int, hits ...limiter.Hit) []limiter.Decision {
	f.Helper()
	out, gotDenied, gotCalls := f.ask(hits...)
	if gotDenied != denied || gotCalls != calls {
		f.Errorf("%s: denied %t with %d calls, want %t with %d", what, gotDenied, gotCalls, denied, calls)
	}
	return out
}

func hit(key string, l *limiter.Limit, cost uint64) limiter.Hit {
	return limiter.Hit{Limit: l, Key: []byte(key), Cost: cost}
}

func yearly(amount uint32) *limiter.Limit {
	return storetest.Must(limiter.Spec{RequestsPerUnit: amount, Unit: limiter.Year})
}

func TestKnownDenialCostsNoCall(t *testing.T) {
	f := newMemoryFixture(t)
	user, tenant := hit("user", yearly(2), 1), hit("tenant", yearly(10), 1)
	f.want("first", false, 1, tenant, user)
	f.want("second", false, 1, tenant, user)
	f.want("third, which Redis denies", true, 1, tenant, user)
	for range 5 {
		out := f.want("known", true, 0, tenant, user)
		if d := out[0]; d.Over || d.Remembered || d.Charged || d.Used != 2 || d.Remaining != 8 {
			t.Errorf("the tenant: got %+v, want what was seen last", d)
		}
		if d := out[1]; !d.Over || !d.Remembered || d.Charged || d.Used != 2 || d.Remaining != 0 || d.RetryAfter <= 0 {
			t.Errorf("the user: got %+v", d)
		}
	}
	f.want("peek", true, 0, tenant, hit("user", user.Limit, 0))
	f.want("another user", false, 1, tenant, hit("other", user.Limit, 1))
	f.want("the user alone", true, 0, user)

	f.pass(time.Second)
	f.want("after a second", true, 0, user)
	f.pass(time.Microsecond)
	f.want("after that, which asks again", true, 1, user)
	f.want("then known again", true, 0, user)
	f.pass(-time.Hour)
	f.want("the clock was put back", true, 1, user)
}

// TestUnseenCountersDoNotHideADenial has a client that is over vary another value.
func TestUnseenCountersDoNotHideADenial(t *testing.T) {
	f := newMemoryFixture(t)
	over := hit("user", yearly(1), 1)
	f.want("first", false, 1, over)
	f.want("denied", true, 1, over)
	for i := range 20 {
		out := f.want("beside a new counter", true, 0, hit(fmt.Sprint("path ", i), yearly(3), 1), over)
		if d := out[0]; d.Over || d.Remembered || d.Charged || d.Used != 0 || d.Remaining != 3 {
			t.Errorf("the new counter: got %+v, want it unused", d)
		}
		if d := out[1]; !d.Over || !d.Remembered || d.Used != 1 {
			t.Errorf("the user: got %+v", d)
		}
	}
	many := []limiter.Hit{over}
	for i := range 100 {
		many = append(many, hit(fmt.Sprint("path ", i), yearly(3), 1))
	}
	f.want("beside many", true, 0, many...)
	f.want("a charge in any case", true, 1, limiter.Hit{Limit: yearly(3), Key: []byte("usage"), Cost: 1, Always: true}, over)

	quota := func(key string, amount uint32) limiter.Hit {
		h := hit(key, yearly(amount), 1)
		h.Mode = limiter.Quota
		return h
	}
	f.want("a quota that is not over", false, 1, quota("user", 1), quota("b", 3))
	f.want("nothing that was seen is over", true, 1, quota("user", 1), quota("c", 0))
}

// TestKnownDenialTellsWhatWasSeenOfOthers denies a request for one of its counters,
// beside others of which this process has seen admitted requests only.
func TestKnownDenialTellsWhatWasSeenOfOthers(t *testing.T) {
	f := &memoryFixture{T: t, reg: prometheus.NewRegistry(), now: time.Date(2030, 1, 1, 12, 0, 9, 0, time.UTC)}
	f.store = open(t, Options{Main: at(miniredis.RunT(t).Addr()), Registerer: f.reg, DenyMemory: 1 << 20, Now: f.clock})
	limit := func(amount uint32, unit limiter.Unit) *limiter.Limit {
		return storetest.Must(limiter.Spec{RequestsPerUnit: amount, Unit: unit})
	}
	a, b, c := hit("a", limit(1, limiter.Minute), 1), hit("b", limit(1, limiter.Day), 1), hit("c", limit(5, limiter.Day), 1)
	f.want("b", false, 1, b)
	f.want("c", false, 1, c)
	f.want("a", false, 1, a)
	f.want("a again", true, 1, a)
	for _, what := range []string{"all", "all again"} {
		out := f.want(what, true, 0, a, b, c)
		if d := out[0]; !d.Over || d.RetryAfter != 51*time.Second {
			t.Errorf("%s: a: got %+v, want it over for 51 s", what, d)
		}
		if d := out[1]; !d.Over || !d.Remembered || d.Charged || d.Remaining != 0 || d.RetryAfter != 12*time.Hour-9*time.Second {
			t.Errorf("%s: b: got %+v, want it over until midnight", what, d)
		}
		if d := out[2]; d.Over || d.Charged || d.Used != 1 || d.Remaining != 4 {
			t.Errorf("%s: c: got %+v, want 4 remaining", what, d)
		}
	}
	f.want("c gives back", false, 1, limiter.Hit{Limit: c.Limit, Key: c.Key, Cost: 1, Refund: true})
	if d := f.want("after that", true, 0, a, c)[1]; d.Used != 0 || d.Remaining != 5 {
		t.Errorf("c: got %+v, want 5 remaining", d)
	}
	f.want("what is told denies nobody", true, 1, b)
}

func TestKnownDenialTellsTheTime(t *testing.T) {
	f := &memoryFixture{T: t, reg: prometheus.NewRegistry(), now: time.Now()}
	r := miniredis.RunT(t) // where no time passes by itself
	f.store = open(t, Options{Main: at(r.Addr()), Registerer: f.reg, DenyMemory: 1 << 20, Now: f.clock, OneClock: true})
	l := storetest.Must(limiter.Spec{RequestsPerUnit: 3600, Unit: limiter.Hour, Algorithm: limiter.TokenBucket, Burst: 1})
	f.want("first", false, 1, hit("k", l, 1))
	for _, c := range []struct {
		after, want time.Duration
		calls       int
	}{
		{0, time.Second, 1},
		{300 * time.Millisecond, 700 * time.Millisecond, 0},
		{600 * time.Millisecond, 100 * time.Millisecond, 0},
	} {
		f.pass(c.after)
		if got := f.want("denied", true, c.calls, hit("k", l, 1))[0].RetryAfter; got != c.want {
			t.Errorf("%v later: got retry after %v, want %v", c.after, got, c.want)
		}
	}
	f.pass(100 * time.Millisecond)
	f.want("the time has come", false, 1, hit("k", l, 1))
}

// TestFaultCacheDeniesTooMuch is about what a cache of denials must not do:
// hold on to a denial that no longer holds, for what this process can know.
func TestFaultCacheDeniesTooMuch(t *testing.T) {
	two := yearly(2)
	for _, c := range []struct {
		name   string
		change func(f *memoryFixture)
		ask    limiter.Hit
		denied bool
	}{
		{"nothing changed", func(*memoryFixture) {}, hit("k", two, 1), true},
		{"limit raised", func(*memoryFixture) {}, hit("k", yearly(3), 1), false},
		{"limit raised, not enough", func(*memoryFixture) {}, hit("k", yearly(3), 2), true},
		{"other rule, other counter", func(*memoryFixture) {}, hit("k2", two, 1), false},
		{"limit no longer enforced", func(*memoryFixture) {}, hit("k", storetest.Must(limiter.Spec{RequestsPerUnit: 2, Unit: limiter.Year, Mode: limiter.Shadow}), 1), false},
		{"given back by this process", func(f *memoryFixture) {
			f.want("refund", false, 1, limiter.Hit{Limit: two, Key: []byte("k"), Cost: 1, Refund: true})
		}, hit("k", two, 1), false},
		{"given back by another, within a second", func(f *memoryFixture) { giveBackByOther(f, two) }, hit("k", two, 1), true},
		{"given back by another, a second later", func(f *memoryFixture) { giveBackByOther(f, two); f.pass(maxMemory + 1) }, hit("k", two, 1), false},
		{"deleted, a second later", func(f *memoryFixture) { do(f, connect(f, f.redis), "del", "k"); f.pass(maxMemory + 1) }, hit("k", two, 1), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newMemoryFixture(t)
			f.want("first", false, 1, hit("k", two, 2))
			f.want("second", true, 1, hit("k", two, 1))
			c.change(f)
			if _, denied, _ := f.ask(c.ask); denied != c.denied {
				t.Errorf("denied %t, want %t", denied, c.denied)
			}
		})
	}
}

func giveBackByOther(f *memoryFixture, l *limiter.Limit) {
	out := make([]limiter.Decision, 1)
	if _, err := f.other.Decide(f.Context(), []limiter.Hit{{Limit: l, Key: []byte("k"), Cost: 1, Refund: true}}, out); err != nil {
		f.Fatal(err)
	}
}

func TestSmallerCostIsAskedFor(t *testing.T) {
	f := newMemoryFixture(t)
	l := yearly(10)
	f.want("7 of 10", false, 1, hit("k", l, 7))
	f.want("5 more", true, 1, hit("k", l, 5))
	f.want("4, known not to fit", true, 0, hit("k", l, 4))
	f.want("3, which fit", false, 1, hit("k", l, 3))
	f.want("1 more, of which is known that nothing is left", true, 0, hit("k", l, 1))
}

func TestChargesAreWrittenThoughTheDenialIsKnown(t *testing.T) {
	f := newMemoryFixture(t)
	l := yearly(2)
	f.want("first", false, 1, hit("k", l, 2))
	f.want("denied", true, 1, hit("k", l, 1))
	charge := limiter.Hit{Limit: l, Key: []byte("k"), Cost: 5, Always: true}
	if d := f.want("charge", true, 1, charge)[0]; d.Used != 7 || !d.Charged {
		t.Errorf("got %+v, want 7 used", d)
	}
	if d := f.want("known", true, 0, hit("k", l, 1))[0]; d.Used != 7 {
		t.Errorf("got %+v, want what the charge left", d)
	}
}

func TestPeeksOfKnownDenials(t *testing.T) {
	f := newMemoryFixture(t)
	l := yearly(2)
	lenient := limiter.Hit{Limit: l, Key: []byte("k"), Always: true}
	f.want("first", false, 1, hit("k", l, 2))
	f.want("denied", true, 1, hit("k", l, 1))
	f.want("a peek, which asks for one more", true, 0, hit("k", l, 0))
	f.want("a peek of what is charged always, which does not", false, 1, lenient)
	f.want("charge", true, 1, limiter.Hit{Limit: l, Key: []byte("k"), Cost: 1, Always: true})
	f.want("such a peek when too much is used", true, 0, lenient)
}

func TestQuotaAndShadowHitsOfKnownDenials(t *testing.T) {
	f := newMemoryFixture(t)
	quota := func(key string) limiter.Hit {
		h := hit(key, yearly(1), 1)
		h.Mode = limiter.Quota
		return h
	}
	shadow := hit("s", yearly(1), 1)
	shadow.Mode = limiter.Shadow
	f.want("both quotas", false, 1, quota("a"), quota("b"), shadow)
	f.want("both over", true, 1, quota("a"), quota("b"), shadow)
	out := f.want("known", true, 0, quota("a"), quota("b"), shadow)
	if !out[0].Over || !out[1].Over || !out[2].Over {
		t.Errorf("got %+v", out)
	}
	f.want("one quota that is left", false, 1, quota("a"), quota("c"), shadow)
}

func TestDenialsOfOneCounterTwice(t *testing.T) {
	f := newMemoryFixture(t)
	l := yearly(3)
	f.want("2 + 2 of 3", true, 1, hit("k", l, 2), hit("k", l, 2))
	f.want("known", true, 0, hit("k", l, 2), hit("k", l, 2))
	f.want("1 + 2 of 3", false, 1, hit("k", l, 1), hit("k", l, 2))
}

func TestKnownDenialsGoOnWithoutRedis(t *testing.T) {
	f := newMemoryFixture(t)
	l := yearly(1)
	f.want("first", false, 1, hit("k", l, 1))
	f.want("denied", true, 1, hit("k", l, 1))
	f.redis.Stop()
	f.want("without Redis", true, 0, hit("k", l, 1))
	if _, err := ask(t.Context(), f.store, "other", l); err == nil {
		t.Error("a counter that is not known was decided without Redis")
	}
}

func TestMemoryIsBounded(t *testing.T) {
	now := time.Now()
	const key = 22 // bytes
	d := newDenials(100*(denialBytes+key), func() time.Time { return now })
	l := yearly(1)
	deny := func(key string) {
		b := &batch{asked: now, reply: reply{now: now.UnixMicro()}}
		d.note(b, 0, []limiter.Hit{hit(key, l, 1)}, []limiter.State{{At: 1, Used: 1}}, true)
	}
	count := func() (n int) {
		for i := range d.shards {
			n += len(d.shards[i].counters)
		}
		return n
	}
	for i := range 10_000 {
		deny(fmt.Sprintf("%0*d", key, i))
	}
	if n := count(); n > 100 || n < 50 || int64(n) != d.used.Load() {
		t.Errorf("%d counters are remembered, by its own count %d, want 100 at most", n, d.used.Load())
	}
	// What has expired goes first: with room for it, something new stays.
	now = now.Add(2 * maxMemory)
	for i := range 50 {
		deny(fmt.Sprintf("new%0*d", key-3, i))
	}
	known := 0
	for i := range 50 {
		if _, ok := d.seen(fmt.Appendf(nil, "new%0*d", key-3, i), now); ok {
			known++
		}
	}
	if known < 40 {
		t.Errorf("%d of 50 new counters are remembered beside old ones", known)
	}
}

// TestWhatWasSeenIsTakenInOrder has callers of two calls tell what they saw in
// another order than Redis decided.
func TestWhatWasSeenIsTakenInOrder(t *testing.T) {
	l, key := yearly(5), []byte("k")
	request := []limiter.Hit{hit("k", l, 1)}
	d := newDenials(1<<20, time.Now)
	tell := func(call, used int64) {
		d.note(&batch{number: call, asked: time.Now()}, 0, request, []limiter.State{{Used: used}}, false)
	}
	want := func(what string, used int64) {
		t.Helper()
		if s := d.lately.Get(key).state; s.Used != used {
			t.Errorf("%s: %d used, want %d", what, s.Used, used)
		}
	}
	tell(2, 2)
	tell(1, 1)
	want("the earlier call comes later", 2)
	d.loosen(&batch{number: 3, asked: time.Now(), loosened: []loosened{{key, 0}}})
	tell(2, 2)
	want("something was given back since", 0)
	tell(4, 1)
	want("a later call", 1)
}

func TestManyCallersOfAKnownDenial(t *testing.T) {
	r := testenv.RedisServer(t)
	s := open(t, Options{Main: at(r.Addr()), DenyMemory: 1 << 20})
	l := yearly(100)
	var mu sync.Mutex
	admitted := 0
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			for range 100 {
				d := mustAsk(t, s, "k", l)
				if !d.Over {
					mu.Lock()
					admitted++
					mu.Unlock()
				}
				if i == 0 { // whose counter goes up and down
					mustAsk(t, s, strings.Repeat("x", i+1), l)
				}
			}
		})
	}
	wg.Wait()
	if admitted != 100 {
		t.Errorf("%d requests were admitted, want 100", admitted)
	}
}

// TestGivingBackIsKnownAtOnce has a charge that makes a counter full taken back
// while the denial that it led to is remembered, and a refund whose caller left.
func TestGivingBackIsKnownAtOnce(t *testing.T) {
	l := yearly(1)
	t.Run("of a request denied elsewhere", func(t *testing.T) {
		f := newMemoryFixture(t)
		part := []limiter.Hit{hit("k", l, 1)}
		b, place, err := f.store.main.only.send(part, true, anytime)
		if err != nil {
			t.Fatal(err)
		}
		<-b.done
		out := make([]limiter.Decision, 1)
		states, err := b.reply.outcomes(place, out, nil)
		if err != nil {
			t.Fatal(err)
		}
		f.want("beside the charge", true, 1, hit("k", l, 1))
		f.want("known", true, 0, hit("k", l, 1))
		counters := limiter.CountersOf(part)
		back, _ := f.store.main.only.sendBack(giveBacks(part, &counters, out, states))
		<-back.done
		f.want("after it was given back", false, 1, hit("k", l, 1))
	})
	t.Run("of a refund whose caller left", func(t *testing.T) {
		f := newMemoryFixture(t)
		f.want("first", false, 1, hit("k", l, 1))
		f.want("denied", true, 1, hit("k", l, 1))
		b, _, err := f.store.main.only.send([]limiter.Hit{{Limit: l, Key: []byte("k"), Cost: 1, Refund: true}}, false, anytime)
		if err != nil {
			t.Fatal(err)
		}
		<-b.done
		f.want("after the refund", false, 1, hit("k", l, 1))
	})
	t.Run("of a refund that is noted before an earlier denial", func(t *testing.T) {
		d := newDenials(1<<20, time.Now)
		denial := &batch{number: 1, asked: time.Now()}
		refund := &batch{number: 2, asked: time.Now(), loosened: []loosened{{[]byte("k"), 0}}}
		d.loosen(refund)
		d.note(denial, 0, []limiter.Hit{hit("k", l, 1)}, []limiter.State{{Used: 1}}, true)
		if _, ok := d.seen([]byte("k"), time.Now()); ok {
			t.Error("a denial from before the refund is remembered")
		}
	})
}

// TestWhatIsForgottenVoidsEarlierDenials has a memory with room for one counter
// forget that something was given back to a counter, before the caller of an
// earlier denial tells what it saw.
func TestWhatIsForgottenVoidsEarlierDenials(t *testing.T) {
	l, key := yearly(1), "000000"
	for _, c := range []struct {
		name   string
		after  int64 // the call of a denial after the refund, which takes its place; 0: none
		denial int64 // the call of the one that is told when all that is forgotten
		known  bool
	}{
		{name: "a denial before the refund", denial: 1},
		{name: "one before the refund, beside one after it", after: 3, denial: 1},
		{name: "one after the refund", denial: 3, known: true},
		{name: "one between the refund and another denial", after: 4, denial: 3, known: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDenials(denialShards*(denialBytes+len(key)), time.Now)
			deny := func(call int64, key string) {
				d.note(&batch{number: call, asked: time.Now()}, 0, []limiter.Hit{hit(key, l, 1)}, []limiter.State{{Used: 1}}, true)
			}
			d.loosen(&batch{number: 2, asked: time.Now(), loosened: []loosened{{[]byte(key), 0}}})
			if c.after > 0 {
				deny(c.after, key)
			}
			deny(9, neighbour(d, key))
			deny(c.denial, key)
			if _, known := d.seen([]byte(key), time.Now()); known != c.known {
				t.Errorf("known to be denied: %t, want %t", known, c.known)
			}
			if n := d.used.Load(); n != 1 {
				t.Errorf("%d counters are remembered, want one", n)
			}
		})
	}
}

// neighbour is another key of six digits in the shard of key.
func neighbour(d *denials, key string) string {
	for i := 1; ; i++ {
		if other := fmt.Sprintf("%06d", i); d.shard([]byte(other)) == d.shard([]byte(key)) {
			return other
		}
	}
}

// TestKnownDenialInTwoPlaces denies a request whose counters are in two Redis.
func TestKnownDenialInTwoPlaces(t *testing.T) {
	first, second := testenv.RedisServer(t), testenv.RedisServer(t)
	reg := prometheus.NewRegistry()
	s := open(t, Options{Main: at(first.Addr()), PerSecond: &redisconn.Options{URL: second.Addr()}, Registerer: reg, DenyMemory: 1 << 20})
	long := storetest.Must(limiter.Spec{RequestsPerUnit: 5, Unit: limiter.Second, UnitMultiplier: 1_000_000})
	request := []limiter.Hit{hit("s", long, 1), hit("y", yearly(2), 1)}
	out := make([]limiter.Decision, 2)
	ask := func() bool {
		denied, err := s.Decide(t.Context(), request, out)
		if err != nil {
			t.Fatal(err)
		}
		return denied
	}
	for i, want := range []bool{false, false, true} {
		if got := ask(); got != want {
			t.Fatalf("request %d: denied %t, want %t", i+1, got, want)
		}
	}
	if out[0].Used != 2 || out[0].Over {
		t.Errorf("the first counter: got %+v, want 2 used, since the third was given back", out[0])
	}
	calls := value(t, reg, "weir_redis_calls_total", "")
	if !ask() || out[0].Used != 2 || !out[1].Remembered || value(t, reg, "weir_redis_calls_total", "") != calls {
		t.Errorf("known: got %+v with %v calls", out, value(t, reg, "weir_redis_calls_total", "")-calls)
	}
}

// Callers use their decisions again.
func TestWhatRedisDecidesIsNotRemembered(t *testing.T) {
	f := newMemoryFixture(t)
	out := make([]limiter.Decision, 1)
	l := yearly(0)
	h := []limiter.Hit{hit("a", l, 1)}
	for range 2 {
		if _, err := f.store.Decide(t.Context(), h, out); err != nil {
			t.Fatal(err)
		}
	}
	if !out[0].Remembered {
		t.Fatal("not remembered")
	}
	h[0].Key = []byte("b") // a counter that nobody knows: Redis is asked
	if _, err := f.store.Decide(t.Context(), h, out); err != nil {
		t.Fatal(err)
	}
	if out[0].Remembered {
		t.Errorf("decided by Redis, yet Remembered")
	}
}

// TestDenialsAreLearntAfterTheirCallersLeft has a Redis that answers later than
// its callers can wait. What it tells is known to those who come after.
func TestDenialsAreLearntAfterTheirCallersLeft(t *testing.T) {
	perSecond := storetest.Must(limiter.Spec{RequestsPerUnit: 5, Unit: limiter.Second, UnitMultiplier: 1_000_000})
	for _, c := range []struct {
		name  string
		other *limiter.Limit
		calls int // of the request
	}{
		{"a request in one place", yearly(5), 1},
		{"a request in several places", perSecond, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			other, r := c.other, testenv.RedisServer(t)
			admin := connect(t, r)
			frozen := time.Now()
			s := open(t, Options{Main: at(r.Addr()), PerSecond: &redisconn.Options{URL: testenv.RedisServer(t).Addr()}})
			s.denials = newDenials(1<<20, func() time.Time { return frozen }) // which no slow machine forgets
			for _, b := range s.backends() {
				b.denials, b.local = s.denials, s.denials.now
			}
			request := []limiter.Hit{hit("user", yearly(1), 1), hit("other", other, 1)}
			out := make([]limiter.Decision, len(request))
			if denied, err := s.Decide(t.Context(), request, out); denied || err != nil {
				t.Fatalf("the first request: denied %t, error %v", denied, err)
			}

			do(t, admin, "client", "pause", 2*long.Milliseconds(), "write")
			calls := new(sizes)
			for _, b := range s.backends() {
				b.client.AddHook(calls)
			}
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			hits := []limiter.Hit{hit("user", request[0].Limit, 1), hit("other", other, 1)}
			left := make(chan error, 1)
			go func() {
				_, err := s.Decide(ctx, hits, make([]limiter.Decision, len(hits)))
				left <- err
			}()
			testenv.Until(t, "Redis is asked", func() bool { return calls.made() == c.calls }) // earlier, nobody would ask it
			leave()
			if err := <-left; !errors.Is(err, context.Canceled) {
				t.Fatalf("got error %v of a caller who left", err)
			}
			copy(hits[0].Key, "gone") // the caller's own, who uses them again
			copy(hits[1].Key, "again")
			do(t, admin, "client", "unpause")
			testenv.Until(t, "the denial is known", func() bool { return s.denials.used.Load() == 2 })

			do(t, admin, "client", "pause", 2*long.Milliseconds(), "write")
			defer do(t, admin, "client", "unpause")
			denied, err := s.Decide(t.Context(), request, out)
			if err != nil || !denied || !out[0].Remembered || out[0].Used != 1 || out[1].Used != 1 {
				t.Errorf("then: denied %t, error %v, %+v; want a denial from memory", denied, err, out)
			}
		})
	}
}
