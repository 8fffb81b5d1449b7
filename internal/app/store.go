package app

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/admin"
	"weir/internal/limiter"
	"weir/internal/limiter/memstore"
	"weir/internal/limiter/redisstore"
	"weir/internal/settings"
)

// store is what keeps the counters, with what the server has to know of it.
type store struct {
	limiter.Store
	name  string                      // what and where it is
	ping  func(context.Context) error // tells whether it can decide, nil if that is no question
	state func() redisstore.State     // tells what became of the last calls, nil with ping
	close func() error
}

// status is what the status page shows.
func (s *store) status() admin.Store {
	if s.state == nil {
		return admin.Store{Name: s.name}
	}
	now := s.state()
	return admin.Store{
		Name: s.name, Remote: true,
		WorkedAt: now.WorkedAt, FailingSince: now.FailingSince,
		FailedAt: now.FailedAt, Kind: now.Kind, Problem: now.Problem,
	}
}

// openStore makes the store that the settings name. Redis need not be there yet.
func openStore(s settings.Store, logger *slog.Logger, reg prometheus.Registerer) (*store, error) {
	if s.RedisURL == "" {
		const kept = "counters are kept in memory, for this process only, because REDIS_URL is not set"
		if s.RedisVariables == nil {
			logger.Info(kept, "max_counters", s.MemoryMaxCounters)
		} else { // somebody means to use Redis
			logger.Warn(kept, "max_counters", s.MemoryMaxCounters, "although_set", strings.Join(s.RedisVariables, " "))
		}
		return &store{
			Store: memstore.New(memstore.Options{MaxCounters: s.MemoryMaxCounters, Registerer: reg}),
			name:  fmt.Sprintf("in memory, at most %d", s.MemoryMaxCounters),
			close: func() error { return nil },
		}, nil
	}
	user, password := s.RedisLogin()
	redis, err := redisstore.New(redisstore.Options{
		URL:        s.RedisURL,
		SocketType: s.RedisSocket(),
		Username:   user,
		Password:   password,
		TLS:        s.RedisTLSConfig(),
		OpTimeout:  s.RedisOpTimeout,
		Logger:     logger,
		Registerer: reg,
	})
	if err != nil {
		return nil, fmt.Errorf("REDIS_URL: %w", err)
	}
	logger.Info("counters are kept in Redis", "redis", s.RedisName(), "op_timeout", s.RedisOpTimeout)
	return &store{Store: redis, name: "in Redis at " + s.RedisName(), ping: redis.Ping, state: redis.State, close: redis.Close}, nil
}

// How long to wait between two tries to find Redis fit to decide.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 2 * time.Second
)

// find waits until Redis can decide for the first time or ctx ends. After that
// nobody asks it but for decisions. The store itself logs what keeps it.
func (s *store) find(ctx context.Context, found func(), logger *slog.Logger) {
	for retry := firstRetry; ; retry = min(2*retry, lastRetry) {
		err := s.ping(ctx)
		switch {
		case err == nil:
			logger.Info("redis can decide")
			found()
			return
		case ctx.Err() != nil:
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(retry):
		}
	}
}
