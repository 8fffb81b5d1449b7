package app

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
	"weir/internal/limiter/failover"
	"weir/internal/limiter/memstore"
	"weir/internal/settings"
)

// openRedisOrElse makes a store on Redis that decides by failure modes what Redis
// cannot.
func openRedisOrElse(s settings.Settings, logger *slog.Logger, reg prometheus.Registerer) (*store, error) {
	redis, err := openRedis(s.Redis, s.Store.CacheKeyPrefix, logger, reg)
	if err != nil {
		return nil, err
	}
	redis.Store = failover.New(failover.Options{
		Primary: limiter.NewPromises(redis.Store, nil),
		OpenLocal: func() limiter.Store {
			return memstore.New(memstore.Options{MaxCounters: s.Store.MemoryMaxCounters})
		},
		Mode:       FailureMode(s.Failure.Mode),
		Registerer: reg,
	})
	return redis, nil
}

// FailureMode tells what becomes of limits that do not say it themselves while
// Redis fails.
func FailureMode(m settings.FailureMode) limiter.FailureMode {
	mode, _ := limiter.ParseFailureMode(string(m)) // the settings have checked it
	return mode
}
