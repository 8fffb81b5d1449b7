package redisstore

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Options say which Redis to use, and how.
type Options struct {
	// Type is what Redis consists of. The zero value is Single.
	Type Type
	// URL is where Redis listens: host:port; redis://host[:port][/database];
	// redis://user:password@host:port[/database], where the user may be empty; the
	// same with rediss:// for TLS; unix://[user:password@]/path[?db=database]; or a
	// path if SocketType is "unix". Instead, database, user and password may be a
	// query: ?db=, &username= and &password=. With Sentinel it is the name of the
	// primary and the addresses of its sentinels, name,host:port,...; with Cluster
	// the addresses of some nodes, host:port,... Each of these may be a URL, with
	// the same user, password and scheme in all; those of sentinels are not Redis'.
	URL string
	// SocketType is "tcp", "unix" or empty, which means tcp. A URL with a scheme
	// says it itself.
	SocketType string
	// Username and Password are used where URL holds no password. A password alone
	// is that of Redis' default user.
	Username, Password string
	// SentinelUsername and SentinelPassword are for the sentinels.
	SentinelUsername, SentinelPassword string
	// TLS, if not nil, encrypts all connections, whatever the URL's scheme. It is
	// asked for each anew.
	TLS func() *tls.Config
	// PoolSize is how many connections there are at most to each node of a
	// cluster. 0 means DefaultPoolSize. Others need no more than a few.
	PoolSize int
	// ConnectTimeout bounds the making of a connection, which a second, or OpTimeout
	// if it is longer, does anyway. It goes on in the background when the call that
	// wants it gives up. 0 means no other bound.
	ConnectTimeout time.Duration
	// OpTimeout bounds one call and how long a request waits. 0 means
	// DefaultOpTimeout, or for PerSecond that of the first.
	OpTimeout time.Duration
	// PerSecond, if not nil, is a second Redis, for limits of unit second. Only
	// what stands above counts of it.
	PerSecond *Options
	// KeyPrefix starts the key of the counter that Ping charges, as it does those of
	// all others, which is what a user may be permitted.
	KeyPrefix string
	// DenyMemory is about how many bytes may be used to remember counters that are
	// known to be over, so that Redis need not be asked again; 0 means none. Half as
	// many more are for what was seen last of other counters.
	DenyMemory int
	// Now tells the time of decisions. nil means Redis' own clock; only a Redis
	// that refuses TIME in scripts, or a test, needs another. The clocks of
	// processes differ: for each counter the newest time that any of them told
	// holds, so one that runs ahead makes clients wait until that time. As long as
	// they differ by less than a minute, no limit admits more for it.
	Now func() time.Time
	// OneClock says that Now is the same for all processes, as Redis' clock is. If
	// it steps back, counters follow it.
	OneClock bool
	// Logger tells when Redis fails and when it is back. nil means no log.
	Logger *slog.Logger
	// Registerer takes the metrics. nil means that nobody reads them.
	Registerer prometheus.Registerer
}

// Type is what a Redis consists of.
type Type string

// The types: one server, one primary whom sentinels know, and a cluster.
const (
	Single   Type = "single"
	Sentinel Type = "sentinel"
	Cluster  Type = "cluster"
)

// DefaultPoolSize is the most connections to a node of a cluster.
const DefaultPoolSize = 10

// DefaultOpTimeout is the time that a call may take unless Options say otherwise.
const DefaultOpTimeout = 100 * time.Millisecond

const (
	// connections is how many there are at most: one for calls, which are made
	// one after the other, one for Ping, and room for two that are being made.
	connections = 4
	// connectTimeout bounds the making of a connection, unless OpTimeout is
	// longer, so that a slow handshake succeeds although OpTimeout is short.
	connectTimeout = time.Second
	// maxIdle is when an idle connection is closed. Load balancers and NAT
	// forget connections, silently, after some minutes.
	maxIdle = 3 * time.Minute
)

// Validate tells what is wrong with the options, without connecting. What it
// says holds no password.
func (o *Options) Validate() error {
	_, err := o.connection()
	return err
}

// connection is how to reach a Redis, in the words of go-redis.
type connection struct {
	redis.Options // what all types have in common
	address       address
	dialer        *dialer
}

