package redis

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/queue"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

// checked is a store with a memory of denials. If the memory denies a request, checked repeats the
// request on a store without memory and returns the decision of that store. This is possible
// because denied requests take nothing.
type checked struct {
	*testing.T
	store, plain limiter.CounterStore
	others       sync.RWMutex // write-locked while no other request may charge or reset a counter
	remembered   atomic.Int64 // denials from memory
}

// openChecked opens a store with a memory, and a store that fills this memory but does not use it,
// so the memory has the replies to both stores even after a step of the clock.
func openChecked(t *testing.T, o Options) *checked {
	plain := open(t, o)
	// The memory is so large that no counter replaces another. With 1 MiB, in one run of a hundred,
	// five of the 500 counters would share a set of limiter.Recent.
	o.DenyMemory = 8 << 20
	store := open(t, o)
	for _, b := range plain.backends {
		b.memo = store.memo
	}
	return &checked{T: t, store: store, plain: plain}
}

// Decide compares a denial from memory twice: first only whether Redis denies the request, too,
// because concurrent requests may charge its other counters, and then, without concurrent
// requests, all decisions.
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

// memoryFixture has a store that counts by Redis' clock but remembers by the test's clock, and a
// second store without memory, which stands for another server.
type memoryFixture struct {
	*fixture
	other *Store
	mu    sync.Mutex
	now   time.Time
}

func newMemoryFixture(t *testing.T) *memoryFixture {
	f := &memoryFixture{now: time.Now()}
	f.fixture = newFixture(t, Options{DenyMemory: 1 << 20, local: f.clock})
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

// ask decides a request and returns the number of calls to Redis.
func (f *memoryFixture) ask(hits ...limiter.Hit) (out []limiter.Decision, denied bool, calls int) {
	f.Helper()
	before := f.calls()
	out, denied = mustDecide(f, f.Store, hits...)
	return out, denied, f.calls() - before
}

// want checks the outcome of a request and the number of calls to Redis.
func (f *memoryFixture) want(what string, denied bool, calls int, hits ...limiter.Hit) []limiter.Decision {
	f.Helper()
	out, gotDenied, gotCalls := f.ask(hits...)
	if gotDenied != denied || gotCalls != calls {
		f.Errorf("%s: denied %t with %d calls, want %t with %d", what, gotDenied, gotCalls, denied, calls)
	}
	return out
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

// TestFaultCacheDeniesTooMuch checks that the memory of denials does not deny a request after a
// change that this server can know of.
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
		{"given back by this process", func(f *memoryFixture) { mustDecide(f, f.Store, refund("k", two, 1)) }, hit("k", two, 1), false},
		{"given back by another, within a second", func(f *memoryFixture) { mustDecide(f, f.other, refund("k", two, 1)) }, hit("k", two, 1), true},
		{"given back by another, a second later", func(f *memoryFixture) { mustDecide(f, f.other, refund("k", two, 1)); f.pass(memoAge + 1) }, hit("k", two, 1), false},
		{"deleted, a second later", func(f *memoryFixture) { f.do("del", "k"); f.pass(memoAge + 1) }, hit("k", two, 1), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newMemoryFixture(t)
			f.want("first", false, 1, hit("k", two, 2))
			f.want("second", true, 1, hit("k", two, 1))
			c.change(f)
			_, denied, _ := f.ask(c.ask)
			testenv.Equal(t, denied, c.denied, "denied")
		})
	}
}

func TestKnownDenialsGoOnWithoutRedis(t *testing.T) {
	f := newMemoryFixture(t)
	l := yearly(1)
	f.want("first", false, 1, hit("k", l, 1))
	f.want("denied", true, 1, hit("k", l, 1))
	f.redis.Stop()
	f.want("without Redis", true, 0, hit("k", l, 1))
	if _, err := ask(t.Context(), f.Store, "other", l); err == nil {
		t.Error("a counter that is not known was decided without Redis")
	}
}

// TestUnseenCountersDoNotHideADenial has a denied client that varies another value in its
// requests.
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
	f.want("a charge in any case", true, 1, limiter.Hit{Limit: yearly(3), Key: []byte("usage"), Cost: 1, Always: true}, over)

	quota := func(key string, amount uint64) limiter.Hit {
		h := hit(key, yearly(amount), 1)
		h.Mode = limiter.Quota
		return h
	}
	f.want("a quota that is not over", false, 1, quota("user", 1), quota("b", 3))
	f.want("nothing that was seen is over", true, 1, quota("user", 1), quota("c", 0))
	grouped := func(h limiter.Hit, group uint8) limiter.Hit { h.Group = group; return h }
	f.want("a quota of another group", false, 1, grouped(quota("user", 1), 1), grouped(quota("b", 3), 2))
	f.want("a new quota of the same group", true, 0, grouped(quota("user", 1), 1), grouped(quota("d", 3), 1))
}

