package server

import (
	"errors"
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/limiter/failover"
	"weir/internal/limiter/memory"
	"weir/internal/limiter/redis"
	"weir/internal/testenv"
)

// TestResetOfTheStore resets a counter where it is in Redis, and in memory while Redis is
// away.
func TestResetOfTheStore(t *testing.T) {
	r := testenv.RedisServer(t)
	counters := testenv.Must(redis.New(redis.Options{Main: redis.Server{Addr: r.Addr(), Timeout: 20 * time.Second}, Wait: 20 * time.Second, DenyMemory: 1 << 20}))(t)
	defer counters.Close()
	s := &store{CounterStore: counters, failover: failover.New(limiter.FailureLocal, func() limiter.CounterStore {
		return memory.New(memory.Options{})
	}, nil)}
	limit := testenv.Must(limiter.NewLimit(limiter.Spec{RequestsPerUnit: 1, Unit: limiter.Year}))(t)
	hits, out := []limiter.Hit{{Limit: limit, Key: []byte("k"), Cost: 1}}, make([]limiter.Decision, 1)
	decide := func(when string, want bool) {
		t.Helper()
		denied, err := s.Decide(t.Context(), hits, out)
		if errors.Is(err, limiter.ErrUnavailable) {
			denied, err = s.failover.Decide(t.Context(), hits, out, err)
		}
		if err != nil || denied != want {
			t.Errorf("%s: denied %t, error %v, want %t", when, denied, err, want)
		}
	}
	decide("first", false)
	decide("second", true)
	testenv.OK(t, s.Reset(t.Context(), hits))
	decide("after a reset", false)
	testenv.OK(t, s.Reset(t.Context(), hits)) // or the denial would be known
	r.Stop()
	decide("in memory", false)
	decide("in memory, again", true)
	if err := s.Reset(t.Context(), hits); !errors.Is(err, limiter.ErrUnavailable) {
		t.Errorf("got error %v of a Redis that is away", err)
	}
	decide("after a reset of the memory", false)
}
