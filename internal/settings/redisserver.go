package settings

import (
	"cmp"
	"errors"
	"net"
	neturl "net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Redis configures the one or two Redis deployments that keep the counters.
type Redis struct {
	Main RedisServer `embed:"" prefix:"redis-" envprefix:"REDIS_" set:"absent=Unset: counters are in memory."`

	TLSCACert                   string `name:"redis-tls-cacert" env:"REDIS_TLS_CACERT" with:"REDIS_TLS" placeholder:"FILE" help:"Certificate authorities of Redis. Unset: the system's."`
	TLSClientCert               string `name:"redis-tls-client-cert" env:"REDIS_TLS_CLIENT_CERT" with:"REDIS_TLS" needs:"REDIS_TLS_CLIENT_KEY" placeholder:"FILE" help:"Client certificate for Redis."`
	TLSClientKey                string `name:"redis-tls-client-key" env:"REDIS_TLS_CLIENT_KEY" with:"REDIS_TLS" needs:"REDIS_TLS_CLIENT_CERT" placeholder:"FILE" help:"Key of that certificate."`
	TLSSkipHostnameVerification bool   `name:"redis-tls-skip-hostname-verification" env:"REDIS_TLS_SKIP_HOSTNAME_VERIFICATION" default:"false" help:"Accept any host name in Redis's certificate."`

	HealthCheckActiveConnection bool `name:"redis-health-check-active-connection" env:"REDIS_HEALTH_CHECK_ACTIVE_CONNECTION" default:"false" help:"Be unhealthy whenever Redis is unavailable, not only at start."`
	ServeBeforeAssigned         bool `env:"SERVE_BEFORE_ASSIGNED" default:"false" help:"Be healthy before the assigned amounts are read from Redis. Until then, the rules' own count."`

	UsePerSecond bool        `name:"redis-persecond" env:"REDIS_PERSECOND" default:"false" help:"Keep limits per second in a second Redis."`
	PerSecond    RedisServer `embed:"" prefix:"redis-persecond-" envprefix:"REDIS_PERSECOND_" set:"absent=Needed with REDIS_PERSECOND."`

	DenyMemory int `name:"local-cache-size-in-bytes" env:"LOCAL_CACHE_SIZE_IN_BYTES" default:"4194304" min:"0" max:"1073741824" help:"Memory to deny used-up limits for a second without Redis; half as much for other counters."`

	// DenyCharged reports whether DenyMemory was set and denied requests are charged, as in a
	// deployment of envoyproxy/ratelimit.
	DenyCharged bool `kong:"-"`

	// Variables are the variables of Redis that are set although no Redis is named.
	Variables []string `kong:"-"`
}

// RedisLocation is the address and the type of a Redis. In the help, ${absent} stands for the
// behaviour without a URL.
type RedisLocation struct {
	URL     Secret `name:"url" env:"URL" placeholder:"URL" help:"Redis: host:port, socket path, or redis://, rediss:// or unix:// URL. sentinel: name,host:port,... (primary, sentinels). cluster: host:port,... ${absent}"`
	URLFile string `name:"url-file" env:"URL_FILE" form:"secret file" placeholder:"FILE" help:"File with this URL."`
	Type    Word   `env:"TYPE" default:"single" help:"single, sentinel or cluster." words:"single,sentinel,cluster"`
}

// Named reports whether the URL, or a file that contains it, is set.
func (p RedisLocation) Named() bool { return p.URL != "" || p.URLFile != "" }

// Clustered reports whether the Redis is a cluster, so that keys need hash tags.
func (p RedisLocation) Clustered() bool { return p.Type == clusterType }

// RedisServer has the settings of one Redis deployment. The other fields of Redis apply to both.
type RedisServer struct {
	RedisLocation

	SocketType   Word          `env:"SOCKET_TYPE" placeholder:"tcp|unix" help:"tcp or unix. Unset: unix if the URL is a path, else tcp." words:"tcp,unix"`
	Auth         Secret        `env:"AUTH" placeholder:"PASSWORD" help:"Password of Redis, or user:password. A password with a colon: :password, or as it is if the URL names the user."`
	AuthFile     string        `name:"auth-file" env:"AUTH_FILE" form:"secret file" placeholder:"FILE" help:"File with this password."`
	AuthCommand  Secret        `name:"auth-command" env:"AUTH_COMMAND" placeholder:"PROGRAM ARGUMENT..." help:"Program (no shell) that prints this password within 10 s. Runs every 5 minutes and when Redis rejects the password."`
	SentinelAuth Secret        `env:"SENTINEL_AUTH" placeholder:"PASSWORD" help:"Password of the sentinels, or user:password."`
	SentinelFile string        `name:"sentinel-auth-file" env:"SENTINEL_AUTH_FILE" form:"secret file" placeholder:"FILE" help:"File with this password."`
	TLS          bool          `name:"tls" env:"TLS" default:"false" help:"Use TLS to Redis and its sentinels."`
	PoolSize     int           `env:"POOL_SIZE" default:"0" min:"0" max:"10000" help:"Maximum connections per cluster node. 0: as needed, at most 10."`
	Timeout      time.Duration `env:"TIMEOUT" default:"1s" min:"1ms" help:"Longest time to connect or answer. Requests wait until just before their deadline, or 100 ms if there is no deadline."`
}

// Encrypted reports whether Redis is reached over TLS.
func (s RedisServer) Encrypted() bool { return s.TLS || strings.Contains(string(s.URL), "rediss://") }

// Clustered reports whether any counters are in a cluster, so that keys need hash tags.
func (r *Redis) Clustered() bool {
	return r.Main.Clustered() || r.UsePerSecond && r.PerSecond.Clustered()
}

// Encrypted reports whether any Redis is reached over TLS.
func (r *Redis) Encrypted() bool {
	return r.Main.Encrypted() || r.UsePerSecond && r.PerSecond.Encrypted()
}

// check returns an error if a setting is invalid, or a setting that it needs is missing. Passwords
// from files and commands need not be read yet.
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

// RedisAddress has the addresses and users that a RedisServer describes.
type RedisAddress struct {
	Network string   // tcp or unix
	Addrs   []string // the address of Redis, or the addresses of sentinels or of a cluster's first nodes
	Primary string   // the sentinels' name for the primary
	DB      int

	Login, Sentinel Login // for Redis and for its sentinels

	encrypted bool // the scheme is rediss
}

// Login is a user, whose name may be empty, and a password.
type Login struct{ User, Password string }

// or returns l if it has a password, otherwise the login in auth. If l has a user, all of auth is
// the password. If not, auth may be user:password, as in envoyproxy/ratelimit.
func (l Login) or(auth Secret) Login {
	if l.Password != "" {
		return l
	}
	if user, password, found := strings.Cut(string(auth), ":"); found && l.User == "" {
		return Login{user, password}
	}
	return Login{l.User, string(auth)}
}

// The types of Redis that have several addresses.
const (
	sentinelType Word = "sentinel"
	clusterType  Word = "cluster"
)

// Address returns the addresses and users of s, or an error that says which part is invalid. The
// URL may contain one user and password; in a list of sentinels they are for the sentinels. The
// error quotes nothing from the URL, because any part of it may be a password.
func (s RedisServer) Address() (a RedisAddress, err error) {
	entries, primary := []string{string(s.URL)}, ""
	several := s.Type == sentinelType || s.Type == clusterType
	if several {
		entries = strings.Split(string(s.URL), ",")
	}
	if s.Type == sentinelType {
		primary, entries = strings.TrimSpace(entries[0]), entries[1:]
		if len(entries) == 0 || primary == "" || strings.ContainsAny(primary, ":/@") {
			return a, errors.New("redis URL is not name,host:port,...: the name of the primary, then the addresses of its sentinels")
		}
	}
	for i, entry := range entries {
		node, err := s.parse(strings.TrimSpace(entry))
		switch {
		case err != nil:
			return a, err
		case several && (node.Network != "tcp" || node.DB != 0):
			return a, errors.New("redis URL has a unix socket or a database, which needs type single")
		case i == 0:
			a = node
		case node.Login != a.Login || node.encrypted != a.encrypted:
			return a, errors.New("redis URL has addresses that differ in user, password or scheme")
		default:
			a.Addrs = append(a.Addrs, node.Addrs...)
		}
	}
	a.Primary = primary
	if s.Type == sentinelType {
		a.Login, a.Sentinel = Login{}, a.Login.or(s.SentinelAuth)
	}
	a.Login = a.Login.or(s.Auth)
	switch {
	case a.Login.User != "" && a.Login.Password == "":
		return a, errors.New("redis user has no password")
	case a.Sentinel.User != "" && a.Sentinel.Password == "":
		return a, errors.New("sentinel user has no password")
	case s.Encrypted() && a.Network == "unix":
		return a, errors.New("redis URL is a unix socket, which does not support TLS")
	}
	return a, nil
}

// errURL quotes nothing from the URL. It wraps no error of net/url, because such errors quote the URL.
var errURL = errors.New("redis URL is not host:port, the path of a unix socket, or a URL with redis://, rediss:// or unix://; in a password, write special characters as %XX")

// parse parses one address of the URL.
func (s RedisServer) parse(text string) (a RedisAddress, err error) {
	if !strings.Contains(text, "://") {
		switch {
		case strings.ContainsAny(text, "@?"): // a URL without its scheme
			return a, errURL
		case s.SocketType == "unix" || strings.HasPrefix(text, "/"):
			text = "unix://" + text
		case text != "" && !strings.ContainsAny(text, ":/"):
			return a, errors.New("redis URL has no port; add a port, such as :6379")
		case !strings.Contains(text, ":") || strings.Contains(text, "/"):
			return a, errURL
		default:
			text = "redis://" + text
		}
	}
	u, err := neturl.Parse(text)
	if err != nil || u.Fragment != "" {
		return a, errURL
	}
	query, err := neturl.ParseQuery(u.RawQuery)
	if err != nil {
		return a, errURL
	}
	for name := range query {
		if name != "db" && name != "username" && name != "password" {
			return a, errors.New("redis URL has an unknown parameter; use db, username and password")
		}
	}
	password, _ := u.User.Password()
	a.Login = Login{cmp.Or(u.User.Username(), query.Get("username")), cmp.Or(password, query.Get("password"))}
	db := query.Get("db")
	switch u.Scheme {
	case "redis", "rediss":
		host, port := u.Hostname(), cmp.Or(u.Port(), "6379")
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" || strings.ContainsAny(host, ", ") || strings.HasSuffix(u.Host, ":") {
			return a, errURL
		}
		if u.User != nil && u.Port() == "" { // otherwise, the end of a password that contains @ could be taken for the host
			return a, errors.New("redis URL has a password but no port, which it needs then")
		}
		a.Network, a.Addrs, a.encrypted = "tcp", []string{net.JoinHostPort(host, port)}, u.Scheme == "rediss"
		db = cmp.Or(db, strings.Trim(u.Path, "/"))
	case "unix":
		if u.Path == "" || u.Host != "" || strings.Contains(u.Path, "@") {
			return a, errURL
		}
		a.Network, a.Addrs = "unix", []string{u.Path}
	default:
		return a, errURL
	}
	if a.DB, err = strconv.Atoi(cmp.Or(db, "0")); err != nil {
		return a, errURL
	}
	return a, nil
}

// checkChange returns an error if a server that uses s cannot switch to next without a restart. next
// must be valid, and may differ from s in URL, users and passwords, which the error does not quote.
func (s RedisServer) checkChange(next RedisServer) error {
	before, _ := s.Address()
	after, err := next.Address()
	switch {
	case err != nil || s.URL == next.URL:
		return nil
	case before.DB != after.DB:
		return errors.New("redis URL has another database, which needs a restart")
	case before.Network != after.Network || before.encrypted != after.encrypted:
		return errors.New("redis URL has another scheme, which needs a restart")
	case s.Type == clusterType && !slices.Equal(before.Addrs, after.Addrs):
		return errors.New("redis URL has other addresses of a cluster, which needs a restart")
	}
	return nil
}
