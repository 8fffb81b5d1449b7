package redisconn

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// target is where connections go, and as whom.
type target struct {
	addr string // of the one server, "" if go-redis or sentinels know it
	login
}

// changing is the newest target and the last one before it that a server accepted. A server
// may know either.
//
// go-redis' own providers of credentials are not used: with them, the first refusal fails
// the call. But a password is replaced in Redis and here at different times, and on the
// nodes of a cluster, too. So a new connection is logged in before go-redis gets it: with
// the newest password, with the one before, and then with what is read anew, for as long as
// a call can wait. Connections that are open are replaced when their server accepts the
// newest password, each before its next call, so that a token may expire.
type changing struct {
	latest func() Options
	renew  func(context.Context) // has it read anew
	wait   time.Duration         // how long to try to log in

	mu       sync.Mutex
	newest   target
	before   *target // the last target that was accepted, or else the one before newest; nil: none
	accepted bool    // a server has accepted the newest
}

// newChanging returns what begins with a target. A call waits for timeout.
func newChanging(o *Options, timeout time.Duration, first target) *changing {
	// A call must learn of the refusal, rather than that it has waited too long.
	return &changing{latest: o.Latest, renew: o.Renew, wait: timeout * 3 / 4, newest: first}
}

// set notes what the target is now.
func (c *changing) set(now target) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now == c.newest {
		return
	}
	if before := c.newest; c.accepted || c.before == nil {
		c.before = &before // else it stays: no server has accepted the newest
	}
	if *c.before == now {
		c.before = nil
	}
	c.newest, c.accepted = now, false
}

// accept notes that a server has accepted a target.
func (c *changing) accept(t target) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.accepted = c.accepted || t == c.newest
}

// targets returns what to try, in this order. Another server is tried last until it has
// accepted a connection.
func (c *changing) targets() []target {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.before == nil:
		return []target{c.newest}
	case c.before.addr == c.newest.addr:
		return []target{c.newest, *c.before}
	case c.accepted:
		return []target{c.newest} // what the other counts is no longer of interest
	default:
		return []target{*c.before, c.newest}
	}
}

// current returns the newest target.
func (c *changing) current() target {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newest
}

// isNew reports whether the newest target has taken the place of another and no server has
// accepted it yet.
func (c *changing) isNew() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.accepted && c.before != nil
}

// passwords returns those that the dialer tries, none if they do not change.
func (d *dialer) passwords() (list []string) {
	if d.changing == nil {
		return nil
	}
	for _, t := range d.changing.targets() {
		if t.password != "" {
			list = append(list, t.password)
		}
	}
	return list
}

const (
	// firstPause and lastPause are how long to wait before a refused login is tried again.
	firstPause = 5 * time.Millisecond
	lastPause  = 100 * time.Millisecond
	// followEvery is the time between two looks for another target.
	followEvery = time.Second
)

// enter returns a connection that is logged in, or one that fails with the reason.
func (d *dialer) enter(ctx context.Context, addr string) net.Conn {
	end := time.Now().Add(d.changing.wait)
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		c, err := d.tryTargets(ctx, addr)
		if err == nil {
			// It is kept first, so that replace knows it, or its target is seen to be gone here.
			if d.keep(c); slices.Contains(d.changing.targets(), c.target) {
				return c
			}
			_ = c.Close()
			continue
		}
		if !errors.As(err, new(LoginError)) || time.Now().Add(pause).After(end) {
			return newFailedConn(err)
		}
		select {
		case <-ctx.Done():
			return newFailedConn(err)
		case <-time.After(pause):
		}
		d.reread(ctx, end)
	}
}

// reread has the target read anew, and takes it. It waits until end at the latest.
func (d *dialer) reread(ctx context.Context, end time.Time) {
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	d.changing.renew(ctx)
	d.update(d.changing.latest())
}

