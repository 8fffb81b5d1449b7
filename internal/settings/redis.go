package settings

import (
	"cmp"
	"errors"
	"strings"
	"time"
)

// Redis says which Redis keeps the counters, and how to reach it.
type Redis struct {
	Main RedisServer `embed:"" prefix:"redis-" envprefix:"REDIS_" set:"absent=Unset: counters are in memory."`

	TLSCACert                   string `name:"redis-tls-cacert" env:"REDIS_TLS_CACERT" with:"REDIS_TLS" placeholder:"FILE" help:"Certificate authorities of Redis. Unset: the system's."`
	TLSClientCert               string `name:"redis-tls-client-cert" env:"REDIS_TLS_CLIENT_CERT" with:"REDIS_TLS" needs:"REDIS_TLS_CLIENT_KEY" placeholder:"FILE" help:"Client certificate for Redis."`
	TLSClientKey                string `name:"redis-tls-client-key" env:"REDIS_TLS_CLIENT_KEY" with:"REDIS_TLS" needs:"REDIS_TLS_CLIENT_CERT" placeholder:"FILE" help:"Key of that certificate."`
	TLSSkipHostnameVerification bool   `name:"redis-tls-skip-hostname-verification" env:"REDIS_TLS_SKIP_HOSTNAME_VERIFICATION" default:"false" help:"Accept any host name in Redis's certificate."`

	HealthCheckActiveConnection bool `name:"redis-health-check-active-connection" env:"REDIS_HEALTH_CHECK_ACTIVE_CONNECTION" default:"false" help:"Be unhealthy whenever Redis is unavailable, not only at start."`

	UsePerSecond bool        `name:"redis-persecond" env:"REDIS_PERSECOND" default:"false" help:"Keep limits per second in a second Redis."`
	PerSecond    RedisServer `embed:"" prefix:"redis-persecond-" envprefix:"REDIS_PERSECOND_" set:"absent=Needed with REDIS_PERSECOND."`

	DenyMemory int `name:"local-cache-size-in-bytes" env:"LOCAL_CACHE_SIZE_IN_BYTES" default:"4194304" min:"0" max:"1073741824" help:"Memory to deny used-up limits for a second without Redis; half as much for other counters."`

	// Variables are those that say how to use a Redis, if none is named.
	Variables []string `kong:"-"`
}

// RedisPlace says where one Redis is. The help of its URL ends with what it
// means to have none, ${absent}.
type RedisPlace struct {
	URL     Secret `name:"url" env:"URL" placeholder:"URL" help:"Redis: host:port, socket path, or redis://, rediss:// or unix:// URL. sentinel: name,host:port,... (primary, sentinels). cluster: host:port,... ${absent}"`
	URLFile string `name:"url-file" env:"URL_FILE" form:"secret file" placeholder:"FILE" help:"File with this URL."`
	Type    Word   `env:"TYPE" default:"single" help:"single, sentinel or cluster." words:"single,sentinel,cluster"`
}

// Named reports whether the place of a Redis is named, if only by a file.
func (p RedisPlace) Named() bool { return p.URL != "" || p.URLFile != "" }

// Clustered reports whether it is a cluster, so that keys need hash tags.
func (p RedisPlace) Clustered() bool { return p.Type == clusterType }

// RedisServer says where one Redis is, and what belongs to it alone.
type RedisServer struct {
	RedisPlace

	SocketType   Word          `env:"SOCKET_TYPE" placeholder:"tcp|unix" help:"tcp or unix. Unset: unix if the URL is a path, else tcp." words:"tcp,unix"`
	Auth         Secret        `env:"AUTH" placeholder:"PASSWORD" help:"Password of Redis, or user:password."`
	AuthFile     string        `name:"auth-file" env:"AUTH_FILE" form:"secret file" placeholder:"FILE" help:"File with this password."`
	AuthCommand  Secret        `name:"auth-command" env:"AUTH_COMMAND" placeholder:"PROGRAM ARGUMENT..." help:"Program (no shell) that prints this password within 10 s. Runs every 5 minutes and when Redis rejects the password."`
	SentinelAuth Secret        `env:"SENTINEL_AUTH" placeholder:"PASSWORD" help:"Password of the sentinels, or user:password."`
	SentinelFile string        `name:"sentinel-auth-file" env:"SENTINEL_AUTH_FILE" form:"secret file" placeholder:"FILE" help:"File with this password."`
	TLS          bool          `name:"tls" env:"TLS" default:"false" help:"Use TLS to Redis and its sentinels."`
	PoolSize     int           `env:"POOL_SIZE" default:"0" min:"0" max:"10000" help:"Maximum connections per cluster node. 0: as needed, at most 10."`
	Timeout      time.Duration `env:"TIMEOUT" default:"1s" min:"1ms" help:"Longest time to connect or answer. Requests wait until just before their deadline, or 100 ms if there is no deadline."`
}

// Name is where Redis is, without what may be a password.
func (s RedisServer) Name() string {
	url := string(s.URL)
	name, _, _ := strings.Cut(url[strings.LastIndexByte(url, '@')+1:], "?")
	return name
}

// Encrypted reports whether Redis is reached over TLS.
func (s RedisServer) Encrypted() bool { return s.TLS || strings.Contains(string(s.URL), "rediss://") }

// Clustered reports whether counters are kept in a cluster, so that their keys need
// hash tags.
func (r *Redis) Clustered() bool {
	return r.Main.Clustered() || r.UsePerSecond && r.PerSecond.Clustered()
}

// Encrypted reports whether any Redis is reached over TLS.
func (r *Redis) Encrypted() bool {
	return r.Main.Encrypted() || r.UsePerSecond && r.PerSecond.Encrypted()
}

// mayBeEncrypted reports whether settings of TLS may have an effect, as far as is known before
// the files of URLs are read. Without Redis, all its variables are warned of together.
func (r *Redis) mayBeEncrypted() bool {
	return r.Encrypted() || !r.Main.Named() || r.Main.URLFile != "" || r.PerSecond.URLFile != ""
}

// check says what is wrong with a setting, or does not go with another. Passwords may be
// still to come.
func (r *Redis) check() error {
	switch {
	case r.UsePerSecond && !r.Main.Named():
		return wrong("REDIS_PERSECOND", "needs $REDIS_URL, which keeps all other limits")
	case r.UsePerSecond && !r.PerSecond.Named():
		return wrong("REDIS_PERSECOND_URL", "is not set, but $REDIS_PERSECOND is")
	}
	err := r.Main.check("REDIS_URL")
	if r.UsePerSecond {
		err = errors.Join(err, r.PerSecond.check("REDIS_PERSECOND_URL"))
	}
	return err
}

func (s RedisServer) check(variable string) error {
	if s.AuthFile != "" || s.AuthCommand != "" {
		s.Auth = cmp.Or(s.Auth, "to come")
	}
	if s.SentinelFile != "" {
		s.SentinelAuth = cmp.Or(s.SentinelAuth, "to come")
	}
	if _, err := s.Address(); s.URL != "" && err != nil {
		return wrong(variable, "%w", err)
	}
	return nil
}
