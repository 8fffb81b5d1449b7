package settings

import (
	"errors"
	"strings"
	"time"
)

// Redis says which Redis keeps the counters, and how to reach it.
type Redis struct {
	Main RedisServer `embed:"" prefix:"redis-" envprefix:"REDIS_" set:"absent=If it is not set, counters are kept in memory."`

	TLSCACert                   string `name:"redis-tls-cacert" env:"REDIS_TLS_CACERT" placeholder:"FILE" help:"Authorities of Redis. By default the system's."`
	TLSClientCert               string `name:"redis-tls-client-cert" env:"REDIS_TLS_CLIENT_CERT" placeholder:"FILE" help:"Certificate for Redis."`
	TLSClientKey                string `name:"redis-tls-client-key" env:"REDIS_TLS_CLIENT_KEY" placeholder:"FILE" help:"Key of that certificate."`
	TLSSkipHostnameVerification bool   `name:"redis-tls-skip-hostname-verification" env:"REDIS_TLS_SKIP_HOSTNAME_VERIFICATION" default:"false" help:"Accept any host name in the certificate of Redis."`

	HealthCheckActiveConnection bool `name:"redis-health-check-active-connection" env:"REDIS_HEALTH_CHECK_ACTIVE_CONNECTION" default:"false" help:"Be unhealthy whenever Redis cannot decide, not only until it first can."`

	UsePerSecond bool        `name:"redis-persecond" env:"REDIS_PERSECOND" default:"false" help:"Keep limits per second in a second Redis. Other Redis settings hold for both."`
	PerSecond    RedisServer `embed:"" prefix:"redis-persecond-" envprefix:"REDIS_PERSECOND_" set:"absent=Needed if REDIS_PERSECOND is on."`

	DenyMemory int `name:"local-cache-size-in-bytes" env:"LOCAL_CACHE_SIZE_IN_BYTES" default:"4194304" min:"0" max:"1073741824" help:"Memory to deny used-up limits without Redis, at most LOCAL_CACHE_MAX_AGE. Half as much more remembers other counters. 0 is none."`

	DenyMaxAge time.Duration `name:"local-cache-max-age" env:"LOCAL_CACHE_MAX_AGE" default:"1s" min:"1s" max:"1h" help:"Longest time to deny a used-up limit without Redis, and so for which what other processes refund, or a deleted counter, may go unnoticed."`

	// Variables are those that say how to use a Redis, if none is named.
	Variables []string `kong:"-"`
}

// RedisPlace says where one Redis is. The help of its URL ends with what it
// means to have none, ${absent}.
type RedisPlace struct {
	URL     Secret `name:"url" env:"URL" placeholder:"URL" help:"Redis: host:port, socket path, or redis://, rediss:// or unix:// URL. SENTINEL: name,host:port,... (primary, sentinels). CLUSTER: host:port,... ${absent}"`
	URLFile string `name:"url-file" env:"URL_FILE" placeholder:"FILE" help:"File with this URL, read again every second."`
	Type    Word   `env:"TYPE" default:"SINGLE" help:"SINGLE, SENTINEL or CLUSTER." words:"SINGLE,SENTINEL,CLUSTER" not:"is not a type of Redis" lower:""`
}

// Named reports whether the place of a Redis is named, if only by a file.
func (p RedisPlace) Named() bool { return p.URL != "" || p.URLFile != "" }

// Clustered reports whether it is a cluster, so that keys need hash tags.
func (p RedisPlace) Clustered() bool { return p.Type == clusterType }

// RedisServer says where one Redis is, and what belongs to it alone.
type RedisServer struct {
	RedisPlace

	SocketType   Word          `env:"SOCKET_TYPE" placeholder:"tcp|unix" help:"tcp or unix, if Redis is no URL. By default unix for a path, else tcp." words:"tcp,unix" not:"is not a socket type"`
	Auth         Secret        `env:"AUTH" placeholder:"PASSWORD" help:"Password of Redis, or user:password."`
	AuthFile     string        `name:"auth-file" env:"AUTH_FILE" placeholder:"FILE" help:"File with this password, read again every second."`
	AuthCommand  Secret        `name:"auth-command" env:"AUTH_COMMAND" placeholder:"PROGRAM ARGUMENT..." help:"Program that prints this password, such as a token, within 10 s. Words are separated by blanks, there is no shell. It runs again when Redis refuses what it printed."`
	AuthEvery    time.Duration `name:"auth-command-interval" env:"AUTH_COMMAND_INTERVAL" default:"5m" min:"1s" max:"24h" help:"Time between two runs: less than a token lasts."`
	SentinelAuth Secret        `env:"SENTINEL_AUTH" placeholder:"PASSWORD" help:"Password of the sentinels, or user:password."`
	SentinelFile string        `name:"sentinel-auth-file" env:"SENTINEL_AUTH_FILE" placeholder:"FILE" help:"File with this password, read again every second."`
	TLS          bool          `name:"tls" env:"TLS" default:"false" help:"Use TLS 1.2 or later to Redis and sentinels."`
	PoolSize     int           `env:"POOL_SIZE" default:"10" min:"1" max:"10000" help:"Most connections to each node of a cluster. Other types get at most 4."`
	Timeout      time.Duration `env:"TIMEOUT" default:"1s" min:"1ms" help:"Longest time to connect or to answer. A request waits until just before its deadline, without one 100 ms, if that is sooner."`
}

