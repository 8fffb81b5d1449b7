// Package conn is a client of one Redis deployment: a single Redis, a primary behind sentinels,
// or a cluster. It connects, follows changed passwords, classifies errors, and sends commands so that
// none is executed twice. It knows nothing of limits. Only this package imports go-redis.
package conn

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Server describes a Redis deployment and its connections.
type Server struct {
	// Type is the kind of deployment. The zero value means Single.
	Type Type
	// Network is "tcp" or "unix". Empty means tcp.
	Network string
	// Addr is the address of Redis: host:port or a path. For Sentinel and Cluster, it may list
	// several addresses, separated by commas: the sentinels, or some of the nodes.
	Addr string
	// Primary is the name that the sentinels use for the primary.
	Primary string
	// DB is the number of the database.
	DB int
	// Username and Password are sent to Redis. If Username is empty, Password belongs to the
	// default user.
	Username, Password string
	// SentinelUsername and SentinelPassword are sent to the sentinels.
	SentinelUsername, SentinelPassword string
	// TLS, if not nil, encrypts all connections. It is called for each new connection.
	TLS func() *tls.Config
	// PoolSize limits the connections to each node of a cluster; 0 means 10.
	PoolSize int
	// Timeout limits a call. It also limits the time to connect; connecting continues in the
	// background if the call gives up first. 0 means one second. A call on a dead connection delays
	// all requests until Timeout passes.
	Timeout time.Duration
	// Latest, if not nil, returns the Server with its current address, users and passwords. The
	// other fields must not change.
	Latest func() Server
	// Renew is called after Redis refused a login. It reads the sources of Latest again, so that Latest
	// returns current values. It must return when ctx is done, and must be set if Latest is set.
	Renew func(ctx context.Context)
}

// Type is a kind of Redis deployment.
type Type string

// The types of deployment: one Redis, a primary behind sentinels, or a cluster.
const (
	Single   Type = "single"
	Sentinel Type = "sentinel"
	Cluster  Type = "cluster"
)

// isSame reports whether s and t have the same address, users and passwords.
func (s Server) isSame(t Server) bool {
	return s.Addr == t.Addr && s.Primary == t.Primary && s.Username == t.Username && s.Password == t.Password &&
		s.SentinelUsername == t.SentinelUsername && s.SentinelPassword == t.SentinelPassword
}

// Client is a client of one Redis deployment. When the address or a password changes, a new
// go-redis client replaces the current one; see follow.go.
type Client struct {
	server Server // argument of Open
	log    *slog.Logger
	now    atomic.Pointer[connected]

	stop    context.CancelFunc // stops the background work
	stopped <-chan struct{}
	running sync.WaitGroup

	changing sync.Mutex               // locked while a change of the address or a password is applied
	secrets  atomic.Pointer[[]string] // the last 32 passwords sent, which error texts must not show
	refused  atomic.Pointer[error]    // reason why the latest server is not in use, or nil
}

// connected is a go-redis client and its server.
type connected struct {
	client redis.UniversalClient
	server Server
	dialer *dialer
}

// Open returns a client of s. It does not connect, so Redis need not be reachable yet.
func Open(s Server, log *slog.Logger) *Client {
	s.Timeout = cmp.Or(s.Timeout, time.Second)
	silence()
	ctx, cancel := context.WithCancel(context.Background())
	c := &Client{server: s, log: log, stop: cancel, stopped: ctx.Done()}
	c.secrets.Store(new([]string))
	c.now.Store(c.newConnected(s))
	if s.Latest != nil {
		c.running.Go(func() { c.follow(ctx) })
	}
	return c
}

// silence turns off the logger of go-redis, whose format differs from ours.
var silence = sync.OnceFunc(logging.Disable)

