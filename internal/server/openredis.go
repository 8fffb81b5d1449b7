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

// openRedis opens the store on the one or two Redis deployments in the settings, without waiting
// for them. It passes found to findRedis.
func (s *store) openRedis(o Options, life *lifecycle, secrets *secrets, found func(bool)) error {
	r := o.Settings.Redis
	var encrypt func() *tls.Config
	if r.Encrypted() {
		files, err := openTLS(o, life, secrets, "redis", follow.TLSOptions{
			CertFile: r.TLSClientCert, KeyFile: r.TLSClientKey, CAFile: r.TLSCACert, SkipHostnameVerification: r.TLSSkipHostnameVerification,
		})
		if err != nil {
			return fmt.Errorf("REDIS_TLS_CACERT, REDIS_TLS_CLIENT_CERT or REDIS_TLS_CLIENT_KEY: %w", err)
		}
		encrypt = files.TLS
	}
	options := redis.Options{
		Main:       redisServer(secrets, encrypt, false),
		KeyPrefix:  o.Settings.Store.CacheKeyPrefix,
		DenyMemory: r.DenyMemory, DenyCharged: r.DenyCharged,
		Logger:     o.Logger,
		Registerer: s.registry,
	}
	if r.UsePerSecond {
		options.PerSecond = new(redisServer(secrets, encrypt, true))
	}
	shared := redis.OpenShared(options.Main, options.KeyPrefix)
	s.shared, s.shares = shared, shared
	life.add(&component{name: "the shared data", stop: func(context.Context) error { return shared.Close() }})
	s.redis = redis.New(options)
	run := func(ctx context.Context) error { s.findRedis(ctx, o, found); return nil }
	life.add(&component{name: "store", run: run, stop: func(context.Context) error { return s.redis.Close() }})
	s.CounterStore = s.redis
	o.Logger.Info("counters are in Redis", "redis", s.redisNames(), "type", r.Main.Type, "timeout", r.Main.Timeout)
	return nil
}

// redisNames returns the addresses of the one or two Redis deployments, for logs and errors.
func (s *store) redisNames() string {
	return strings.Join(s.redis.Names(), ", of limits per second at ")
}

// redisServer returns the address and login of the main Redis or, if perSecond is true, of the
// Redis for limits per second. If its secrets may change, the field Latest returns the current
// address and login, and Renew reads the secrets again.
func redisServer(secrets *secrets, encrypt func() *tls.Config, perSecond bool) redis.Server {
	describe := func(s settings.Settings) redis.Server {
		of := s.Redis.Main
		if perSecond {
			of = s.Redis.PerSecond
		}
		to, _ := of.Address() // checked at the start and at each change
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
	server := describe(secrets.now())
	followed := slices.DeleteFunc(slices.Clone(secrets.list), func(s secret) bool { return !strings.HasPrefix(s.Variable, "REDIS_") })
	if len(followed) > 0 {
		server.Latest = func() redis.Server { return describe(secrets.now()) }
		server.Renew = func(ctx context.Context) {
			for _, s := range followed {
				s.Renew(ctx)
			}
		}
	}
	return server
}
