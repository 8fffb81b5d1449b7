package redis

import (
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"weir/internal/limiter"
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
		out, _ := mustDecide(t, s, hit("k", of(10), 0))
		testenv.Equal(t, out[0].Used, step.used, "used")
	}
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
