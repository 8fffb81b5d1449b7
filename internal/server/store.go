package server

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
	"weir/internal/limiter/failover"
	"weir/internal/limiter/memory"
	"weir/internal/limiter/redis"
	"weir/internal/operators"
)

// store keeps the counters. While Redis fails, plan.Decider decides by failover.
type store struct {
	limiter.CounterStore
	memory   *memory.Store      // nil with Redis
	redis    *redis.Store       // nil if counters are in memory, as are the next three fields
	shared   operators.Shared   // the data that servers on the same Redis share
	shares   limiter.ShareStore // divides limits with quota_service among servers
	failover *failover.Failover // decides by failure modes while Redis fails

	registry    *prometheus.Registry // the metrics of the store
	maxCounters int                  // maximum number of counters in memory, of this store or of failover
}

// Reset implements limiter.CounterStore. It resets the counters in memory even if Redis fails.
func (s *store) Reset(ctx context.Context, hits []limiter.Hit) error {
	return errors.Join(s.CounterStore.Reset(ctx, hits), s.failover.Reset(ctx, hits))
}

// openStore opens the store that the settings name, without waiting for Redis. If counters are in
// memory, it calls found with true; otherwise, findRedis calls found.
func openStore(o Options, life *lifecycle, secrets *secrets, found func(bool)) (*store, error) {
	st := &store{registry: prometheus.NewRegistry(), maxCounters: maxCounters()}
	o.Registry.MustRegister(st.registry)
	inMemory := memory.Options{MaxCounters: st.maxCounters}
	if s := o.Settings; s.Redis.Main.URL != "" {
		st.failover = failover.New(FailureMode(s.Failure), func() limiter.CounterStore { return memory.New(inMemory) }, st.registry)
		return st, st.openRedis(o, life, secrets, found)
	}
	const kept = "counters are in memory of this server only, because REDIS_URL is not set"
	if set := o.Settings.Redis.Variables; set == nil {
		o.Logger.Info(kept, "max_counters", inMemory.MaxCounters)
	} else { // other variables of Redis are set
		o.Logger.Warn(kept, "max_counters", inMemory.MaxCounters, "although_set", strings.Join(set, " "))
	}
	inMemory.Registerer = st.registry
	st.memory = memory.New(inMemory)
	st.CounterStore = st.memory
	found(true)
	return st, nil
}

// findRedis calls found with true when Redis first answers. If Redis.HealthCheckActiveConnection is
// true, it then tells found every second, until ctx ends, whether Redis answers. The store logs errors.
func (s *store) findRedis(ctx context.Context, o Options, found func(bool)) {
	for retry := 50 * time.Millisecond; s.redis.Ping(ctx) != nil; retry = min(2*retry, 2*time.Second) {
		if !pause(ctx, retry) {
			return
		}
	}
	o.Logger.Info("redis is available")
	found(true)
	for o.Settings.Redis.HealthCheckActiveConnection && pause(ctx, time.Second) {
		if err := s.redis.Ping(ctx); ctx.Err() == nil {
			found(err == nil)
		}
	}
}

// pause waits for d and returns true, or returns false as soon as ctx is done.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