// tryTargets makes a connection to addr, or to where a target leads, for the first target
// that is accepted. The error is that of the first.
func (d *dialer) tryTargets(ctx context.Context, addr string) (*conn, error) {
	var first error
	for _, t := range d.changing.targets() {
		c, err := d.open(ctx, addr, t)
		if err == nil {
			return c, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// open makes a connection for a target, logs it in, and notes that its server accepts the
// target.
func (d *dialer) open(ctx context.Context, addr string, t target) (*conn, error) {
	if t.addr != "" {
		addr = t.addr
	}
	c, err := d.connect(ctx, addr)
	if err != nil {
		return nil, err
	}
	if err := logIn(ctx, c.Conn, t.login); err != nil {
		_ = c.Conn.Close() // it is not in use yet
		return nil, err
	}
	c.target = t
	d.changing.accept(t)
	return c, nil
}

// update takes the targets from new options, which CheckChange has accepted.
func (d *dialer) update(o Options) {
	a, err := o.address()
	if err != nil {
		return // not after CheckChange
	}
	user, sentinelUser, err := o.logins(a)
	if err != nil {
		return
	}
	if o.Type == Sentinel && d.sentinels == nil {
		user = sentinelUser // d is the dialer of sentinels
	}
	d.changing.set(target{o.single(a), user})
	if s := d.sentinels; s != nil {
		s.move(a.primary, a.addrs)
		s.dialer.changing.set(target{"", sentinelUser})
	}
}

// follow looks for another target every followEvery until ctx ends, and has connections
// replaced. It calls report as Options.Changed says.
func (c *Client) follow(ctx context.Context, report func(error)) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	known, pending, reported := c.dialer.targetsNow(), false, ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		c.dialer.update(c.dialer.changing.latest())
		if now := c.dialer.targetsNow(); now != known {
			known, pending = now, true
		}
		err := c.dialer.replace(ctx)
		if s := c.dialer.sentinels; s != nil {
			err = errors.Join(err, s.dialer.replace(ctx), c.dialer.arrive(ctx))
		}
		err = c.Clean(err)
		switch {
		case ctx.Err() != nil || report == nil:
		case err == nil && pending:
			pending, reported = false, ""
			report(nil)
		case err == nil:
			reported = ""
		case err.Error() != reported:
			pending, reported = true, err.Error()
			report(err)
		}
	}
}

// targetsNow returns the newest targets of the servers and of their sentinels.
func (d *dialer) targetsNow() (all [2]target) {
	all[0] = d.changing.current()
	if d.sentinels != nil {
		all[1] = d.sentinels.dialer.changing.current()
	}
	return all
}

// arrive looks for the primary if the sentinels have been replaced, and returns why they do
// not know it.
func (d *dialer) arrive(ctx context.Context) error {
	if !d.sentinels.isMoving() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	_, err := d.find(ctx, "")
	return err
}

var errRetired = errors.New("the password or the address has changed")

// replace retires the connections that were made for another target than the newest, on each
// server that accepts the newest. It tries that on a connection of its own, and returns why
// the other servers refuse.
func (d *dialer) replace(ctx context.Context) error {
	now := d.changing.current()
	old := func(c *conn) bool { return c.target != now }
	servers := map[string]bool{}
	d.mu.Lock()
	for c := range d.made {
		if old(c) && !c.retired.Load() {
			servers[c.addr] = true
		}
	}
	d.mu.Unlock()
	if now.addr != "" && (len(servers) > 0 || d.changing.isNew()) {
		servers = map[string]bool{now.addr: true}
	}
	var errs []error
	for _, addr := range slices.Sorted(maps.Keys(servers)) {
		ctx, cancel := context.WithTimeout(ctx, connectTimeout)
		c, err := d.open(ctx, addr, now)
		cancel()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", addr, err))
			continue // it is tried again
		}
		_ = c.Conn.Close() // it has shown what it is for
		d.retire(func(c *conn) bool { return old(c) && (now.addr != "" || c.addr == addr) })
	}
	return errors.Join(errs...)
}

// retire has go-redis take new connections instead of some, each before its next call.
func (d *dialer) retire(which func(*conn) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.made {
		if which(c) {
			c.retired.Store(true)
		}
	}
}

// LoginError says why Redis refused a login.
type LoginError struct {
	// Cause is what Redis replied. It is not unwrapped: go-redis would take it for the
	// reply to a command on a connection that is good.
	Cause error
}

func (e LoginError) Error() string { return fmt.Sprintf("logging in: %v", e.Cause) }

// refusal is an error that Redis replied.
type refusal string

func (r refusal) Error() string { return string(r) }

// RedisError implements redis.Error.
func (refusal) RedisError() {}

// logIn sends AUTH on a connection that nothing else uses yet. Without a password it sends
// PING, to learn whether one is needed.
func logIn(ctx context.Context, conn net.Conn, l login) error {
	words := []string{"PING"}
	if l.password != "" {
		words = []string{"AUTH", l.password}
		if l.name != "" {
			words = []string{"AUTH", l.name, l.password}
		}
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })() // ends what waits
	var command bytes.Buffer
	fmt.Fprintf(&command, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&command, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := conn.Write(command.Bytes()); err != nil {
		return err
	}
	// Nothing follows the line, so that nothing is lost with the buffer.
	line, err := bufio.NewReader(io.LimitReader(conn, maxLine)).ReadString('\n')
	if err != nil {
		return err
	}
	text, isError := strings.CutPrefix(strings.TrimSpace(line), "-")
	if isError && (l.password != "" || strings.HasPrefix(text, "NOAUTH")) {
		return LoginError{refusal(text)}
	}
	return nil
}
