package app

import (
	"crypto/tls"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter/redisstore"
	"weir/internal/settings"
	"weir/internal/tlsfiles"
)

// openRedis makes a store on the Redis, or the two, that the settings name, for
// counters whose keys start with prefix. They need not be there yet.
func openRedis(s settings.Redis, prefix settings.KeyPrefix, logger *slog.Logger, reg prometheus.Registerer) (*store, error) {
	encrypt, stop, err := redisTLS(s, logger)
	if err != nil {
		return nil, err
	}
	options := redisOptions(s.Main, s, encrypt)
	options.Logger, options.Registerer = logger, reg
	options.DenyMemory, options.KeyPrefix = s.DenyMemory, string(prefix)
	name := "in Redis at " + s.Main.Name()
	if err = options.Validate(); err != nil {
		err = fmt.Errorf("REDIS_URL: %w", err)
	}
	if s.UsePerSecond && err == nil {
		second := redisOptions(s.PerSecond, s, encrypt)
		options.PerSecond = &second
		name += ", of limits per second at " + s.PerSecond.Name()
		if err = second.Validate(); err != nil {
			err = fmt.Errorf("REDIS_PERSECOND_URL: %w", err)
		}
	}
	if err != nil {
		stop()
		return nil, err
	}
	redis, err := redisstore.New(options)
	if err != nil {
		stop()
		return nil, err
	}
	log := []any{"redis", s.Main.Name(), "type", s.Main.Type, "op_timeout", options.OpTimeout}
	if s.UsePerSecond {
		log = append(log, "per_second", s.PerSecond.Name(), "per_second_type", s.PerSecond.Type)
	}
	logger.Info("counters are kept in Redis", log...)
	return &store{
		Store: redis, name: name,
		ping: redis.Ping, state: redis.State, followed: s.HealthCheckActiveConnection,
		close: func() error {
			stop()
			return redis.Close()
		},
	}, nil
}

// redisOptions says how to reach one of the two Redis.
func redisOptions(r settings.RedisServer, shared settings.Redis, encrypt func() *tls.Config) redisstore.Options {
	o := redisstore.Options{
		Type:           redisstore.Type(r.Type),
		URL:            string(r.URL),
		SocketType:     r.Socket(),
		PoolSize:       r.PoolSize,
		OpTimeout:      min(shared.OpTimeout, r.Timeout),
		ConnectTimeout: r.Timeout,
	}
	o.Username, o.Password = r.Auth.Login()
	o.SentinelUsername, o.SentinelPassword = r.SentinelAuth.Login()
	if r.Encrypted() {
		o.TLS = encrypt
	}
	return o
}

// redisTLS reads the TLS files, if a Redis is reached over TLS, and follows them
// until it is stopped.
func redisTLS(s settings.Redis, logger *slog.Logger) (config func() *tls.Config, stop func(), err error) {
	if !s.Encrypted() {
		return nil, func() {}, nil
	}
	files, err := tlsfiles.Client(tlsfiles.Options{
		CertFile:                 s.TLSClientCert,
		KeyFile:                  s.TLSClientKey,
		CAFile:                   s.TLSCACert,
		SkipHostnameVerification: s.TLSSkipHostnameVerification,
		Logger:                   logger,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("REDIS_TLS_CACERT, REDIS_TLS_CLIENT_CERT or REDIS_TLS_CLIENT_KEY: %w", err)
	}
	return files.TLS, files.Close, nil
}
