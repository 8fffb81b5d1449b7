package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
)

// The address, the users and the passwords of a Redis may change while calls are made. A
// new client of go-redis is made of them and, once Redis lets it in, takes all further
// calls. So a password may be changed here and in Redis in any order, and a token may
// expire: no connection outlives what it was logged in with by more than a few seconds.

const (
	// followEvery is the time between two looks for a change.
	followEvery = time.Second
	// firstPause and lastPause are how long to wait before a refused call is made again.
	firstPause = 5 * time.Millisecond
	lastPause  = 100 * time.Millisecond
)

// isSame reports whether two servers are one, with the same users and passwords.
func (s Server) isSame(t Server) bool {
	return s.Addr == t.Addr && s.Primary == t.Primary && s.Username == t.Username && s.Password == t.Password &&
		s.SentinelUsername == t.SentinelUsername && s.SentinelPassword == t.SentinelPassword
}

// follow looks for a change every followEvery until ctx ends, and logs what became of
// it: each reason why Redis does not accept it once.
func (c *client) follow(ctx context.Context) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	used, reported := c.now.Load(), ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		c.changing.Lock()
		err := c.clean(c.update(ctx))
		c.changing.Unlock()
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

// update has calls go to the latest server once it accepts that, and returns why it does
// not. Calls that are under way end where they began. c.changing must be locked.
func (c *client) update(ctx context.Context) error {
	before, latest := c.now.Load(), c.server.Latest()
	if latest.isSame(before.server) || ctx.Err() != nil {
		return nil
	}
	latest.Timeout = c.server.Timeout
	next := c.dialed(latest)
	ctx, cancel := context.WithTimeout(ctx, c.server.Timeout)
	defer cancel()
	if err := next.enter(ctx); err != nil {
		_ = next.client.Close()
		return fmt.Errorf("%s: %w", latest.Addr, err)
	}
	c.now.Store(next)
	c.running.Go(func() {
		select {
		case <-time.After(2 * c.server.Timeout): // no call takes longer
		case <-c.ended:
		}
		_ = before.client.Close() // nobody waits for it
	})
	return nil
}

// enter returns why Redis does not let the client in, or cannot be reached. One primary of a
// cluster may be down, but none may refuse.
func (c *connected) enter(ctx context.Context) error {
	ping := func(ctx context.Context, client redis.UniversalClient) error {
		err := client.Ping(ctx).Err()
		if isReply := redis.Error(nil); errors.As(err, &isReply) && !isRefused(err) && !errors.Is(err, redis.Nil) {
			return nil // a user who may not ask this is let in; nil is what sentinels say who know no primary
		}
		return err
	}
	cluster, ok := c.client.(*redis.ClusterClient)
	if !ok {
		return ping(ctx, c.client)
	}
	var entered, refused atomic.Bool
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		err := ping(ctx, node)
		if err == nil {
			entered.Store(true)
		} else if isRefused(err) {
			refused.Store(true)
		}
		return err
	})
	if entered.Load() && !refused.Load() {
		return nil
	}
	return err
}

// isRefused reports whether Redis did not let a client in, so that it has done nothing.
func isRefused(err error) bool {
	return err != nil && (redis.IsAuthError(err) || strings.Contains(err.Error(), "failed to authenticate"))
}

// mayRetry waits for a pause and looks for a change, because Redis has refused to let a call
// in that began at some time. It reports whether the call may be made again: its callers must
// learn of a refusal before they have waited too long.
func (c *client) mayRetry(ctx context.Context, began time.Time, pause time.Duration) bool {
	deadline, _ := ctx.Deadline()
	end := began.Add(deadline.Sub(began) * 3 / 4)
	if c.server.Latest == nil || time.Now().Add(pause).After(end) {
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case <-c.ended:
		return false
	case <-time.After(pause):
	}
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	c.server.Renew(ctx)
	if c.changing.TryLock() { // else somebody tries what is latest just now
		_ = c.update(ctx) // follow reports it
		c.changing.Unlock()
	}
	return true
}

// maxText is the most bytes of an error that Redis wrote.
const maxText = 400

// cleanError is an error with a text that can be shown.
type cleanError struct {
	error
	text string
}

func (e cleanError) Error() string { return e.text }

func (e cleanError) Unwrap() error { return e.error }

// plainly spells what go-redis says of sentinels.
var plainly = strings.NewReplacer(
	"redis: all sentinels specified in configuration are unreachable", "asking the sentinels for the primary",
	"redis: nil", "the sentinels know no primary of this name")

// clean returns err with a text of one line of some hundred bytes that holds no
// password; nil for nil. Redis, or what is taken for it, may say anything, such as the
// arguments of AUTH if it knows no AUTH.
func (c *client) clean(err error) error {
	if err == nil {
		return nil
	}
	text, _, _ := strings.Cut(plainly.Replace(err.Error()), ", with args beginning with")
	// The longest goes first: a shorter one may be a part of it.
	longestFirst := func(a, b string) int { return cmp.Compare(len(b), len(a)) }
	for _, secret := range slices.SortedFunc(slices.Values(*c.secrets.Load()), longestFirst) {
		text = strings.ReplaceAll(text, secret, "***")
	}
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, text)
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "..."
	}
	return cleanError{err, text}
}
