package settings

import (
	"crypto/tls"
	"strings"
	"time"
)

// Store says where the counters are kept and what they count.
type Store struct {
	BackendType Backend `env:"BACKEND_TYPE" default:"redis" help:"Only 'redis' is supported."`

	RedisURL        string        `name:"redis-url" env:"REDIS_URL" placeholder:"URL" help:"Redis that keeps the counters: host:port, path of a unix socket, or a redis://, rediss:// or unix:// URL. Without it counters are kept in memory."`
	RedisSocketType SocketType    `env:"REDIS_SOCKET_TYPE" placeholder:"tcp|unix" help:"How to reach a Redis that is not given as a URL. By default unix for a path, tcp otherwise."`
	RedisAuth       Secret        `env:"REDIS_AUTH" placeholder:"PASSWORD" help:"Password of Redis, or user:password."`
	RedisTLS        bool          `name:"redis-tls" env:"REDIS_TLS" default:"false" help:"Reach Redis over TLS."`
	RedisOpTimeout  time.Duration `env:"REDIS_OP_TIMEOUT" default:"100ms" min:"1ms" max:"1m" help:"Longest that a decision waits for Redis. It waits less if the deadline of the request comes first."`

	CacheKeyPrefix     string `env:"CACHE_KEY_PREFIX" placeholder:"PREFIX" help:"Start of every counter's key, to keep deployments apart that share a Redis. May not contain '|'."`
	CacheKeyHashValues bool   `env:"CACHE_KEY_HASH_VALUES" default:"false" help:"Spell descriptor values in keys as digests, for privacy."`

	StopWhenOverLimit Choice `name:"stop-cache-key-increment-when-overlimit" env:"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT" placeholder:"true|false" help:"Whether a denied request is kept out of the counters: true, always; false, never, as by default in envoyproxy/ratelimit. If it is not set, only a descriptor with its own hits_addend, such as the tokens of an answer, is counted although its request is denied. The field charge of a limit wins." unit:"switch"`

	// RedisVariables are those that say how to use a Redis, if RedisURL names none.
	RedisVariables []string `kong:"-"`

	MemoryMaxCounters int `env:"MEMORY_MAX_COUNTERS" default:"1000000" min:"1000" help:"Most counters kept in memory, 60 bytes each and as much as their keys. Beyond it, those nearest to the end of their window are given up." unit:"counters"`
}

// RedisSocket is the kind of socket at RedisURL, empty if that says it itself.
func (s Store) RedisSocket() string {
	if s.RedisSocketType == "" && strings.HasPrefix(s.RedisURL, "/") {
		return "unix"
	}
	return string(s.RedisSocketType)
}

// RedisName is where Redis is, without what may be a password.
func (s Store) RedisName() string {
	return s.RedisURL[strings.LastIndexByte(s.RedisURL, '@')+1:]
}

// RedisLogin takes the user, which may be empty, and the password from RedisAuth.
func (s Store) RedisLogin() (user, password string) {
	user, password, found := strings.Cut(string(s.RedisAuth), ":")
	if !found {
		return "", string(s.RedisAuth)
	}
	return user, password
}

// RedisTLSConfig is nil unless Redis is reached over TLS.
func (s Store) RedisTLSConfig() *tls.Config {
	if !s.RedisTLS {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12}
}
