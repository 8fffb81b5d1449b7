package redis

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/conn"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

func atOncePerHour(amount uint64) *limiter.Limit {
	return storetest.Must(limiter.Spec{RequestsPerUnit: amount, Unit: limiter.Hour, Algorithm: limiter.Concurrency})
}

// holding returns a hit that takes the hold with number n, or releases it.
func holding(key string, l *limiter.Limit, n int, refund bool) limiter.Hit {
	return limiter.Hit{Limit: l, Key: []byte(key), Cost: 1, Hold: fmt.Appendf(nil, "%016d", n), Refund: refund}
}

// A value that is not a set of holds counts as unused, and the first hold replaces it.
func TestForeignValuesOfHolds(t *testing.T) {
	s, two := newFixture(t, Options{}), atOncePerHour(2)
	for _, c := range []struct {
		name    string
		command []any
		want    int64 // units used before
	}{
		{"a text", []any{"set", "k", "hello"}, 0},
		{"a list", []any{"rpush", "k", "a", "b"}, 0},
		{"a hash", []any{"hset", "k", "a", "b"}, 0},
		{"beyond all times", []any{"zadd", "k", "1e300", "a"}, 0},
		{"at the end of time", []any{"zadd", "k", "+inf", "a", "1", "b"}, 0},
		{"before all times", []any{"zadd", "k", "-inf", "a", "-5", "b"}, 0},
		{"ended long ago", []any{"zadd", "k", "5", "a", "5.5", "b"}, 0},
		{"names of any length", []any{"zadd", "k", fmt.Sprint(time.Now().Add(time.Minute).UnixMicro()), "a"}, 1},
		{"times with a fraction", []any{"zadd", "k", fmt.Sprintf("%d.5", time.Now().Add(time.Minute).UnixMicro()), "a"}, 1},
		{"later than a period from now", []any{"zadd", "k", fmt.Sprint(time.Now().Add(1000 * time.Hour).UnixMicro()), "a"}, 1},
	} {
		s.do("del", "k")
		s.do(c.command...)
		peek := holding("k", two, 0, false)
		peek.Cost = 0
		if out, _ := mustDecide(t, s, peek); out[0].Used != c.want {
			t.Errorf("%s: %d used before, want %d", c.name, out[0].Used, c.want)
		}
		if out, denied := mustDecide(t, s, holding("k", two, 1, false)); denied || out[0].Used != c.want+1 {
			t.Errorf("%s: %d used, want %d", c.name, out[0].Used, c.want+1)
		}
		if out, _ := mustDecide(t, s, holding("k", two, 1, true)); out[0].Used != c.want || out[0].Already {
			t.Errorf("%s: %d used at the end, want %d", c.name, out[0].Used, c.want)
		}
		if ttl := s.do("pttl", "k").(int64); c.want > 0 && (ttl <= 0 || ttl > time.Hour.Milliseconds()) {
			t.Errorf("%s: it expires in %d ms", c.name, ttl)
		}
	}
}

// A value that is not a log counts as unused, and the first unit replaces it.
func TestForeignValuesOfLogs(t *testing.T) {
	now := time.Now()
	s := newFixture(t, Options{Now: func() time.Time { return now }})
	log := storetest.Must(limiter.Spec{RequestsPerUnit: 3, Unit: limiter.Hour, Algorithm: limiter.SlidingLog, DenyFor: time.Minute})
	for _, c := range []struct {
		name    string
		command []any
		want    int64 // units used before
	}{
		{"a text", []any{"set", "k", "hello"}, 0},
		{"a hash", []any{"hset", "k", "a", "b"}, 0},
		{"no times", []any{"rpush", "k", "a", "b"}, 0},
		{"before all times", []any{"rpush", "k", "-1e300", "-5"}, 0},
		{"beyond all times", []any{"rpush", "k", "1e300"}, 1},
		{"a ban that is over", []any{"rpush", "k", -now.Add(-time.Second).UnixMicro(), now.UnixMicro()}, 1},
	} {
		s.do("del", "k")
		s.do(c.command...)
		for i := range int64(2) {
			if out, denied := mustDecide(t, s, hit("k", log, 1)); denied || out[0].Used != c.want+i+1 || out[0].ResetAfter != time.Hour {
				t.Errorf("%s: denied is %v, %+v, want %d used", c.name, denied, out[0], c.want+i+1)
			}
		}
		if ttl := s.do("pttl", "k").(int64); ttl <= 0 || ttl > time.Hour.Milliseconds() {
			t.Errorf("%s: it expires in %d ms", c.name, ttl)
		}
	}
}

