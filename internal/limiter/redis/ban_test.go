package redis

import (
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/limiter/storetest"
)

func banning(amount uint64, denyFor time.Duration) *limiter.Limit {
	return storetest.Must(limiter.Spec{RequestsPerUnit: amount, Unit: limiter.Year, DenyFor: denyFor})
}

// A ban is in the key of the counter, which lives until both have ended. Who deletes it
// lifts the ban.
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
			if d := mustAsk(t, p.store, key, l); d.Over != over {
				t.Errorf("request %d: over is %t", n, d.Over)
			}
		}
		if keys, ttl := p.first.Keys(), p.first.TTL(key); len(keys) != 1 || ttl != c.ttl {
			t.Errorf("keys %v, which live for %v, want one for %v", keys, ttl, c.ttl)
		}
		p.first.Del(key)
		p.forward(c.ttl) // more than used-up limits are remembered
		if d := mustAsk(t, p.store, key, l); d.Over || d.Used != 1 {
			t.Errorf("the key was deleted: %+v", d)
		}
		p.first.FlushAll()
	}
}

// A ban is known until it ends, and another one begins although the counter is known to
// be over.
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
