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
		KeyPrefix:  string(all.Store.CacheKeyPrefix),
		DenyMemory: s.DenyMemory,
		DenyMaxAge: s.DenyMaxAge,
		Logger:     logger,
		Registerer: reg,
	}
	options.Main, err = redisServer(s, s.Main, encrypt)
	log := []any{"redis", s.Main.Name(), "type", s.Main.Type, "op_timeout", options.Main.OpTimeout}
	if s.UsePerSecond && err == nil {
		var second redis.Server
		second, err = redisServer(s, s.PerSecond, encrypt)
		options.PerSecond = &second
		log = append(log, "per_second", s.PerSecond.Name(), "per_second_type", s.PerSecond.Type)
	}
	if err != nil {
		stop()
		return nil, err
	}
	if changing.has("REDIS_") {
		followRedis(&options, changing)
	}
	shared, err := redis.OpenShared(options.Main, options.KeyPrefix)
	if err != nil {
		stop()
		return nil, err
	}
	redis, err := redis.New(options)
	if err != nil {
		stop()
		return nil, errors.Join(err, shared.Close())
	}
	logger.Info("counters are kept in Redis", log...)
	return &store{
		CounterStore: redis,
		name:         func() string { return "in Redis at " + strings.Join(redis.Names(), ", of limits per second at ") },
		refused:      redis.Refused,
		shared:       shared, forget: redis.ForgetDenials,
		ping: redis.Ping, state: redis.State, followed: s.HealthCheckActiveConnection,
		close: func() error {
			stop()
			return errors.Join(redis.Close(), shared.Close())
		},
	}, nil
}

// redisServer says how to reach of, one of the two Redis of s.
func redisServer(s settings.Redis, of settings.RedisServer, encrypt func() *tls.Config) (redis.Server, error) {
	a, err := of.Address()
	if err != nil {
		return redis.Server{}, err
	}
	server := redis.Server{
		Type:             redis.Type(of.Type),
		Network:          a.Network,
		Addr:             strings.Join(a.Addrs, ","),
		Primary:          a.Primary,
		DB:               a.DB,
		Username:         a.Login.User,
		Password:         a.Login.Password,
		SentinelUsername: a.Sentinel.User,
		SentinelPassword: a.Sentinel.Password,
		PoolSize:         of.PoolSize,
		OpTimeout:        min(s.OpTimeout, of.Timeout),
		ConnectTimeout:   of.Timeout,
	}
	if of.Encrypted() {
		server.TLS = encrypt
	}
	return server, nil
}

// followRedis has the store take URLs, users and passwords as they change: it asks for the
// settings as they are now, and has them read anew when Redis refuses a login.
func followRedis(o *redis.Options, changing *changingSecrets) {
	follow := func(server *redis.Server, which func(settings.Redis) settings.RedisServer) {
		first := *server
		server.Renew = changing.renew
		server.Latest = func() redis.Server {
			s := changing.now().Redis
			latest, err := redisServer(s, which(s), first.TLS)
			if err != nil {
				return first // the settings were checked when they changed
			}
			return latest
		}
	}
	follow(&o.Main, func(s settings.Redis) settings.RedisServer { return s.Main })
	if o.PerSecond != nil {
		follow(o.PerSecond, func(s settings.Redis) settings.RedisServer { return s.PerSecond })
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
