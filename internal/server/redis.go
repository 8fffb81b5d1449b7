package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter/redis"
	"weir/internal/settings"
	"weir/internal/settings/follow"
)

// openRedis makes a store on the Redis, or the two, that the settings name. They need not be
// there yet.
func openRedis(all settings.Settings, changing *changingSecrets, logger *slog.Logger, reg prometheus.Registerer) (*store, error) {
	s := all.Redis
	encrypt, stop, err := redisTLS(s, logger, reg)
	if err != nil {
		return nil, err
	}
	options := redis.Options{
		Main:       s.Connection(s.Main, encrypt),
		KeyPrefix:  string(all.Store.CacheKeyPrefix),
		DenyMemory: s.DenyMemory,
		DenyMaxAge: s.DenyMaxAge,
		Logger:     logger,
		Registerer: reg,
	}
	log := []any{"redis", s.Main.Name(), "type", s.Main.Type, "op_timeout", options.Main.OpTimeout}
	if s.UsePerSecond {
		second := s.Connection(s.PerSecond, encrypt)
		options.PerSecond = &second
		log = append(log, "per_second", s.PerSecond.Name(), "per_second_type", s.PerSecond.Type)
	}
	if changing.has("REDIS_") {
		followRedis(&options, changing, encrypt)
	}
	board, err := redis.OpenBoard(options.Main, options.KeyPrefix)
	if err != nil {
		stop()
		return nil, err
	}
	redis, err := redis.New(options)
	if err != nil {
		stop()
		return nil, errors.Join(err, board.Close())
	}
	logger.Info("counters are kept in Redis", log...)
	return &store{
		CounterStore: redis,
		name:         func() string { return "in Redis at " + strings.Join(redis.Names(), ", of limits per second at ") },
		refused:      redis.Refused,
		board:        board, forget: redis.ForgetDenials,
		ping: redis.Ping, state: redis.State, followed: s.HealthCheckActiveConnection,
		close: func() error {
			stop()
			return errors.Join(redis.Close(), board.Close())
		},
	}, nil
}

// followRedis has the store take URLs, users and passwords as they change: redisconn asks for
// the settings as they are now, and has them read anew when Redis refuses a login.
func followRedis(o *redis.Options, changing *changingSecrets, encrypt func() *tls.Config) {
	now := func() settings.Redis { return changing.now().Redis }
	o.Main = settings.Follow(now, settings.Redis.First, encrypt, changing.renew)
	if o.PerSecond != nil {
		*o.PerSecond = settings.Follow(now, settings.Redis.Second, encrypt, changing.renew)
	}
}

// redisTLS reads the TLS files, if a Redis is reached over TLS, and follows them
// until it is stopped.
func redisTLS(s settings.Redis, logger *slog.Logger, reg prometheus.Registerer) (config func() *tls.Config, stop func(), err error) {
	if !s.Encrypted() {
		return nil, func() {}, nil
	}
	files, err := follow.ClientTLS(follow.TLSOptions{
		CertFile:                 s.TLSClientCert,
		KeyFile:                  s.TLSClientKey,
		CAFile:                   s.TLSCACert,
		SkipHostnameVerification: s.TLSSkipHostnameVerification,
		Logger:                   logger,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("REDIS_TLS_CACERT, REDIS_TLS_CLIENT_CERT or REDIS_TLS_CLIENT_KEY: %w", err)
	}
	registerCertificates(reg, "redis", files.TLS)
	return files.TLS, files.Close, nil
}