// connection turns o into options of go-redis, or tells what is wrong with them.
func (o *Options) connection() (*connection, error) {
	if o.OpTimeout < 0 {
		return nil, fmt.Errorf("redis op timeout %v: must not be negative", o.OpTimeout)
	}
	a, err := o.address()
	if err != nil {
		return nil, fmt.Errorf("redis URL %w", err) // which is not shown: anything in it may be a password
	}
	if err := o.login(&a); err != nil {
		return nil, err
	}
	encrypt := o.TLS
	switch {
	case encrypt != nil && a.Network == "unix":
		return nil, errors.New("redis URL is that of a unix socket, which does not speak TLS")
	case encrypt == nil && a.TLSConfig != nil: // of rediss://
		encrypt = func() *tls.Config { return a.TLSConfig }
	}

	timeout := cmp.Or(o.OpTimeout, DefaultOpTimeout)
	connect := max(timeout, connectTimeout)
	connect = min(connect, cmp.Or(o.ConnectTimeout, connect))
	dialer := newDialer(encrypt)
	return &connection{address: a, dialer: dialer, Options: redis.Options{
		Network: a.Network, Addr: a.Addr, DB: a.DB, Username: a.Username, Password: a.Password,
		Dialer: dialer.dial,

		ReadTimeout: timeout, WriteTimeout: timeout, PoolTimeout: timeout,
		ContextTimeoutEnabled: true,
		DialTimeout:           connect,
		DialerRetries:         1,
		MaxRetries:            -1, // a repeated call would charge twice

		PoolSize: connections, MaxConcurrentDials: connections,
		PipelinePoolSize: -1, // none
		ConnMaxIdleTime:  maxIdle,

		// Say nothing but what a call needs: no CLIENT SETINFO, no CLIENT
		// MAINT_NOTIFICATIONS, no pushed messages.
		Protocol:                 2,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}}, nil
}

// login completes the users and passwords of a, which the URL may hold: that of a
// list of sentinels holds those of the sentinels.
func (o *Options) login(a *address) error {
	if o.Type == Sentinel {
		a.sentinel = login{a.Username, a.Password}.or(login{o.SentinelUsername, o.SentinelPassword})
		a.Username, a.Password = "", ""
	}
	l := login{a.Username, a.Password}.or(login{o.Username, o.Password})
	a.Username, a.Password = l.user, l.password
	switch {
	case l.user != "" && l.password == "":
		return errors.New("redis user has no password")
	case a.sentinel.user != "" && a.sentinel.password == "":
		return errors.New("sentinel user has no password")
	}
	return nil
}

// secrets are the passwords.
func (c *connection) secrets() []string {
	return slices.DeleteFunc([]string{c.Password, c.address.sentinel.password}, func(s string) bool { return s == "" })
}

// client makes the client of the type of o.
func (c *connection) client(o *Options) redis.UniversalClient {
	switch o.Type {
	case Sentinel:
		return redis.NewFailoverClient(c.failover())
	case Cluster:
		return redis.NewClusterClient(c.cluster(o))
	default:
		return redis.NewClient(&c.Options)
	}
}

func (c *connection) failover() *redis.FailoverOptions {
	return &redis.FailoverOptions{
		MasterName: c.address.primary, SentinelAddrs: c.address.nodes,
		SentinelUsername: c.address.sentinel.user, SentinelPassword: c.address.sentinel.password,
		Username: c.Username, Password: c.Password,
		Dialer: c.Dialer, DialTimeout: c.DialTimeout, DialerRetries: c.DialerRetries,
		ReadTimeout: c.ReadTimeout, WriteTimeout: c.WriteTimeout, PoolTimeout: c.PoolTimeout,
		ContextTimeoutEnabled: c.ContextTimeoutEnabled,
		MaxRetries:            c.MaxRetries,
		PoolSize:              c.PoolSize, MaxConcurrentDials: c.MaxConcurrentDials,
		PipelinePoolSize: c.PipelinePoolSize, ConnMaxIdleTime: c.ConnMaxIdleTime,
		Protocol: c.Protocol, DisableIdentity: c.DisableIdentity,
	}
}

func (c *connection) cluster(o *Options) *redis.ClusterOptions {
	size := cmp.Or(o.PoolSize, DefaultPoolSize)
	return &redis.ClusterOptions{
		Addrs:    c.address.nodes,
		Username: c.Username, Password: c.Password,
		Dialer: c.Dialer, DialTimeout: c.DialTimeout, DialerRetries: c.DialerRetries,
		ReadTimeout: c.ReadTimeout, WriteTimeout: c.WriteTimeout, PoolTimeout: c.PoolTimeout,
		ContextTimeoutEnabled: c.ContextTimeoutEnabled,
		MaxRetries:            c.MaxRetries,
		PoolSize:              size, MaxConcurrentDials: size,
		PipelinePoolSize: c.PipelinePoolSize, ConnMaxIdleTime: c.ConnMaxIdleTime,
		Protocol: c.Protocol, DisableIdentity: c.DisableIdentity,
		MaintNotificationsConfig: c.MaintNotificationsConfig,
		// EVALSHA goes where its first key is, without asking Redis about commands.
		DisableRoutingPolicies: true,
	}
}
