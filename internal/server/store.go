package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
	"weir/internal/limiter/failover"
	"weir/internal/limiter/memory"
	"weir/internal/limiter/redis"
	"weir/internal/operators"
	"weir/internal/settings"
)

// store is what keeps the counters, with what decides while Redis cannot.
type store struct {
	limiter.CounterStore
	redis    redis.Store        // nil in memory, as are the next two
	shared   operators.Shared   // what servers on the same Redis share
	failover *failover.Failover // decides by failure modes what Redis cannot

	maxCounters int // in memory, of this store or of failover
}

// Reset implements limiter.CounterStore. The counters in memory are reset, too, even if
// those of Redis are not.
func (s *store) Reset(ctx context.Context, hits []limiter.Hit) error {
	return errors.Join(s.CounterStore.Reset(ctx, hits), s.failover.Reset(ctx, hits))
}

// openStore makes the store that the settings name. Redis need not be there yet.
func (a *App) openStore() error {
	s := a.opts.Settings
	a.storeRegistry = prometheus.NewRegistry()
	a.opts.Registry.MustRegister(a.storeRegistry)
	a.store.maxCounters = maxCounters()
	inMemory := memory.Options{MaxCounters: a.store.maxCounters}
	if s.Redis.Main.URL != "" {
		a.store.failover = failover.New(FailureMode(s.Failure.Mode), func() limiter.CounterStore { return memory.New(inMemory) }, a.storeRegistry)
		return a.openRedis()
	}
	const kept = "counters are in memory of this server only, because REDIS_URL is not set"
	if s.Redis.Variables == nil {
		a.logger.Info(kept, "max_counters", inMemory.MaxCounters)
	} else { // somebody means to use Redis
		a.logger.Warn(kept, "max_counters", inMemory.MaxCounters, "although_set", strings.Join(s.Redis.Variables, " "))
	}
	inMemory.Registerer = a.storeRegistry
	a.store.CounterStore = memory.New(inMemory)
	a.health.setStoreFound(true)
	return nil
}

// NewKeys spells the keys of counters as the settings say. A cluster needs hash
// tags, which only make the keys longer elsewhere.
func NewKeys(s settings.Keys, cluster bool) (limiter.Keys, error) {
	keys, err := limiter.NewKeys(s.CacheKeyPrefix, s.CacheKeyHashValues)
	if err == nil && cluster {
		keys, err = keys.InBuckets()
	}
	if err != nil {
		return limiter.Keys{}, fmt.Errorf("CACHE_KEY_PREFIX: %w", err)
	}
	return keys, nil
}

// findRedis waits until Redis can decide for the first time or ctx ends. After that
// only decisions and an open breaker ask it, unless health follows it. The store itself
// logs what keeps it.
func (a *App) findRedis(ctx context.Context) {
	for retry := 50 * time.Millisecond; a.store.redis.Ping(ctx) != nil; retry = min(2*retry, 2*time.Second) {
		if !pause(ctx, retry) {
			return
		}
	}
	a.logger.Info("redis is available")
	a.health.setStoreFound(true)
	for a.opts.Settings.Redis.HealthCheckActiveConnection && pause(ctx, time.Second) {
		if err := a.store.redis.Ping(ctx); ctx.Err() == nil {
			a.health.setStoreFound(err == nil)
		}
	}
}

// pause waits, and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// FailureMode returns what becomes of limits that do not say it themselves while
// Redis fails. The settings have checked m.
func FailureMode(m settings.Word) limiter.FailureMode {
	return limiter.FailureError + limiter.FailureMode(slices.Index(limiter.FailureModeNames(), string(m)))
}
