package redis

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

// TestLongMemoryHoldsNoDenialTooLong asks for hours, with a memory of an hour, for a
// counter that is over. A store without memory, on the same Redis, says at each denial
// whether it is right. The clock of this process is right, or as wrong as time servers
// may make it.
func TestLongMemoryHoldsNoDenialTooLong(t *testing.T) {
	t.Parallel()
	const hours, step = 3, 11100 * time.Millisecond
	for name, spec := range map[string]limiter.Spec{
		"fixed window":       {},
		"from the first hit": {Anchor: limiter.FirstHit},
		"of a calendar":      {Anchor: limiter.ByCalendar, TimeZone: "Europe/Berlin"},
		"sliding window":     {Algorithm: limiter.SlidingWindow},
		"token bucket":       {Algorithm: limiter.TokenBucket},
	} {
		spec.RequestsPerUnit, spec.Unit = 3, limiter.Hour
		l := storetest.Must(spec)
		for drift, wrong := range map[string]time.Duration{"right": 0, "slow": 2000, "fast": -2000} {
			t.Run(name+", "+drift, func(t *testing.T) {
				began := time.Unix(1_800_000_000, 0)
				var passed atomic.Int64
				clock := func() time.Time { return began.Add(time.Duration(passed.Load())) }
				local := func() time.Time {
					d := time.Duration(passed.Load())
					if wrong != 0 {
						d -= d / wrong
					}
					return began.Add(d)
				}
				reg := prometheus.NewRegistry()
				o := Options{Main: at(testenv.RedisServer(t).Addr()), Now: clock, OneClock: true}
				plain := open(t, o)
				o.Registerer = reg
				store := open(t, o)
				store.denials = newDenials(1<<20, time.Hour, local)
				store.main.denials, store.main.local = store.denials, local

				admitted, fromMemory := 0, 0
				for ; clock().Before(began.Add(hours * time.Hour)); passed.Add(int64(step)) {
					d := mustAsk(t, store, "k", l)
					switch {
					case d.Remembered:
						fromMemory++
						if d := mustAsk(t, plain, "k", l); !d.Over {
							t.Fatalf("after %v: denied from memory, Redis admits", clock().Sub(began))
						}
					case !d.Over:
						admitted++
					}
				}
				if most := 3*hours + 3; admitted < 2*hours || admitted > most {
					t.Errorf("%d admitted in %d hours, want 2 or 3 in each", admitted, hours)
				}
				// Beside what is admitted, a call or two for each time that the counter may admit.
				if calls := int(value(t, reg, "weir_redis_calls_total", "")); calls > 3*admitted+hours || fromMemory < 700 {
					t.Errorf("%d calls, %d admitted, %d denied from memory", calls, admitted, fromMemory)
				}
			})
		}
	}
}

// A memory of an hour keeps short limits for a second, and learns of what this process
// gives back at once.
func TestLongMemory(t *testing.T) {
	f := newMemoryFixture(t)
	f.store.denials = newDenials(1<<20, time.Hour, f.clock)
	f.store.main.denials = f.store.denials
	two, short := yearly(2), hit("short", storetest.Must(limiter.Spec{RequestsPerUnit: 1, Unit: limiter.Second}), 2)
	f.want("first", false, 1, hit("k", two, 2))
	f.want("denied", true, 1, hit("k", two, 1))
	f.want("a short limit", true, 1, short)
	f.pass(time.Second + 1)
	f.want("after a second", true, 0, hit("k", two, 1))
	f.want("a short limit, after a second", true, 1, short)
	f.pass(time.Hour - time.Second - 1)
	f.want("after an hour", true, 0, hit("k", two, 1))
	f.pass(time.Microsecond)
	f.want("after more than that", true, 1, hit("k", two, 1))
	f.pass(time.Minute)
	f.want("refund", false, 1, limiter.Hit{Limit: two, Key: []byte("k"), Cost: 1, Refund: true})
	f.want("after the refund", false, 1, hit("k", two, 1))
	f.want("used up", true, 1, hit("k", two, 1))
	do(t, connect(t, f.redis), "del", "k")
	f.pass(time.Minute)
	f.want("deleted behind our back", true, 0, hit("k", two, 1))
}

// The clock of a machine that slept stands still, its calendar does not.
func TestLongMemoryOnAMachineThatSlept(t *testing.T) {
	asked := time.Now()
	s := remembered{asked: asked, lasts: time.Hour}
	woke := asked.Round(0).Add(2 * time.Hour) // which says nothing of the clock
	for name, c := range map[string]struct {
		now      time.Time
		outdated bool
	}{
		"just asked":         {asked, false},
		"slept":              {woke, true},
		"calendar put back":  {asked.Add(time.Minute), false},
		"an hour has passed": {asked.Add(time.Hour + 1), true},
	} {
		if got := s.outdated(c.now); got != c.outdated {
			t.Errorf("%s: outdated is %t, want %t", name, got, c.outdated)
		}
	}
}
