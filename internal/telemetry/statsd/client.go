// Package statsd sends the growth of sums to statsd or DogStatsD.
//
// Once per interval, it reads all sums from a source. Each flush opens a new connection, so broken
// connections and changed addresses need no other handling. Growth that could not be sent is sent
// with the next flush; over UDP, losses are not noticed. The package knows nothing of limits: the
// source makes the names.
package statsd

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"net"
	"time"
)

// Sum is a number that only grows.
type Sum struct {
	// Name is the name of the metric, without ':', '|' and control characters. The source may
	// overwrite it for the next sum.
	Name  []byte
	Total uint64
	// Took, if not 0, makes this a timing: each of Total events took about Took.
	Took time.Duration
}

// Tag is a name with a value.
type Tag = struct{ Name, Value string }

// Options are the options of a Client.
type Options struct {
	// Source yields all sums, each with a unique pair of Name and Took. If it omits a sum and
	// yields it again later, the full Total is sent.
	Source   iter.Seq[Sum]
	Network  string        // tcp or udp
	Address  string        // host:port
	Interval time.Duration // between two flushes
	// Tags are added to all metrics. For statsd they become parts of the names, in the form of
	// envoyproxy/ratelimit.
	Tags []Tag
	// DogStatsD sends tags in the format of DogStatsD. The first of Rules that matches a name makes
	// more tags from parts of the name.
	DogStatsD bool
	Rules     []Rule
	// Quiet logs failures at level Debug, because no statsd server was configured.
	Quiet  bool
	Logger *slog.Logger
}

// Client sends sums.
type Client struct {
	opts  Options
	lines map[lineKey]*line
	round uint64 // number of flushes

	logged, reached bool // whether a flush was logged, and whether the last flush reached statsd
}

// New returns a Client, which sends nothing before Run.
func New(opts Options) *Client {
	return &Client{opts: opts, lines: make(map[lineKey]*line)}
}

const flushTimeout = 2 * time.Second // of one flush

// lastFlush is the time limit of the flush after the end of Run's context. Tests lengthen it.
var lastFlush = 500 * time.Millisecond

// Run flushes once per interval until ctx ends, and then once more. It returns within half a second
// after the end of ctx, even if the server hangs.
func (c *Client) Run(ctx context.Context) {
	flushing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastFlush, cancel) })()
	tick := time.Tick(c.opts.Interval)
	for last := false; !last; {
		select {
		case <-tick:
		case <-ctx.Done():
			last = true
		}
		c.log(c.flush(flushing))
	}
}

// log logs the first flush, and each change between success and failure.
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

// flush sends the growth of each sum since it was last sent.
func (c *Client) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, c.opts.Network, c.opts.Address)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })() // interrupts a write
	defer conn.Close()
	c.round++
	p := packet{conn: conn, most: 64 << 10}
	if c.opts.Network == "udp" {
		p.most = 1432 // passes almost everywhere without fragmentation
	}
	for sum := range c.opts.Source { // even after an error, because lines whose sum was not seen are removed
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
