// Package redisconn connects to Redis: to one server, to the primary that
// sentinels know, or to the nodes of a cluster. It reads where Redis is from a
// text, and makes a client of go-redis for it that sends each command once.
//
// address.go reads the text, options.go makes options of go-redis of it, dial.go
// makes connections, changing.go logs them in where passwords change, patience.go says how
// long to wait, framing.go bounds what a reply on one may claim, sentinels.go finds the
// primary, and clean.go makes errors fit to be shown. The package knows no counters, and
// logs nothing.
package redisconn

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// Client is a client of one Redis. Of a cluster, its UniversalClient is a
// *redis.ClusterClient, else a *redis.Client.
type Client struct {
	redis.UniversalClient
	// OpTimeout is the longest that a call may take, above 0.
	OpTimeout time.Duration

	dialer  *dialer
	addrs   string   // that the options of Open name
	db      int      // 0 without one
	secrets []string // passwords that do not change

	end       context.CancelFunc // of following
	following sync.WaitGroup
}

// Open returns a client of the Redis that o names, or an error that says what is
// wrong with o and holds no password. It does not connect: Redis need not be there
// yet.
func Open(o Options) (*Client, error) {
	u, d, err := o.universal()
	if err != nil {
		return nil, err
	}
	silence()
	c := &Client{OpTimeout: u.ReadTimeout, dialer: d, addrs: strings.Join(u.Addrs, ","), db: u.DB}
	c.secrets = slices.DeleteFunc([]string{u.Password, u.SentinelPassword}, func(s string) bool { return s == "" })
	if u.IsClusterMode {
		cluster := u.Cluster()
		// EVALSHA goes where its first key is, without asking Redis about commands.
		cluster.DisableRoutingPolicies = true
		c.UniversalClient = redis.NewClusterClient(cluster)
	} else {
		// Not NewUniversalClient: it asks sentinels with go-redis' own client for them.
		c.UniversalClient = redis.NewClient(u.Simple())
	}
	if d.sentinels != nil {
		d.sentinels.watch(func(ctx context.Context) { _, _ = d.find(ctx, "") })
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.end = cancel
	if o.Latest != nil {
		c.following.Go(func() { c.follow(ctx, o.Changed) })
	}
	return c, nil
}

// silence ends the log of go-redis, which has a form of its own. What it would
// say, calls return as errors.
var silence = sync.OnceFunc(logging.Disable)

// Name returns where Redis is, without user and password. It is the server before while that
// of a changed URL has not accepted a connection.
func (c *Client) Name() string {
	name := c.addrs
	switch d := c.dialer; {
	case d.sentinels != nil:
		name = d.sentinels.names.Load().(string)
	case d.changing != nil:
		name = cmp.Or(d.changing.targets()[0].addr, name)
	}
	if c.db != 0 {
		name = fmt.Sprintf("%s/%d", name, c.db)
	}
	return name
}

// Drop breaks all connections, so that the next call makes a new one: to the server
// that is the primary by then.
func (c *Client) Drop() { c.dialer.drop("") }

// Close makes calls that still wait fail at once, and ends all connections.
func (c *Client) Close() error {
	c.end()
	c.following.Wait()
	err := c.UniversalClient.Close()
	if c.dialer.sentinels != nil {
		c.dialer.sentinels.close()
	}
	if err != nil {
		return fmt.Errorf("closing the connections to Redis: %w", err)
	}
	return nil
}
