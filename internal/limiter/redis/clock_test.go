package redis

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"weir/internal/limiter"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

// tenPerSecond are limits of 10 per second, by every algorithm, with the longest
// time that each lets anybody wait for one unit.
var tenPerSecond = []struct {
	name    string
	spec    limiter.Spec
	longest time.Duration
}{
	{"fixed", limiter.Spec{}, time.Second},
	{"first hit", limiter.Spec{Algorithm: limiter.FirstHit}, time.Second},
	{"sliding", limiter.Spec{Algorithm: limiter.SlidingWindow}, 1100 * time.Millisecond},
	{"bucket", limiter.Spec{Algorithm: limiter.TokenBucket}, 100 * time.Millisecond},
}

// TestRedisBehindItsCounters asks a Redis whose clock is behind the counters that it
// has: after a failover to a server that is behind by 25 s, or when its clock was two
// hours ahead for a moment. A limit of 10 per second must admit again within a second.
func TestRedisBehindItsCounters(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{25 * time.Second, 2 * time.Hour} {
		r := testenv.RedisServer(t)
		admin := connect(t, r)
		was := open(t, Options{Main: at(r.Addr()), Now: func() time.Time { return time.Now().Add(ahead) }})
		is := open(t, Options{Main: at(r.Addr())})
		for _, c := range tenPerSecond {
			t.Run(fmt.Sprintf("%s, %v", c.name, ahead), func(t *testing.T) {
				c.spec.RequestsPerUnit, c.spec.Unit = 10, limiter.Second
				l := storetest.Must(c.spec)
				all := []limiter.Hit{hit(c.name, l, 10)}
				if denied, err := was.Decide(t.Context(), all, make([]limiter.Decision, 1)); denied || err != nil {
					t.Fatalf("denied %v, error %v", denied, err)
				}
				do(t, admin, "pexpire", c.name, (ahead + time.Second).Milliseconds()) // as on that clock

				// Redis' clock, read before a request and after the one before, so that a
				// machine that is slow makes no difference.
				var first, last time.Time
				testenv.Until(t, "a request is admitted", func() bool {
					before := redisTime(t, admin)
					d := mustAsk(t, is, c.name, l)
					if !d.Over {
						return true
					}
					if d.RetryAfter > c.longest || d.ResetAfter > 2*time.Second {
						t.Fatalf("told to come back after %v, all after %v", d.RetryAfter, d.ResetAfter)
					}
					if last = before; first.IsZero() {
						first = redisTime(t, admin)
					}
					return false
				})
				if waited := last.Sub(first); waited > c.longest {
					t.Errorf("still denied after %v", waited)
				}
			})
		}
	}
}

// redisTime is what Redis' clock says.
func redisTime(t *testing.T, admin *redis.Client) time.Time {
	t.Helper()
	return testenv.Must(admin.Time(t.Context()).Result())(t)
}

// What is remembered of denials is counted by what passes in this process. Neither a
// step of Redis' clock nor one of its own makes it deny for longer than a second.
func TestMemoryOfDenialsWhileClocksStep(t *testing.T) {
	r, reg := testenv.RedisServer(t), prometheus.NewRegistry()
	redisNow, local := time.Unix(1_800_000_000, 0), time.Unix(5000, 0)
	s := open(t, Options{Main: at(r.Addr()), Registerer: reg, Now: func() time.Time { return redisNow }})
	s.denials = newDenials(1<<20, func() time.Time { return local })
	s.main.denials, s.main.local = s.denials, s.denials.now
	l := storetest.Must(limiter.Spec{RequestsPerUnit: 10, Unit: limiter.Minute})
	testenv.Must(s.Decide(t.Context(), []limiter.Hit{hit("k", l, 10)}, make([]limiter.Decision, 1)))(t)
	for i, c := range []struct {
		redis, local time.Duration // how far their clocks go
		over         bool
		calls        float64
		retry        time.Duration
	}{
		{0, 0, true, 1, time.Minute},
		{0, 500 * time.Millisecond, true, 0, time.Minute - 500*time.Millisecond},
		{-25 * time.Hour, 0, true, 0, time.Minute - 500*time.Millisecond},
		{0, 501 * time.Millisecond, true, 1, time.Minute},
		{time.Second, 500 * time.Millisecond, true, 0, time.Minute - 500*time.Millisecond},
		{0, -time.Hour, true, 1, 59 * time.Second},
		{0, 2 * time.Hour, true, 1, 59 * time.Second},
		{59 * time.Second, 2 * time.Second, false, 1, 0},
	} {
		redisNow, local = redisNow.Add(c.redis), local.Add(c.local)
		before := value(t, reg, "weir_redis_calls_total", "")
		d := mustAsk(t, s, "k", l)
		if calls := value(t, reg, "weir_redis_calls_total", "") - before; d.Over != c.over || calls != c.calls || d.RetryAfter != c.retry {
			t.Errorf("step %d: over %v with %v calls, retry after %v; want %+v", i, d.Over, calls, d.RetryAfter, c)
		}
	}
}