// TestKnownDenialTellsWhatWasSeenOfOthers denies a request from memory because of one of its
// counters. The other counters have only admitted requests so far.
func TestKnownDenialTellsWhatWasSeenOfOthers(t *testing.T) {
	f := &memoryFixture{now: time.Date(2030, 1, 1, 12, 0, 9, 0, time.UTC)}
	f.fixture = newFixture(t, Options{DenyMemory: 1 << 20, local: f.clock, Now: f.clock})
	limit := func(amount uint64, unit limiter.Unit) *limiter.Limit {
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
	f.want("c gives back", false, 1, refund("c", c.Limit, 1))
	if d := f.want("after that", true, 0, a, c)[1]; d.Used != 0 || d.Remaining != 5 {
		t.Errorf("c: got %+v, want 5 remaining", d)
	}
	f.want("what is told denies nobody", true, 1, b)
}

// TestChargedDenialsAreRememberedIfAsked sends hits that are always charged to used-up windows.
// The memory answers them, as envoyproxy/ratelimit's local cache does.
func TestChargedDenialsAreRememberedIfAsked(t *testing.T) {
	charge := func(key string, l *limiter.Limit, cost uint64) limiter.Hit {
		return limiter.Hit{Limit: l, Key: []byte(key), Cost: cost, Always: true}
	}
	f := newMemoryFixture(t)
	one := charge("k", yearly(1), 1)
	f.want("first", false, 1, one)
	f.want("denied", true, 1, one)
	f.want("not asked for", true, 1, one)
	f.memo.charged = true
	if d := f.want("asked for", true, 0, one)[0]; !d.Over || !d.Remembered || d.Remaining != 0 || d.RetryAfter <= 0 {
		t.Errorf("got %+v, want it remembered", d)
	}
	for used := range int64(3) {
		out := f.want("beside one with room", true, 1, charge("room", yearly(5), 1), one)
		if d := out[0]; d.Over || d.Remembered || !d.Charged || d.Used != used+1 {
			t.Errorf("the one with room: got %+v, want %d used", d, used+1)
		}
		if d := out[1]; !d.Over || !d.Remembered {
			t.Errorf("the other: got %+v, want it remembered", d)
		}
	}
	f.want("beside one that is not charged always", true, 1, hit("other", yearly(5), 1), one)
	f.want("beside a refund of it", true, 1, refund("k", one.Limit, 1), charge("k", one.Limit, 2))
	f.want("beside itself", true, 1, one, one)
	f.want("again", true, 0, one)
	f.want("a raised limit", false, 1, charge("k", yearly(100), 1))
	f.pass(time.Second + time.Microsecond)
	f.want("a second later", true, 1, one)

	for what, l := range map[string]*limiter.Limit{"a sliding window": slidingYear, "a bucket": bucketYear} {
		f.want(what, false, 1, charge(what, l, 100))
		f.want(what+", denied", true, 1, charge(what, l, 1))
		f.want(what+", denied again", true, 1, charge(what, l, 1))
	}
	f.want("first hit", false, 1, charge("window", firstHitYear, 90))
	f.want("does not fit", true, 1, hit("window", firstHitYear, 20))
	f.want("fits", false, 1, charge("window", firstHitYear, 5))
	f.want("fits in part", true, 1, charge("window", firstHitYear, 20))
	f.want("used up", true, 0, charge("window", firstHitYear, 20))
}

// TestMemoryOfALongLife starts with the call numbers of months and years. Refunds and resets are
// among the calls around numbers at which an integer or a float could overflow.
func TestMemoryOfALongLife(t *testing.T) {
	one := yearly(1)
	for _, end := range []int64{1 << 31, 1 << 32, 1 << 53, math.MaxInt64 - 100} {
		for _, before := range []int64{1, 2, 3} {
			f := newMemoryFixture(t)
			f.memo.calls.Store(end - before)
			f.want("first", false, 1, hit("k", one, 1))
			for range 3 {
				f.want("denied", true, 1, hit("k", one, 1))
				f.want("known", true, 0, hit("k", one, 1))
				f.want("known beside another", true, 0, hit("k", one, 1), hit("other", one, 1))
				testenv.OK(t, f.Reset(t.Context(), []limiter.Hit{hit("k", one, 1)}))
				f.want("reset", false, 1, hit("k", one, 1))
				f.want("known again", true, 0, hit("k", one, 1))
				f.want("refunded", false, 1, refund("k", one, 1))
				f.want("free again", false, 1, hit("k", one, 1))
			}
			if t.Failed() {
				t.Fatalf("%d calls before %d", before, end)
			}
		}
	}
}

// TestGivingBackIsKnownAtOnce refunds the charge that filled a counter, while a denial by this
// counter is remembered.
func TestGivingBackIsKnownAtOnce(t *testing.T) {
	l := yearly(1)
	t.Run("of a request denied elsewhere", func(t *testing.T) {
		f := newMemoryFixture(t)
		part := []limiter.Hit{hit("k", l, 1)}
		sent := testenv.Must(f.main.queues.Of(nil).Add(t.Context(), 0, part, true, time.Hour))(t)
		<-sent.Call.Done
		out := make([]limiter.Decision, 1)
		states := testenv.Must(sent.Outcomes(out, nil))(t)
		f.want("beside the charge", true, 1, hit("k", l, 1))
		f.want("known", true, 0, hit("k", l, 1))
		list, _ := releases(part, limiter.Firsts(part, nil), out, states)
		f.main.queues.Of(nil).Release(0, list)
		rest(f.Store)
		f.want("after it was given back", false, 1, hit("k", l, 1))
	})
	t.Run("of a refund that is noted before an earlier denial", func(t *testing.T) {
		m := newMemo(1<<20, false, time.Now)
		denial := &queue.Call{Number: 1, Began: time.Now()}
		back := queue.NewCall(0, 0)
		back.Number, back.Began, back.Err = 2, time.Now(), errOpen
		back.Batch.Add([]limiter.Hit{refund("k", l, 1)}, false)
		m.noteCredits(back)
		m.note(queue.Ticket{Call: denial}, []limiter.Hit{hit("k", l, 1)}, []limiter.State{{Used: 1}}, true)
		if m.last([]byte("k")).denies {
			t.Error("a denial from before the refund is remembered")
		}
	})
}

func banning(amount uint64, denyFor time.Duration) *limiter.Limit {
	return storetest.Must(limiter.Spec{RequestsPerUnit: amount, Unit: limiter.Year, DenyFor: denyFor})
}

// A ban is stored in the counter's key, which expires when both the window and the ban have
// ended. Deleting the key lifts the ban.
func TestABanCostsNoSecondKey(t *testing.T) {
	p := newPair(t)
	for _, c := range []struct {
		unit         limiter.Unit
		denyFor, ttl time.Duration
	}{
		{limiter.Day, 2 * time.Hour, 24 * time.Hour},
		{limiter.Minute, 2 * time.Hour, 2 * time.Hour},
	} {
		l := storetest.Must(limiter.Spec{RequestsPerUnit: 2, Unit: c.unit, Algorithm: limiter.FirstHit, DenyFor: c.denyFor})
		key := c.unit.String()
		for n, over := range []bool{false, false, true, true} {
			testenv.Equal(t, mustAsk(t, p.Store, key, l).Over, over, "request %d: over", n)
		}
		if keys, ttl := p.first.Keys(), p.first.TTL(key); len(keys) != 1 || ttl != c.ttl {
			t.Errorf("keys %v, which live for %v, want one for %v", keys, ttl, c.ttl)
		}
		p.first.Del(key)
		p.forward(c.ttl) // longer than denials are remembered
		if d := mustAsk(t, p.Store, key, l); d.Over || d.Used != 1 {
			t.Errorf("the key was deleted: %+v", d)
		}
		p.first.FlushAll()
	}
}

// A ban is remembered until it ends. Redis is asked only to begin a ban or to shorten it.
func TestAKnownBanCostsNoCall(t *testing.T) {
	f := newMemoryFixture(t)
	l := banning(2, time.Hour)
	f.want("all of it", false, 1, hit("k", l, 2))
	if d := f.want("a peek, which begins it", true, 1, hit("k", l, 0))[0]; d.RetryAfter < 2*time.Hour {
		t.Errorf("%+v, want that it is over for longer than the ban", d)
	}
	f.want("a known peek", true, 0, hit("k", l, 0))
	f.want("known", true, 0, hit("k", l, 1))
	if d := f.want("raised, but banned", true, 0, hit("k", banning(5, time.Hour), 1))[0]; d.RetryAfter > time.Hour || d.RetryAfter < 59*time.Minute {
		t.Errorf("%+v, want that it is over until the ban ends", d)
	}
	if d := f.want("a shorter ban, of which Redis must know", true, 1, hit("k", banning(5, time.Minute), 1))[0]; d.RetryAfter > time.Minute {
		t.Errorf("%+v, want that it is over for a minute", d)
	}
	f.want("known", true, 0, hit("k", banning(5, time.Minute), 1))
	f.want("without bans", false, 1, hit("k", yearly(5), 1))
}