// Socket is the kind of socket at URL, empty if that says it itself.
func (s RedisServer) Socket() string {
	if s.SocketType == "" && strings.HasPrefix(string(s.URL), "/") {
		return "unix"
	}
	return string(s.SocketType)
}

// Name is where Redis is, without what may be a password.
func (s RedisServer) Name() string {
	url := string(s.URL)
	name, _, _ := strings.Cut(url[strings.LastIndexByte(url, '@')+1:], "?")
	return name
}

// Encrypted reports whether Redis is reached over TLS.
func (s RedisServer) Encrypted() bool {
	for address := range strings.SplitSeq(string(s.URL), ",") {
		if strings.HasPrefix(strings.TrimSpace(address), "rediss://") {
			return true
		}
	}
	return s.TLS
}

// Login takes the user, which may be empty, and the password from an Auth.
func (s Secret) Login() Login {
	user, password, found := strings.Cut(string(s), ":")
	if !found {
		return Login{"", string(s)}
	}
	return Login{user, password}
}

// Clustered reports whether counters are kept in a cluster, so that their keys need
// hash tags.
func (r *Redis) Clustered() bool {
	return r.Main.Clustered() || r.UsePerSecond && r.PerSecond.Clustered()
}

// Encrypted reports whether any Redis is reached over TLS.
func (r *Redis) Encrypted() bool {
	return r.Main.Encrypted() || r.UsePerSecond && r.PerSecond.Encrypted()
}

// check says what is wrong with a setting, or does not go with another.
func (r *Redis) check() error {
	switch {
	case r.UsePerSecond && !r.Main.Named():
		return wrong("REDIS_PERSECOND", "needs $REDIS_URL, which keeps all other limits")
	case r.UsePerSecond && !r.PerSecond.Named():
		return wrong("REDIS_PERSECOND_URL", "is not set, but $REDIS_PERSECOND is")
	}
	for _, login := range []struct {
		variable string
		Secret
	}{
		{"REDIS_AUTH", r.Main.Auth},
		{"REDIS_SENTINEL_AUTH", r.Main.SentinelAuth},
		{"REDIS_PERSECOND_AUTH", r.PerSecond.Auth},
		{"REDIS_PERSECOND_SENTINEL_AUTH", r.PerSecond.SentinelAuth},
	} {
		if l := login.Login(); l.User != "" && l.Password == "" {
			return wrong(login.variable, "has nothing after the colon, allowed are PASSWORD and USER:PASSWORD")
		}
	}
	var errs []error
	if r.Main.URL != "" {
		errs = append(errs, r.checkURL("REDIS_URL", r.Main))
	}
	if r.UsePerSecond && r.PerSecond.URL != "" {
		errs = append(errs, r.checkURL("REDIS_PERSECOND_URL", r.PerSecond))
	}
	if r.Encrypted() {
		errs = append(errs, checkPair(file{"REDIS_TLS_CLIENT_CERT", r.TLSClientCert}, file{"REDIS_TLS_CLIENT_KEY", r.TLSClientKey}))
	}
	return errors.Join(errs...)
}

// checkURL says what is wrong with the variable that names s.
func (r *Redis) checkURL(variable string, s RedisServer) error {
	if s.Auth == "" && (s.AuthFile != "" || s.AuthCommand != "") {
		s.Auth = "to come"
	}
	if s.SentinelAuth == "" && s.SentinelFile != "" {
		s.SentinelAuth = "to come"
	}
	if _, err := s.Address(); err != nil {
		return wrong(variable, "%w", err)
	}
	return nil
}
