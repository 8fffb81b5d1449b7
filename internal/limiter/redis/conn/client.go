// Package conn is a client of one Redis deployment: a single server, the primary that sentinels
// know, or a cluster. It connects, follows changed passwords, classifies errors, and sends
// commands without repeating any. It knows nothing of limits, and only it imports go-redis.
package conn

import (
	"cmp"
	"context"
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

const (
	// poolSize limits the connections to a server outside a cluster: one for calls, which are
	// made one at a time, one for probes, and two that are being opened.
	poolSize = 4
	// maxIdle is the age at which an idle connection is closed. Load balancers and NAT silently
	// forget connections after some minutes.
	maxIdle = 3 * time.Minute
	// maxSecrets limits the number of remembered passwords.
	maxSecrets = 32
)

// Client is a client of one Redis deployment. It sends each command once. When the address or a
// password changes, a new client of go-redis replaces the current one; see follow.go.
type Client struct {
	server Server // as passed to Open
	log    *slog.Logger
	now    atomic.Pointer[connected]

	stop    context.CancelFunc // ends the background work
	stopped <-chan struct{}
	running sync.WaitGroup

	changing sync.Mutex               // held during a change
	secrets  atomic.Pointer[[]string] // the passwords sent last, which error texts must not show
	refused  atomic.Pointer[error]    // why the latest server is not in use, or nil
}

// connected is a client of go-redis with the server that it was made for.
type connected struct {
	client redis.UniversalClient
	server Server
	dialer *dialer
}

// Open returns a client of s, or an error that names the invalid field. It does not connect, so
// Redis need not be reachable yet.
func Open(s Server, log *slog.Logger) (*Client, error) {
	switch {
	case s.Addr == "":
		return nil, errors.New("the address of Redis is missing")
	case s.Timeout < 0:
		return nil, fmt.Errorf("the timeout of Redis must not be negative, but is %v", s.Timeout)
	}
	s.Timeout = cmp.Or(s.Timeout, DefaultTimeout)
	silence()
	ctx, cancel := context.WithCancel(context.Background())
	c := &Client{server: s, log: log, stop: cancel, stopped: ctx.Done()}
	c.secrets.Store(new([]string))
	c.now.Store(c.newConnected(s))
	if s.Latest != nil {
		c.running.Go(func() { c.follow(ctx) })
	}
	return c, nil
}

// silence turns off the logger of go-redis, whose format differs from ours. Calls return the
// same errors.
var silence = sync.OnceFunc(logging.Disable)

// newConnected returns a client of go-redis for s, which connects at its first call. It adds the
// passwords of s to c.secrets.
func (c *Client) newConnected(s Server) *connected {
	for _, secret := range []string{s.Password, s.SentinelPassword} {
		if known := *c.secrets.Load(); secret != "" && !slices.Contains(known, secret) {
			last := append(slices.Clone(known[max(0, len(known)-maxSecrets+1):]), secret)
			c.secrets.Store(&last)
		}
	}
	size := poolSize
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

		// Send nothing beside the commands: no CLIENT SETINFO, no CLIENT MAINT_NOTIFICATIONS;
		// and receive no pushed messages.
		Protocol:                 2,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	next := &connected{server: s, dialer: d}
	switch s.Type {
	case Cluster:
		cluster := o.Cluster()
		// The first key routes EVALSHA; go-redis need not ask Redis about its commands.
		cluster.DisableRoutingPolicies = true
		next.client = redis.NewClusterClient(cluster)
	case Sentinel:
		next.client = redis.NewFailoverClient(o.Failover())
	default:
		next.client = redis.NewClient(o.Simple())
	}
	return next
}

// Current returns the current client of go-redis, for commands that may be repeated.
func (c *Client) Current() redis.UniversalClient { return c.now.Load().client }

// cluster returns the current client if Redis is a cluster, else nil.
func (c *Client) cluster() *redis.ClusterClient {
	cluster, _ := c.Current().(*redis.ClusterClient)
	return cluster
}

// IsCluster reports whether the deployment is a cluster.
func (c *Client) IsCluster() bool { return c.server.Type == Cluster }

// Node is a primary of a cluster. The zero Node stands for the deployment, which in a cluster
// routes each command by its first key.
type Node struct{ primary *redis.Client }

// NodeOf returns the primary of a cluster that has the slot of key. It may wait until the
// cluster has replied once.
func (c *Client) NodeOf(key string) (Node, error) {
	primary, err := c.cluster().MasterForKey(context.Background(), key)
	return Node{primary}, err
}

// Timeout returns the limit of a call.
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

// Failed returns err with a text that is safe to show; see clean. If another primary may explain
// err, as after a failover, it makes the client look up the primary again.
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

// Close ends all connections. Calls in flight fail at once.
func (c *Client) Close() error {
	c.stop()
	c.running.Wait()
	if err := c.Current().Close(); err != nil {
		return fmt.Errorf("closing the connections to Redis: %w", err)
	}
	return nil
}
