package limitcases

import (
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"weir/internal/limiter"
	"weir/internal/limiter/memory"
	"weir/internal/limiter/redis"
	"weir/internal/testenv"
)

// patience is longer than anything takes on a busy machine.
const patience = 20 * time.Second

// clock is a clock that stands where it is set.
type clock struct{ micros atomic.Int64 }

func (c *clock) now() time.Time  { return time.UnixMicro(c.micros.Load()) }
func (c *clock) set(t time.Time) { c.micros.Store(t.UnixMicro()) }

// replica is one Weir, as its clients see it.
type replica struct {
	testing.TB
	store limiter.Store
}

// ask sends a request and returns the decision of its first hit.
func (r replica) ask(hits ...limiter.Hit) (first limiter.Decision, admitted bool) {
	r.Helper()
	out := make([]limiter.Decision, len(hits))
	denied, err := r.store.Decide(r.Context(), hits, out)
	if err != nil {
		r.Errorf("Decide: %v", err) // Fatalf is not for the many clients of an attack
	}
	return out[0], !denied
}

// expectAdmitted sends a request n times and wants it admitted each time.
func (r replica) expectAdmitted(n int, hits ...limiter.Hit) {
	r.Helper()
	for i := range n {
		if d, admitted := r.ask(hits...); !admitted {
			r.Fatalf("%s: request %d of %d is denied, want all admitted: %+v", hits[0].Key, i+1, n, d)
		}
	}
}

// expectDenied sends a request and wants it denied, with so long to wait.
func (r replica) expectDenied(retry time.Duration, hits ...limiter.Hit) {
	r.Helper()
	if d, admitted := r.ask(hits...); admitted || d.RetryAfter != retry {
		r.Fatalf("%s: admitted %v, retry after %v, want it denied and to retry after %v", hits[0].Key, admitted, d.RetryAfter, retry)
	}
}

// expectUsed looks at a counter without changing it.
func (r replica) expectUsed(want int64, hit limiter.Hit) {
	r.Helper()
	hit.Cost = 0
	if d, _ := r.ask(hit); d.Used != want {
		r.Fatalf("%s holds %d, want %d", hit.Key, d.Used, want)
	}
}

// hit asks for one unit of a limit for the identifier that a descriptor names,
// such as ip=192.0.2.1.
func hit(limit *limiter.Limit, key, value string) limiter.Hit {
	entries := []limiter.Entry{{Key: key, Value: value}}
	return limiter.Hit{Limit: limit, Key: limiter.Keys{}.Append(nil, "api", entries, nil, limit), Cost: 1}
}

// units is h with another cost.
func units(n uint64, h limiter.Hit) limiter.Hit {
	h.Cost = n
	return h
}

// onEachStore runs a case in memory and on Redis, both on the clock that it sets.
func onEachStore(t *testing.T, run func(r replica, c *clock)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		c := new(clock)
		run(replica{t, memory.New(memory.Options{Now: c.now})}, c)
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		c := new(clock)
		run(onRedis(t, testenv.RedisServer(t), c.now), c)
	})
}

// onRedis is a replica on a Redis that several may share. Without now, the clock
// of Redis tells the time.
func onRedis(t testing.TB, r interface{ Addr() string }, now func() time.Time) replica {
	t.Helper()
	s, err := redis.New(redis.Options{Main: redis.Server{Addr: r.Addr(), OpTimeout: patience}, Now: now, OneClock: true})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return replica{t, s}
}

// inspector looks at the counters behind the store's back.
type inspector struct {
	testing.TB
	client *goredis.Client
}

func inspect(t testing.TB, r *testenv.Redis) inspector {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: r.Addr(), ReadTimeout: patience})
	t.Cleanup(func() { c.Close() })
	return inspector{t, c}
}

// ttl is how long a key still lives; false if there is none. A key that would
// stay forever is an error.
func (i inspector) ttl(key []byte) (left time.Duration, ok bool) {
	i.Helper()
	left, err := i.client.PTTL(i.Context(), string(key)).Result()
	switch {
	case err != nil:
		i.Errorf("PTTL: %v", err)
	case left == -2:
		return 0, false
	case left < 0:
		i.Errorf("%s has no expiry", key)
	}
	return left, true
}

// expectGone waits until Redis has dropped all keys by itself.
func (i inspector) expectGone() {
	i.Helper()
	testenv.Until(i, "no counter is left", func() bool {
		n, err := i.client.DBSize(i.Context()).Result()
		return err == nil && n == 0
	})
}
