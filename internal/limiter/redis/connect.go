package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
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

// Server says which Redis to use, and how to reach it.
type Server struct {
	// Type is what Redis consists of. The zero value is as good as Single.
	Type Type
	// Network is "tcp", "unix", or empty, which means tcp.
	Network string
	// Addr is where Redis listens: host:port or a path. Of Sentinel and Cluster it may be
	// several, separated by commas: the sentinels, or some of the nodes.
	Addr string
	// Primary is the name by which the sentinels know the primary.
	Primary string
	// DB is the number of the database.
	DB int
	// Username and Password are sent to Redis. A password alone is that of the default user.
	Username, Password string
	// SentinelUsername and SentinelPassword are sent to the sentinels.
	SentinelUsername, SentinelPassword string
	// TLS, if not nil, encrypts all connections. It is asked for each anew.
	TLS func() *tls.Config
	// PoolSize is how many connections there are at most to each node of a
	// cluster. 0 means DefaultPoolSize. Others need no more than a few.
	PoolSize int
	// Timeout bounds a call, and the making of a connection, which goes on in the
	// background when the call that needs it gives up. 0 means DefaultTimeout, less is an error.
	Timeout time.Duration
	// Latest, if not nil, returns where Redis is now, and with which users and passwords.
	// All else must be as it is.
	Latest func() Server
	// Renew has what Latest returns read anew, because Redis refused it. It is needed with
	// Latest, and ctx bounds how long it waits.
	Renew func(ctx context.Context)
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

// DefaultTimeout is the time that a call may take unless a Server says otherwise. All that
// wait are behind a call on a dead connection, so it is short.
const DefaultTimeout = time.Second

const (
	// connections is how many there are at most: one for calls, which are made
	// one after the other, one for Ping, and room for two that are being made.
	connections = 4
	// maxIdle is when an idle connection is closed. Load balancers and NAT
	// forget connections, silently, after some minutes.
	maxIdle = 3 * time.Minute
	// maxSecrets is how many passwords are remembered at most.
	maxSecrets = 32
)

// client is a client of one Redis. It makes each call once. Where the address or a password
// changes, another client of go-redis takes the place of the one before, see follow.go.
type client struct {
	server Server // as it was opened
	log    *slog.Logger
	now    atomic.Pointer[connected]

	end     context.CancelFunc // of what runs beside calls
	ended   <-chan struct{}
	running sync.WaitGroup

	changing sync.Mutex               // one change at a time
	secrets  atomic.Pointer[[]string] // the last few passwords that it has sent, for errors to hide
	refused  atomic.Pointer[error]    // why what was read last is not in use; nil if it is
}

// connected is a client of go-redis and what it was made of.
type connected struct {
	client redis.UniversalClient
	server Server
	dialer *dialer
}

// newClient returns a client of a Redis. It does not connect: Redis need not be there yet.
func newClient(s Server, log *slog.Logger) (*client, error) {
	switch {
	case s.Addr == "":
		return nil, errors.New("the address of Redis is missing")
	case s.Timeout < 0:
		return nil, fmt.Errorf("the timeout of Redis must not be negative, but is %v", s.Timeout)
	}
	s.Timeout = cmp.Or(s.Timeout, DefaultTimeout)
	silence()
	ctx, cancel := context.WithCancel(context.Background())
	c := &client{server: s, log: log, end: cancel, ended: ctx.Done()}
	c.secrets.Store(new([]string))
	c.now.Store(c.dialed(s))
	if s.Latest != nil {
		c.running.Go(func() { c.follow(ctx) })
	}
	return c, nil
}

// silence ends the log of go-redis, which has a form of its own. What it would
// say, calls return as errors.
var silence = sync.OnceFunc(logging.Disable)

// dialed returns a client of go-redis, which connects when it is called, and remembers the
// passwords of s for clean.
func (c *client) dialed(s Server) *connected {
	for _, secret := range []string{s.Password, s.SentinelPassword} {
		if known := *c.secrets.Load(); secret != "" && !slices.Contains(known, secret) {
			last := append(slices.Clone(known[max(0, len(known)-maxSecrets+1):]), secret)
			c.secrets.Store(&last)
		}
	}
	size := connections
	if s.Type == Cluster {
		size = cmp.Or(s.PoolSize, DefaultPoolSize)
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
		PipelinePoolSize: -1, // none
		ConnMaxIdleTime:  maxIdle,

		// Say nothing but what a call needs: no CLIENT SETINFO, no CLIENT
		// MAINT_NOTIFICATIONS, no pushed messages.
		Protocol:                 2,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	made := &connected{server: s, dialer: d}
	switch s.Type {
	case Cluster:
		cluster := o.Cluster()
		// EVALSHA goes where its first key is, without asking Redis about commands.
		cluster.DisableRoutingPolicies = true
		made.client = redis.NewClusterClient(cluster)
	case Sentinel:
		made.client = redis.NewFailoverClient(o.Failover())
	default:
		made.client = redis.NewClient(o.Simple())
	}
	return made
}

// current returns the client of go-redis that calls go to.
func (c *client) current() redis.UniversalClient { return c.now.Load().client }

// cluster is current if Redis is a cluster, else nil.
func (c *client) cluster() *redis.ClusterClient {
	cluster, _ := c.current().(*redis.ClusterClient)
	return cluster
}

// Process implements caller.
func (c *client) Process(ctx context.Context, cmd redis.Cmder) error {
	return c.current().Process(ctx, cmd)
}

// Pipeline implements caller.
func (c *client) Pipeline() redis.Pipeliner { return c.current().Pipeline() }

// name returns where Redis is, without user and password.
func (c *client) name() string {
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

// lookAgain looks for the primary anew, if err is one that another primary may explain:
// after a failover it is another server.
func (c *client) lookAgain(err error) {
	kind, cluster := classify(err), c.cluster()
	switch {
	case cluster == nil:
		if kind == kindReadOnly {
			c.now.Load().dialer.age.Add(1)
		}
	case kind == kindConnection || kind == kindTimeout || kind == kindReadOnly || kind == kindCluster:
		cluster.ReloadState(context.Background()) // in the background, and not too often
	}
}

// close makes calls that still wait fail at once, and ends all connections.
func (c *client) close() error {
	c.end()
	c.running.Wait()
	if err := c.current().Close(); err != nil {
		return fmt.Errorf("closing the connections to Redis: %w", err)
	}
	return nil
}
