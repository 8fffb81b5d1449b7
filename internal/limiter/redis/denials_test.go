package redis

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

// checked compares each denial from memory with what a store without memory says,
// which it returns. Denied requests take nothing, so that it can be asked again.
type checked struct {
	*testing.T
	store, plain limiter.CounterStore
	others       sync.RWMutex // locked while nobody else may charge or reset a counter
	remembered   atomic.Int64 // denials from memory
}

// openChecked returns a store with a memory. The other one shares it, but does not
// deny by it: what it brings back after a step of the clock, this process knows.
func openChecked(t *testing.T, o Options) *checked {
	plain := open(t, o)
	// So much that no counter takes the place of another: with 1 MiB, five of the 500 share
	// one of limiter.Recent in one of a hundred runs, and one of them shows as unused.
	o.DenyMemory = 8 << 20
	store := open(t, o)
	for _, b := range plain.backends() {
		b.denials = store.denials
	}
	return &checked{T: t, store: store, plain: plain}
}

// Decide compares a denial from memory twice: beside other requests, which may charge the
// counters that are not over, whether it is one, and then alone, all of it.
func (c *checked) Decide(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (bool, error) {
	c.others.RLock()
	denied, remembered, err := c.decide(ctx, hits, out, false)
	c.others.RUnlock()
	if remembered {
		c.remembered.Add(1)
		c.others.Lock()
		defer c.others.Unlock()
		denied, _, err = c.decide(ctx, hits, out, true)
	}
	return denied, err
}

func (c *checked) decide(ctx context.Context, hits []limiter.Hit, out []limiter.Decision, alone bool) (denied, remembered bool, err error) {
	denied, err = c.store.Decide(ctx, hits, out)
	if err != nil || !slices.ContainsFunc(out, func(d limiter.Decision) bool { return d.Remembered }) {
		return denied, false, err
	}
	got := slices.Clone(out)
	denied, err = c.plain.Decide(ctx, hits, out)
	if !denied {
		c.Errorf("%+v is denied from memory: %+v; Redis says %+v, error %v", hits, got, out, err)
	}
	for i, d := range got {
		same := out[i]
		same.Remembered = same.Over
		if alone && d != same {
			c.Errorf("hit %d of %+v: from memory %+v, from Redis %+v", i, hits, d, same)
		}
	}
	return denied, true, err
}

func (c *checked) Peek(ctx context.Context, hits []limiter.Hit) ([]limiter.Counter, error) {
	return c.store.Peek(ctx, hits)
}

func (c *checked) Reset(ctx context.Context, hits []limiter.Hit) error {
	c.others.Lock()
	defer c.others.Unlock()
	return c.store.Reset(ctx, hits)
}

// memoryFixture is a store that counts by Redis' clock and remembers by one that
// the test sets, beside a second store without memory, as another process.
type memoryFixture struct {
	*testing.T
	store, other *store
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

// ask decides a request and returns how many calls it cost.
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

// denies reports whether the memory may deny by a counter.
func denies(s *store, key string) bool { return s.denials.last([]byte(key)).denies }

func hit(key string, l *limiter.Limit, cost uint64) limiter.Hit {
	return limiter.Hit{Limit: l, Key: []byte(key), Cost: cost}
}

func yearly(amount uint64) *limiter.Limit {
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
		{"given back by another, a second later", func(f *memoryFixture) { giveBackByOther(f, two); f.pass(denialAge + 1) }, hit("k", two, 1), false},
		{"deleted, a second later", func(f *memoryFixture) { do(f, connect(f, f.redis), "del", "k"); f.pass(denialAge + 1) }, hit("k", two, 1), false},
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
