package redis

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

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
