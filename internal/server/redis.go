package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"

	"weir/internal/limiter/redis"
	"weir/internal/settings"
	"weir/internal/settings/follow"
)

// openRedis makes a store on the Redis, or the two, that the settings name. They need not be
// there yet.
func (a *App) openRedis() error {
	all := a.opts.Settings
	s := all.Redis
	var encrypt func() *tls.Config
	if s.Encrypted() {
		files, err := a.openTLS("redis", follow.ClientTLS, follow.TLSOptions{
			CertFile: s.TLSClientCert, KeyFile: s.TLSClientKey, CAFile: s.TLSCACert, SkipHostnameVerification: s.TLSSkipHostnameVerification,
		})
		if err != nil {
			return fmt.Errorf("REDIS_TLS_CACERT, REDIS_TLS_CLIENT_CERT or REDIS_TLS_CLIENT_KEY: %w", err)
		}
		encrypt = files.TLS
	}
	options := redis.Options{
		KeyPrefix:  all.Store.CacheKeyPrefix,
		DenyMemory: s.DenyMemory,
		Logger:     a.logger,
		Registerer: a.storeRegistry,
	}
	var err error
	options.Main, err = redisServer(s.Main, encrypt)
	log := []any{"redis", s.Main.Name(), "type", s.Main.Type, "timeout", options.Main.Timeout}
	if s.UsePerSecond && err == nil {
		var second redis.Server
		second, err = redisServer(s.PerSecond, encrypt)
		options.PerSecond = &second
		log = append(log, "per_second", s.PerSecond.Name(), "per_second_type", s.PerSecond.Type)
	}
	if err != nil {
		return err
	}
	if a.secrets.has("REDIS_") {
		followRedis(&options, a.secrets)
	}
	if a.store.shared, err = redis.OpenShared(options.Main, options.KeyPrefix); err != nil {
		return err
	}
	a.parts.add("the shared data", nil, func(context.Context) error { return a.store.shared.Close() })
	if a.store.redis, err = redis.New(options); err != nil {
		return err
	}
	a.parts.add("store", func(ctx context.Context) error { a.findRedis(ctx); return nil }, func(context.Context) error { return a.store.redis.Close() })
	a.store.CounterStore = a.store.redis
	a.logger.Info("counters are in Redis", log...)
	return nil
}

// redisServer says how to reach one of the two Redis.
func redisServer(of settings.RedisServer, encrypt func() *tls.Config) (redis.Server, error) {
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
		Timeout:          of.Timeout,
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
			latest, err := redisServer(which(changing.now().Redis), first.TLS)
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
