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

// part is something that a server starts, runs and stops.
type part struct {
	name string
	// run, if not nil, runs until its context ends, or stop is called. Its error ends the server.
	run func(context.Context) error
	// stop returns soon after its context ends.
	stop func(context.Context) error

	listener net.Listener  // that it serves, if it does
	ended    chan struct{} // closed when run has returned, nil if it was not called
}

// served is a part that serves a listener. stop refuses new connections and lets requests in
// flight finish until its context ends. The address is free then, whether or not it ever served.
func served(name string, listener net.Listener, serve func(net.Listener) error, stop func(context.Context) error) *part {
	p := &part{name: name, listener: listener}
	p.run = func(context.Context) error {
		err := serve(listener)
		if err == nil || errors.Is(err, http.ErrServerClosed) || errors.Is(err, grpc.ErrServerStopped) {
			return nil
		}
		return fmt.Errorf("serving %s: %w", name, err)
	}
	p.stop = func(ctx context.Context) error {
		err := stop(ctx)
		_ = listener.Close() // a server that served has closed it
		return err
	}
	return p
}

// addr is where a part listens, host:port or unix:path. There may be none.
func (p *part) addr() string {
	if p == nil {
		return "none"
	}
	addr := p.listener.Addr()
	if addr.Network() == "unix" {
		return "unix:" + addr.String()
	}
	return addr.String()
}

// parts are those of a server, in the order in which they are made.
type parts []*part

func (p *parts) add(name string, run, stop func(context.Context) error) {
	*p = append(*p, &part{name: name, run: run, stop: stop})
}

// background adds a part that runs until its context ends.
func (p *parts) background(name string, run func(context.Context)) {
	p.add(name, func(ctx context.Context) error { run(ctx); return nil }, func(context.Context) error { return nil })
}

// closer adds a part that is closed at the end.
func (p *parts) closer(name string, stop func()) {
	p.add(name, nil, func(context.Context) error { stop(); return nil })
}

// start runs all parts, and returns where the errors of those come that fail.
func (p parts) start(ctx context.Context) (failed chan error) {
	failed = make(chan error, len(p))
	for _, part := range p {
		if part.run == nil {
			continue
		}
		part.ended = make(chan struct{})
		go func() {
			defer close(part.ended)
			if err := part.run(ctx); err != nil {
				failed <- err
			}
		}()
	}
	return failed
}

// grace is what a part has to end after its time is up. One that does not is left behind:
// the process ends anyway, and a read of a file cannot be interrupted.
const grace = time.Second

var errNotStopped = fmt.Errorf("still running %v after its time was up", grace)

// stop stops all parts, the last made first, whether or not one fails, and waits until it runs
// no more.
func (p parts) stop(ctx context.Context) error {
	var errs []error
	for _, part := range slices.Backward(p) {
		err := Within(ctx, grace, errNotStopped, func() error {
			err := part.stop(ctx)
			if part.ended != nil {
				<-part.ended
			}
			return err
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("stopping %s: %w", part.name, err))
		}
	}
	return errors.Join(errs...)
}

// Within returns the error of f. If f goes on for longer than grace after ctx has ended, it is
// left behind, and late is returned: nothing ends a read of a disk that hangs.
func Within(ctx context.Context, grace time.Duration, late error, f func() error) error {
	done := make(chan error, 1) // nobody reads it of an f that is left behind
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
