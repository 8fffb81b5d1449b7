// Package statsd sends sums to statsd or DogStatsD, by what they grew since the
// last time.
//
// It asks a source for all sums once in an interval and keeps no other count:
// whatever counts does nothing for it. Each time it opens a connection, so that
// there is no connection to lose and a changed address is found. What could not
// be sent stays due until the next time; over UDP nobody knows whether it
// arrived. It knows nothing of limits, and names are made by the source.
package statsd

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"net"
	"sync"
	"time"
)

// Sum is something that only grows.
type Sum struct {
	// Name of the metric, without ':', '|' and control characters. Its memory may
	// be used again for the next sum.
	Name  []byte
	Total uint64
	// Took, if it is not 0, makes this a timing: Total things took about so long
	// each.
	Took time.Duration
}

// Tag is a name with a value.
type Tag struct{ Name, Value string }

// Options says what a Client sends, and where.
type Options struct {
	// Source yields every sum, with a name and Took of its own. One that it leaves
	// out begins with 0 when it comes back.
	Source   iter.Seq[Sum]
	Network  string        // tcp or udp
	Address  string        // host:port
	Interval time.Duration // between two flushes
	// Tags are those of all metrics. To statsd they are parts of the names, spelled
	// as envoyproxy/ratelimit does.
	Tags []Tag
	// DogStatsD sends tags as such. The first of Rules that matches a name makes more of
	// them of it.
	DogStatsD bool
	Rules     []Rule
	// Quiet logs failures at level Debug: nobody said that there is a server.
	Quiet  bool
	Logger *slog.Logger
}

// Client sends until it is stopped.
type Client struct {
	opts  Options
	lines map[lineKey]*line
	round uint64 // counts the flushes

	logged, reached bool // whether a flush was logged, and whether the last one reached statsd

	stopping chan struct{}
	ctx      context.Context // of every flush
	cancel   context.CancelFunc
	loop     sync.WaitGroup
}

const (
	flushTimeout = 2 * time.Second        // for one flush
	lastFlush    = 500 * time.Millisecond // for what remains when the client is stopped
)

// Start begins to flush in each interval.
func Start(opts Options) *Client {
	c := &Client{opts: opts, lines: make(map[lineKey]*line), stopping: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.loop.Go(c.run)
	return c
}

// Stop flushes for the last time. It takes half a second at most, whatever the
// server does.
func (c *Client) Stop() {
	defer time.AfterFunc(lastFlush, c.cancel).Stop()
	defer c.cancel()
	close(c.stopping)
	c.loop.Wait()
}

func (c *Client) run() {
	tick := time.Tick(c.opts.Interval)
	for last := false; !last; {
		select {
		case <-tick:
		case <-c.stopping:
			last = true
		}
		c.log(c.flush())
	}
}

// log says when metrics begin to arrive, or no longer do.
func (c *Client) log(err error) {
	reached := err == nil
	if c.logged && c.reached == reached {
		return
	}
	c.logged, c.reached = true, reached
	logger := c.opts.Logger.With("network", c.opts.Network, "address", c.opts.Address, "tags", c.opts.DogStatsD)
	switch {
	case reached:
		logger.Info("sending metrics to statsd")
	case c.opts.Quiet:
		logger.Debug("no statsd receives metrics", "err", err)
	default:
		logger.Warn("metrics do not reach statsd, they will be sent later", "err", err)
	}
}

// flush sends what every sum grew by since it was last sent.
func (c *Client) flush() error {
	ctx, cancel := context.WithTimeout(c.ctx, flushTimeout)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, c.opts.Network, c.opts.Address)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })() // ends a write
	defer conn.Close()
	c.round++
	p := packet{conn: conn, most: 64 << 10}
	if c.opts.Network == "udp" {
		p.most = 1432 // which passes without being cut to pieces almost everywhere
	}
	for sum := range c.opts.Source { // all of it, so that the lines of other sums go
		if l := c.line(sum); err == nil {
			err = p.add(l, sum)
		}
	}
	before := len(c.lines)
	maps.DeleteFunc(c.lines, func(_ lineKey, l *line) bool { return l.round != c.round })
	if len(c.lines) < before/2 {
		c.lines = maps.Clone(c.lines) // a map from which entries are deleted keeps its memory
	}
	if err != nil {
		return err
	}
	return p.send()
}
