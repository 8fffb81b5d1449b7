package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// part is something that a server starts, runs and stops. run and stop may be nil.
type part struct {
	name string
	// run runs until its context ends, or stop is called. Its error ends the server.
	run func(context.Context) error
	// stop returns soon after its context ends.
	stop func(context.Context) error

	running *atomic.Bool
	ended   chan struct{}
}

// parts are those of a server, in the order in which they are made.
type parts []part

func (p *parts) add(name string, run, stop func(context.Context) error) {
	*p = append(*p, part{name, run, stop, new(atomic.Bool), make(chan struct{})})
}

// background adds a part that runs until its context ends.
func (p *parts) background(name string, run func(context.Context)) {
	p.add(name, func(ctx context.Context) error { run(ctx); return nil }, nil)
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
		part.running.Store(true)
		go func() {
			if err := part.run(ctx); err != nil {
				failed <- err
			}
			part.running.Store(false)
			close(part.ended)
		}()
	}
	return failed
}

// grace is what a part has to return after its context has ended. One that does not is left
// behind: the process ends anyway, and a read of a file cannot be interrupted.
const grace = time.Second

var errNotStopped = fmt.Errorf("still running %v after its time was up", grace)

// stop stops all parts, the last made first, whether or not one fails, and waits until none
// runs any more.
func (p parts) stop(ctx context.Context, logger *slog.Logger) error {
	var errs []error
	for _, part := range slices.Backward(p) {
		if part.stop == nil {
			continue
		}
		if err := Within(ctx, grace, errNotStopped, func() error { return part.stop(ctx) }); err != nil {
			logger.Warn("a part could not be stopped", "part", part.name, "err", err)
			errs = append(errs, fmt.Errorf("stopping %s: %w", part.name, err))
		}
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	var behind []string
	for _, part := range p {
		if !part.running.Load() {
			continue
		}
		select {
		case <-part.ended:
		case <-late.C:
			late.Reset(0) // for those that follow
			behind = append(behind, part.name)
		}
	}
	if behind != nil {
		names := strings.Join(behind, ", ")
		logger.Warn("parts are still running and are left behind", "parts", names)
		errs = append(errs, fmt.Errorf("left behind: %s: still running %v after the drain", names, grace))
	}
	return errors.Join(errs...)
}

// Within returns the error of f. If f goes on for longer than grace after ctx has ended, it is
// left behind, and late is returned: nothing ends a read of a disk that hangs.
func Within(ctx context.Context, grace time.Duration, late error, f func() error) error {
	done := make(chan error, 1) // nobody reads it of an f that is left behind
	go func() { done <- f() }()
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, func() { close(over) }) })
	defer stop()
	select {
	case err := <-done:
		return err
	case <-over:
		return late
	}
}
