package conn

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// The address, users and passwords of a Redis may change at run time. Then a new go-redis client
// is made. Once Redis accepts its login, the new client makes all further calls. So a password may
// be changed first in Weir or first in Redis, and no connection outlives its password or token by
// more than a few seconds.

const (
	followEvery = time.Second            // interval of checks for a change
	firstPause  = 5 * time.Millisecond   // first pause before a refused call is repeated
	lastPause   = 100 * time.Millisecond // longest pause before a refused call is repeated
)

// follow checks for a change every followEvery until ctx is done. It logs accepted changes, and
// each new reason for a refusal.
func (c *Client) follow(ctx context.Context) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	used, reported := c.now.Load(), ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := c.Update(ctx)
		switch now := c.now.Load(); {
		case ctx.Err() != nil:
		case err != nil && err.Error() != reported:
			reported = err.Error()
			c.refused.Store(&err)
			c.log.Warn("redis rejects the changed URL, user or password, the previous one stays in use", "err", err)
		case err == nil && (now != used || reported != ""):
			used, reported = now, ""
			c.refused.Store(nil)
			c.log.Info("redis accepted the changed URL, user or password")
		}
	}
}

// Refused returns the reason why Redis refuses the latest server, or nil.
func (c *Client) Refused() error {
	if err := c.refused.Load(); err != nil {
		return *err
	}
	return nil
}

// Update directs further calls to the latest server if it has changed and accepts the login. It
// returns the error of a failed login. Calls in flight finish on the previous connections.
func (c *Client) Update(ctx context.Context) error {
	c.changing.Lock()
	defer c.changing.Unlock()
	return c.clean(c.update(ctx))
}

// update does the work of Update. c.changing must be held.
func (c *Client) update(ctx context.Context) error {
	before, latest := c.now.Load(), c.server.Latest()
	if latest.isSame(before.server) || ctx.Err() != nil {
		return nil
	}
	latest.Timeout = c.server.Timeout
	next := c.newConnected(latest)
	ctx, cancel := context.WithTimeout(ctx, c.server.Timeout)
	defer cancel()
	if err := next.login(ctx); err != nil {
		_ = next.client.Close()
		return fmt.Errorf("%s: %w", latest.Addr, err)
	}
	c.now.Store(next)
	c.running.Go(func() {
		select {
		case <-time.After(2 * c.server.Timeout): // no call takes longer
		case <-c.stopped:
		}
		_ = before.client.Close() // its calls are done
	})
	return nil
}

// login returns nil if Redis accepts the login. In a cluster, some primaries may be down, but
// none may refuse the login.
func (c *connected) login(ctx context.Context) error {
	ping := func(ctx context.Context, client redis.UniversalClient) error {
		err := client.Ping(ctx).Err()
		if _, ok := errors.AsType[redis.Error](err); ok && !isRefused(err) && !errors.Is(err, redis.Nil) {
			return nil // the login succeeded, but the user may not PING; redis.Nil means that the sentinels know no primary
		}
		return err
	}
	cluster, ok := c.client.(*redis.ClusterClient)
	if !ok {
		return ping(ctx, c.client)
	}
	var accepted, refused atomic.Bool
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, primary *redis.Client) error {
		err := ping(ctx, primary)
		if err == nil {
			accepted.Store(true)
		} else if isRefused(err) {
			refused.Store(true)
		}
		return err
	})
	if accepted.Load() && !refused.Load() {
		return nil
	}
	return err
}

// retryLogin is called after Redis refused the login of a call that began at the given time. It
// waits for pause, applies a change if there is one, and reports whether the call may be
// repeated. It reports false after three quarters of the call's time, so that callers learn of
// the refusal before their deadlines.
func (c *Client) retryLogin(ctx context.Context, began time.Time, pause time.Duration) bool {
	deadline, _ := ctx.Deadline()
	end := began.Add(deadline.Sub(began) * 3 / 4)
	if c.server.Latest == nil || time.Now().Add(pause).After(end) {
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case <-c.stopped:
		return false
	case <-time.After(pause):
	}
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	c.server.Renew(ctx)
	if c.changing.TryLock() { // if not, another goroutine is applying the change
		_ = c.update(ctx) // follow logs the error
		c.changing.Unlock()
	}
	return true
}
