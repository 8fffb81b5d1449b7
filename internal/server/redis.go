package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"

	"weir/internal/limiter/redis"
	"weir/internal/settings"
	"weir/internal/settings/follow"
)

// openRedis makes a store on the Redis, or the two, that the settings name. They need not be
// there yet.
func (a *App) openRedis() (err error) {
	s := a.opts.Settings.Redis
	var encrypt func() *tls.Config
	if s.Encrypted() {
		files, err := a.openTLS("redis", follow.TLSOptions{
			CertFile: s.TLSClientCert, KeyFile: s.TLSClientKey, CAFile: s.TLSCACert, SkipHostnameVerification: s.TLSSkipHostnameVerification,
		})
		if err != nil {
			return fmt.Errorf("REDIS_TLS_CACERT, REDIS_TLS_CLIENT_CERT or REDIS_TLS_CLIENT_KEY: %w", err)
		}
		encrypt = files.TLS
	}
	options := redis.Options{
		Main:       a.redisServer(encrypt, func(s settings.Redis) settings.RedisServer { return s.Main }),
		KeyPrefix:  a.opts.Settings.Store.CacheKeyPrefix,
		DenyMemory: s.DenyMemory, DenyCharged: s.DenyCharged,
		Logger:     a.logger,
		Registerer: a.storeRegistry,
	}
	if s.UsePerSecond {
		second := a.redisServer(encrypt, func(s settings.Redis) settings.RedisServer { return s.PerSecond })
		options.PerSecond = &second
	}
	shared, err := redis.OpenShared(options.Main, options.KeyPrefix)
	if err != nil {
		return err
	}
	a.store.shared = shared
	a.parts.add("the shared data", nil, func(context.Context) error { return shared.Close() })
	if a.store.redis, err = redis.New(options); err != nil {
		return err
	}
	a.parts.add("store", func(ctx context.Context) error { a.findRedis(ctx); return nil }, func(context.Context) error { return a.store.redis.Close() })
	a.store.CounterStore = a.store.redis
	a.logger.Info("counters are in Redis", "redis", a.redisNames(), "type", s.Main.Type, "timeout", s.Main.Timeout)
	return nil
}

// redisNames says where Redis is, or the two.
func (a *App) redisNames() string {
	return strings.Join(a.store.redis.Names(), ", of limits per second at ")
}

// redisServer says how to reach one of the two Redis. If secrets of Redis may change, the
// store asks for the URL, user and password as they are now, and has them read again when
// Redis refuses a login.
func (a *App) redisServer(encrypt func() *tls.Config, which func(settings.Redis) settings.RedisServer) redis.Server {
	describe := func(s settings.Settings) redis.Server {
		of := which(s.Redis)
		to, _ := of.Address() // which has been checked
		server := redis.Server{
			Type:             redis.Type(of.Type),
			Network:          to.Network,
			Addr:             strings.Join(to.Addrs, ","),
			Primary:          to.Primary,
			DB:               to.DB,
			Username:         to.Login.User,
			Password:         to.Login.Password,
			SentinelUsername: to.Sentinel.User,
			SentinelPassword: to.Sentinel.Password,
			PoolSize:         of.PoolSize,
			Timeout:          of.Timeout,
		}
		if of.Encrypted() {
			server.TLS = encrypt
		}
		return server
	}
	server := describe(a.opts.Settings)
	secrets := slices.DeleteFunc(slices.Clone(a.secrets), func(s secret) bool { return !strings.HasPrefix(s.Variable, "REDIS_") })
	if len(secrets) > 0 {
		server.Latest = func() redis.Server { return describe(a.now()) }
		server.Renew = func(ctx context.Context) {
			for _, s := range secrets {
				s.Renew(ctx)
			}
		}
	}
	return server
}
