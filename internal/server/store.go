package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
	"weir/internal/limiter/failover"
	"weir/internal/limiter/memory"
	"weir/internal/limiter/redis"
	"weir/internal/operators/api"
	"weir/internal/settings"
)

// store is what keeps the counters, with what the server has to know of it.
type store struct {
	limiter.CounterStore
	failover *failover.Failover          // nil in memory
	name     func() string               // what and where it is
	refused  func() error                // why a changed URL, user or password is not in use, nil in memory
	ping     func(context.Context) error // reports whether it can decide, nil if that is no question
	state    func() redis.State          // says what became of the last calls, nil with ping
	// failureMode is that of limits that have none of their own.
	failureMode string
	followed    bool // its failures fail the health check, even after it has been found
	close       func() error
	// shared is what servers on the same Redis share, nil in memory, and forget forgets
	// which counters are over.
	shared redis.Shared
	forget func()
}

// Reset implements limiter.CounterStore. The counters in memory are reset, too, even if
// those of Redis are not.
func (s *store) Reset(ctx context.Context, hits []limiter.Hit) error {
	return errors.Join(s.CounterStore.Reset(ctx, hits), s.failover.Reset(ctx, hits))
}

// status is what the status page shows.
func (s *store) status() api.Store {
	if s.state == nil {
		return api.Store{Name: s.name(), Works: true}
	}
	now := s.state()
	status := api.Store{
		Name: s.name(), Works: now.FailingSince.IsZero() && !now.WorkedAt.IsZero(),
		WorkedAt: now.WorkedAt.UTC(), FailingSince: now.FailingSince.UTC(), FailedAt: now.FailedAt.UTC(),
		FailureMode: s.failureMode, Breaker: now.Breaker,
	}
	if !now.FailedAt.IsZero() {
		status.Problem = now.Kind + ": " + now.Problem
	}
	return status
}

// openStore makes the store that the settings name. Redis need not be there yet.
func openStore(s settings.Settings, changing *changingSecrets, logger *slog.Logger, reg prometheus.Registerer) (*store, error) {
	if s.Redis.Main.URL != "" {
		return openRedisOrElse(s, changing, logger, reg)
	}
	const kept = "counters are kept in memory, for this process only, because REDIS_URL is not set"
	limit := s.Store.MemoryMaxCounters
	if s.Redis.Variables == nil {
		logger.Info(kept, "max_counters", limit)
	} else { // somebody means to use Redis
		logger.Warn(kept, "max_counters", limit, "although_set", strings.Join(s.Redis.Variables, " "))
	}
	return &store{
		CounterStore: memory.New(memory.Options{MaxCounters: limit, Registerer: reg}),
		name:         func() string { return fmt.Sprintf("in memory, at most %d", limit) },
		close:        func() error { return nil },
	}, nil
}

// newKeys spells the keys of counters as the settings say. A cluster needs hash
// tags, which only make the keys longer elsewhere.
func newKeys(s settings.Settings) (limiter.Keys, error) {
	keys, err := limiter.NewKeys(string(s.Store.CacheKeyPrefix), s.Store.CacheKeyHashValues)
	if err == nil && s.Redis.Main.URL != "" && s.Redis.Clustered() {
		keys, err = keys.InBuckets()
	}
	if err != nil {
		return limiter.Keys{}, fmt.Errorf("CACHE_KEY_PREFIX: %w", err)
	}
	return keys, nil
}

// How long to wait between two tries to find Redis fit to decide.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 2 * time.Second
)

// nextLook is the time between two looks at a Redis that is followed.
const nextLook = time.Second

// find waits until Redis can decide for the first time or ctx ends. After that
// nobody asks it but for decisions, unless it is followed. The store itself logs
// what keeps it.
func (s *store) find(ctx context.Context, health *health, logger *slog.Logger) {
	for retry := firstRetry; s.ping(ctx) != nil; retry = min(2*retry, lastRetry) {
		if !pause(ctx, retry) {
			return
		}
	}
	logger.Info("redis can decide")
	health.setStoreFound(true)
	for s.followed && pause(ctx, nextLook) {
		if err := s.ping(ctx); ctx.Err() == nil {
			health.setStoreFound(err == nil)
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

// openRedisOrElse makes a store on Redis that decides by failure modes what Redis
// cannot.
func openRedisOrElse(s settings.Settings, changing *changingSecrets, logger *slog.Logger, reg prometheus.Registerer) (*store, error) {
	redis, err := openRedis(s, changing, logger, reg)
	if err != nil {
		return nil, err
	}
	redis.failover = failover.New(FailureMode(s.Failure.Mode), func() limiter.CounterStore {
		return memory.New(memory.Options{MaxCounters: s.Store.MemoryMaxCounters})
	}, reg)
	redis.failureMode = string(s.Failure.Mode)
	return redis, nil
}

// FailureMode returns what becomes of limits that do not say it themselves while
// Redis fails.
func FailureMode(m settings.Word) limiter.FailureMode {
	mode, _ := limiter.ParseFailureMode(string(m)) // the settings have checked it
	return mode
}