// newConnected returns a go-redis client for s and adds the passwords of s to c.secrets.
func (c *Client) newConnected(s Server) *connected {
	for _, secret := range []string{s.Password, s.SentinelPassword} {
		if known := *c.secrets.Load(); secret != "" && !slices.Contains(known, secret) {
			last := append(slices.Clone(known[max(0, len(known)-31):]), secret)
			c.secrets.Store(&last)
		}
	}
	size := 4 // one for calls, which are made one at a time, one for probes, and two for new connections that are being opened
	if s.Type == Cluster {
		size = cmp.Or(s.PoolSize, 10)
	}
	d := &dialer{network: cmp.Or(s.Network, "tcp"), tls: s.TLS}
	o := &redis.UniversalOptions{
		Addrs: strings.Split(s.Addr, ","), MasterName: s.Primary, DB: s.DB,
		Username: s.Username, Password: s.Password,
		SentinelUsername: s.SentinelUsername, SentinelPassword: s.SentinelPassword,
		Dialer: d.dial,

		DialTimeout: s.Timeout, ReadTimeout: s.Timeout, WriteTimeout: s.Timeout, PoolTimeout: s.Timeout,
		ContextTimeoutEnabled: true,
		DialerRetries:         1,
		MaxRetries:            -1, // a repeated call would charge twice

		PoolSize: size, MaxConcurrentDials: size,
		PipelinePoolSize: -1,              // no separate pool for pipelines
		ConnMaxIdleTime:  3 * time.Minute, // load balancers and NAT silently forget idle connections after some minutes

		// Send nothing but the commands, so neither CLIENT SETINFO nor CLIENT
		// MAINT_NOTIFICATIONS, and receive no pushed messages.
		Protocol:                 2,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	next := &connected{server: s, dialer: d}
	switch s.Type {
	case Cluster:
		cluster := o.Cluster()
		// EVALSHA is routed by its first key, so go-redis need not ask Redis about its commands.
		cluster.DisableRoutingPolicies = true
		next.client = redis.NewClusterClient(cluster)
	case Sentinel:
		next.client = redis.NewFailoverClient(o.Failover())
	default:
		next.client = redis.NewClient(o.Simple())
	}
	return next
}

// Current returns the current go-redis client, for commands that may be repeated.
func (c *Client) Current() redis.UniversalClient { return c.now.Load().client }

// cluster returns the current client if Redis is a cluster, else nil.
func (c *Client) cluster() *redis.ClusterClient {
	cluster, _ := c.Current().(*redis.ClusterClient)
	return cluster
}

// IsCluster reports whether the deployment is a cluster.
func (c *Client) IsCluster() bool { return c.server.Type == Cluster }

// Node is a primary of a cluster. A nil Node stands for the whole deployment: in a cluster, each
// command then goes to the primary that has the slot of its first key.
type Node = *redis.Client

// NodeOf returns the primary that has the slot of key in a cluster. It may wait for the first
// reply of the cluster.
func (c *Client) NodeOf(key string) (Node, error) {
	return c.cluster().MasterForKey(context.Background(), key)
}

// Timeout returns the time limit of a call.
func (c *Client) Timeout() time.Duration { return c.server.Timeout }

// Name returns the address of Redis, without user and password.
func (c *Client) Name() string {
	s := c.now.Load().server
	name := s.Addr
	if s.Type == Sentinel {
		name = s.Primary + " of " + name
	}
	if s.DB != 0 {
		name = fmt.Sprintf("%s/%d", name, s.DB)
	}
	return name
}

// Failed returns err with a text that is safe to show; see clean. If a new primary may be the
// cause of err, as after a failover, Failed makes the client look up the primary again.
func (c *Client) Failed(err error) error {
	if err == nil {
		return nil
	}
	kind, cluster := Classify(err), c.cluster()
	switch {
	case cluster == nil:
		if kind == KindReadOnly {
			c.now.Load().dialer.age.Add(1)
		}
	case kind == KindConnection || kind == KindTimeout || kind == KindReadOnly || kind == KindCluster:
		cluster.ReloadState(context.Background()) // go-redis does this in the background, at a limited rate
	}
	return c.clean(err)
}

// Close closes all connections. Calls in flight fail immediately.
func (c *Client) Close() error {
	c.stop()
	c.running.Wait()
	if err := c.Current().Close(); err != nil {
		return fmt.Errorf("closing the connections to Redis: %w", err)
	}
	return nil
}
