package limitcases

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
	"weir/internal/limiter/memory"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

// "20 requests per minute per API key, with keys per minute that expire by
// themselves."
var perAPIKey = storetest.Must(limiter.Spec{RequestsPerUnit: 20, Unit: limiter.Minute})

// noon is the start of a minute.
var noon = time.Date(2026, time.January, 2, 12, 0, 0, 0, time.UTC)

func Test20PerMinute(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(r replica, c *clock) {
		ours, theirs := hit(perAPIKey, "api_key", "k-1"), hit(perAPIKey, "api_key", "k-2")
		c.set(noon.Add(15 * time.Second))
		r.expectAdmitted(20, ours)
		r.expectDenied(45*time.Second, ours)
		r.expectAdmitted(20, theirs)

		c.set(noon.Add(time.Minute))
		r.expectAdmitted(20, ours)
		r.expectDenied(time.Minute, ours)
	})
}

// A counter in Redis lives until its minute ends and no longer, however often
// its key is used.
func TestRedisDropsTheCounterWithItsMinute(t *testing.T) {
	t.Parallel()
	server := testenv.RedisServer(t)
	c := new(clock)
	r, redis := onRedis(t, server, c.now), inspect(t, server)
	h := hit(perAPIKey, "api_key", "k-1")

	c.set(noon.Add(15 * time.Second))
	r.expectAdmitted(1, h)
	first, _ := redis.ttl(h.Key)
	r.expectAdmitted(19, h)
	r.expectDenied(45*time.Second, h)
	last, _ := redis.ttl(h.Key)
	if first > 45*time.Second || last > first || last == 0 {
		t.Errorf("the counter lives for %v after its first hit, %v after its last, want at most 45s and no extension", first, last)
	}

	// The last 200 ms of the minute: now Redis need not be waited for long.
	late := hit(perAPIKey, "api_key", "k-2")
	c.set(noon.Add(time.Minute - 200*time.Millisecond))
	r.expectAdmitted(1, late)
	if left, _ := redis.ttl(late.Key); left > 200*time.Millisecond {
		t.Errorf("the counter lives for %v, want at most 200ms", left)
	}
	testenv.Until(t, "the counter is gone", func() bool {
		_, there := redis.ttl(late.Key)
		return !there
	})
	if _, there := redis.ttl(h.Key); !there {
		t.Error("the other counter is gone as well, want it to live for its 45s")
	}
}

// The same on the clock of Redis, in seconds instead of minutes: what was used
// up is free again, and in the end nothing is left.
func TestRedisFreesTheCounterInRealTime(t *testing.T) {
	t.Parallel()
	server := testenv.RedisServer(t)
	r, redis := onRedis(t, server, nil), inspect(t, server)
	perSecond := storetest.Must(limiter.Spec{RequestsPerUnit: 20, Unit: limiter.Second})
	all := units(20, hit(perSecond, "api_key", "k-1"))

	for range 2 { // the whole amount is free once in each second
		testenv.Until(t, "the whole amount is free", func() bool {
			_, admitted := r.ask(all)
			return admitted
		})
		if left, _ := redis.ttl(all.Key); left > time.Second {
			t.Errorf("the counter lives for %v, want at most 1s", left)
		}
	}
	redis.expectGone()
}

// The memory of counters whose minute is over is free again, too.
func TestMemoryDropsCountersWithTheirMinute(t *testing.T) {
	t.Parallel()
	c := new(clock)
	reg := prometheus.NewRegistry()
	r := replica{t, memory.New(memory.Options{Now: c.now, Registerer: reg})}
	const apiKeys = 1000

	c.set(noon.Add(15 * time.Second))
	for i := range apiKeys {
		r.expectAdmitted(1, hit(perAPIKey, "api_key", fmt.Sprint("k-", i)))
	}
	if n := counters(t, reg); n != apiKeys {
		t.Errorf("%d counters are kept, want %d", n, apiKeys)
	}

	// Each request clears away a few that have expired, in one of many parts of the
	// memory, and not all parts hold the same number. Peeks leave no counters of
	// their own.
	c.set(noon.Add(time.Minute))
	for range 10 * apiKeys {
		r.expectUsed(0, hit(perAPIKey, "api_key", "another"))
	}
	if n := counters(t, reg); n != 0 {
		t.Errorf("%d counters are kept after their minute, want none", n)
	}
}

// counters reads how many counters a store in memory keeps.
func counters(t *testing.T, reg *prometheus.Registry) int {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatalf("Gather: %v", err)
	}
	for _, f := range families {
		if f.GetName() == "weir_memory_counters" {
			return int(f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	t.Fatal("no metric weir_memory_counters")
	return 0
}
