package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"google.golang.org/grpc"
)

// component is anything that a server starts, runs and stops.
type component struct {
	name string
	// run, if not nil, runs until its context is done, which happens when the component is stopped.
	// If run returns an error, the server stops.
	run func(context.Context) error
	// stop, if not nil, must return soon after its context is done.
	stop func(context.Context) error

	listener net.Listener       // the listener that run serves, or nil
	end      context.CancelFunc // cancels the context of run, or nil if run was not called
	ended    chan struct{}      // closed when run has returned
}

// served returns a component that serves a listener. To stop, the component refuses new connections,
// lets requests in flight finish until the context of stop is done, and frees the address.
func served(name string, listener net.Listener, serve func(net.Listener) error, stop func(context.Context) error) *component {
	c := &component{name: name, listener: listener}
	c.run = func(context.Context) error {
		err := serve(listener)
		if err == nil || errors.Is(err, http.ErrServerClosed) || errors.Is(err, grpc.ErrServerStopped) {
			return nil
		}
		return fmt.Errorf("serving %s: %w", name, err)
	}
	c.stop = func(ctx context.Context) error {
		err := stop(ctx)
		_ = listener.Close() // open if run was never called
		return err
	}
	return c
}

// addr returns the address of the listener, host:port or unix:path, or "none" if c is nil.
func (c *component) addr() string {
	if c == nil {
		return "none"
	}
	addr := c.listener.Addr()
	if addr.Network() == "unix" {
		return "unix:" + addr.String()
	}
	return addr.String()
}

// lifecycle has the components of a server in order of creation.
type lifecycle []*component

// add adds c, unless c is nil, and returns c.
func (l *lifecycle) add(c *component) *component {
	if c != nil {
		*l = append(*l, c)
	}
	return c
}

// background adds a component that runs until it is stopped and cannot fail.
func (l *lifecycle) background(name string, run func(context.Context)) {
	l.add(&component{name: name, run: func(ctx context.Context) error { run(ctx); return nil }})
}

// start starts all components and returns the channel of their errors.
func (l lifecycle) start() (failed chan error) {
	failed = make(chan error, len(l))
	for _, c := range l {
		if c.run == nil {
			continue
		}
		var ctx context.Context
		ctx, c.end = context.WithCancel(context.Background())
		c.ended = make(chan struct{})
		go func() {
			defer close(c.ended)
			if err := c.run(ctx); err != nil {
				failed <- err
			}
		}()
	}
	return failed
}

// grace is the time that a component may take to end after the timeout. A component that takes longer
// is abandoned: the process exits anyway, and a read of a file cannot be interrupted.
const grace = time.Second

var errNotStopped = fmt.Errorf("still running %v after its time was up", grace)

// stop stops all components, the newest first, even if one fails. It waits for each to end, but no
// longer than grace after the timeout. The error names the components that failed.
func (l lifecycle) stop(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var errs []error
	for _, c := range slices.Backward(l) {
		err := Within(ctx, grace, errNotStopped, func() (err error) {
			if c.end != nil {
				c.end()
				defer func() { <-c.ended }()
			}
			if c.stop != nil {
				err = c.stop(ctx)
			}
			return err
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("stopping %s: %w", c.name, err))
		}
	}
	return errors.Join(errs...)
}

// Within calls f and returns its error. If f does not return within the duration grace after ctx is
// done, Within abandons f and returns the parameter late: a read from a hanging disk may never end.
func Within(ctx context.Context, grace time.Duration, late error, f func() error) error {
	done := make(chan error, 1) // with room for an abandoned f, whose error is not read
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(grace):
		return late
	}
}