// A key expires with the last of its holds, and is deleted when that hold is released.
func TestExpiryOfHolds(t *testing.T) {
	r := miniredis.RunT(t) // its time passes only by FastForward
	now := time.UnixMicro(1_767_323_045_678_900)
	s := open(t, Options{Main: at(r.Addr()), Now: func() time.Time { return now }})
	l := atOncePerHour(3)
	for i, step := range []struct {
		after  time.Duration
		hold   int
		refund bool
		want   time.Duration // time until the key expires, 0 if there is no key
		used   int64
	}{
		{0, 1, false, time.Hour, 1},
		{10 * time.Minute, 2, false, time.Hour, 2},
		{10 * time.Minute, 1, false, 50 * time.Minute, 2}, // already taken, so not renewed
		{30 * time.Minute, 2, true, 20 * time.Minute, 1},
		{10 * time.Minute, 3, false, time.Hour, 1}, // exactly when the first hold ends
		{time.Minute, 3, true, 0, 0},
		{time.Minute, 4, false, time.Hour, 1},
		{time.Hour, 5, true, 0, 0},
	} {
		r.FastForward(step.after)
		now = now.Add(step.after)
		out, _ := mustDecide(t, s, holding("k", l, step.hold, step.refund))
		if got := r.TTL("k"); got != step.want || out[0].Used != step.used {
			t.Errorf("step %d: expires in %v with %d used, want %v and %d", i, got, out[0].Used, step.want, step.used)
		}
	}
}

// A bucket expires at the time at which it would be empty at the old amount, even if the amount
// was lowered.
func TestExpiryOfALoweredBucket(t *testing.T) {
	r := miniredis.RunT(t)
	now := time.UnixMicro(1_767_323_045_678_900)
	s := open(t, Options{Main: at(r.Addr()), Now: func() time.Time { return now }})
	of := func(amount uint64) *limiter.Limit {
		return storetest.Must(limiter.Spec{RequestsPerUnit: amount, Unit: limiter.Hour, Algorithm: limiter.TokenBucket})
	}
	mustDecide(t, s, hit("k", of(100), 100))
	for _, step := range []struct {
		after time.Duration
		used  int64
	}{{time.Hour - time.Second, 11}, {time.Second, 0}} {
		r.FastForward(step.after)
		now = now.Add(step.after)
		if out, _ := mustDecide(t, s, hit("k", of(10), 0)); out[0].Used != step.used {
			t.Errorf("%d used, want %d", out[0].Used, step.used)
		}
	}
}

// A full Redis accepts no new hold, but still denies requests and releases holds. A failed
// request leaves no hold.
func TestHoldsInAFullRedis(t *testing.T) {
	s, one := newFixture(t, Options{}, "--maxmemory-policy", "noeviction"), atOncePerHour(1)
	mustDecide(t, s, holding("k", one, 1, false))
	s.do("config", "set", "maxmemory", "1kb")
	if _, denied := mustDecide(t, s, holding("k", one, 2, false)); !denied {
		t.Error("the second is not denied")
	}
	_, err := s.Decide(t.Context(), []limiter.Hit{holding("new", one, 1, false), holding("k", one, 1, true)}, make([]limiter.Decision, 2))
	if !errors.Is(err, limiter.ErrUnavailable) || conn.Classify(err) != conn.KindOOM {
		t.Errorf("error %v, want one of kind %s", err, conn.KindOOM)
	}
	if out, _ := mustDecide(t, s, holding("k", one, 1, true)); out[0].Used != 0 {
		t.Errorf("%d held after giving back, want none", out[0].Used)
	}
	testenv.Equal(t, s.do("exists", "k", "new").(int64), 0, "keys that are left")
}

// Even if many holds have expired, or were taken before the clock stepped back, one request
// changes only some of them. Its decision does not depend on the others.
func TestManyHoldsAreChangedInParts(t *testing.T) {
	const many, part = 20_000, 1000
	now := time.Now()
	s, l := newFixture(t, Options{Now: func() time.Time { return now }}), atOncePerHour(2)
	seed := func(ends time.Time) {
		s.do("del", "k")
		members := []any{"zadd", "k"}
		for n := range many {
			members = append(members, ends.UnixMicro(), fmt.Sprintf("%016d", n))
		}
		s.do(members...)
	}
	left := func() int { return int(s.do("zcard", "k").(int64)) }

	seed(now)
	for i, step := range []struct {
		hit           limiter.Hit
		used          int64
		over, already bool
		added         int
	}{
		{holding("k", l, many-1, true), 0, false, true, 0}, // expired, but still stored
		{holding("k", l, many-1, false), 1, false, false, 0},
		{holding("k", l, many, false), 2, false, false, 1},
		{holding("k", l, many-2, false), 2, true, false, 0},
		{holding("k", l, many-1, false), 2, false, true, 0},
		{holding("k", l, many-1, true), 1, false, false, -1},
	} {
		before := left()
		out, _ := mustDecide(t, s, step.hit)
		if d := out[0]; d.Used != step.used || d.Over != step.over || d.Already != step.already {
			t.Errorf("step %d: %+v", i, d)
		}
		testenv.Equal(t, before+step.added-left(), part, "step %d: ended holds that are removed", i)
	}
	for range many / part {
		mustDecide(t, s, holding("k", l, many, false))
	}
	testenv.Equal(t, left(), 1, "stored holds, of which one has not ended")

	seed(now.Add(3 * time.Hour))
	late := fmt.Sprintf("(%d", now.Add(time.Hour).UnixMicro())
	for n := range many / part {
		if out, denied := mustDecide(t, s, holding("k", l, many, false)); !denied || out[0].Used != many {
			t.Errorf("after a step of the clock: %+v", out[0])
		}
		if got := int(s.do("zcount", "k", late, "+inf").(int64)); got != many-(n+1)*part {
			t.Fatalf("%d holds last for more than a period after %d requests", got, n+1)
		}
	}
}
