package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// cleanups are the steps that undo what was set up, each with its name.
type cleanups []cleanup

type cleanup struct {
	name string
	stop func(context.Context) error
}

// grace is what a step has to return after its context has ended. One that does
// not is left behind: the process ends anyway.
const grace = time.Second

// add appends a step, which should return soon after its context ends.
func (c *cleanups) add(name string, stop func(context.Context) error) {
	*c = append(*c, cleanup{name, stop})
}

// run takes all steps, the last added first, whether or not one fails.
func (c cleanups) run(ctx context.Context, logger *slog.Logger) error {
	var errs []error
	for _, step := range slices.Backward(c) {
		if err := Within(ctx, grace, errNotStopped, func() error { return step.stop(ctx) }); err != nil {
			logger.Warn("stopping failed", "part", step.name, "err", err)
			errs = append(errs, fmt.Errorf("stopping %s: %w", step.name, err))
		}
	}
	return errors.Join(errs...)
}

var errNotStopped = fmt.Errorf("not stopped %v after its time was over", grace)

// Within returns the error of f. If f goes on for longer than grace after ctx has
// ended, it is left behind, and late is returned: nothing ends a read of a disk that
// hangs.
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
