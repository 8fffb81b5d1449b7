package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// part is something that a server starts, runs and stops. run and stop may be nil.
type part struct {
	name string
	// run runs until its context ends, or stop is called. Its error ends the server.
	run func(context.Context) error
	// stop returns soon after its context ends.
	stop func(context.Context) error

	ended chan struct{} // closed when run has returned, nil if it was not called
}

// parts are those of a server, in the order in which they are made.
type parts []*part

func (p *parts) add(name string, run, stop func(context.Context) error) {
	*p = append(*p, &part{name: name, run: run, stop: stop})
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

// grace is what a part has to return after its context has ended. One that does not is left
// behind: the process ends anyway, and a read of a file cannot be interrupted.
const grace = time.Second

var errNotStopped = fmt.Errorf("still running %v after its time was up", grace)

// stop stops all parts, the last made first, whether or not one fails, and waits until none
// runs any more.
func (p parts) stop(ctx context.Context) error {
	var errs []error
	for _, part := range slices.Backward(p) {
		if part.stop == nil {
			continue
		}
		if err := Within(ctx, grace, errNotStopped, func() error { return part.stop(ctx) }); err != nil {
			errs = append(errs, fmt.Errorf("stopping %s: %w", part.name, err))
		}
	}
	late, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	var behind []string
	for _, part := range p {
		if part.ended == nil {
			continue
		}
		select {
		case <-part.ended:
		case <-late.Done():
			select {
			case <-part.ended:
			default:
				behind = append(behind, part.name)
			}
		}
	}
	if behind != nil {
		errs = append(errs, fmt.Errorf("left behind: %s: still running %v after the drain", strings.Join(behind, ", "), grace))
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
