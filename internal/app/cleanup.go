package app

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
		if err := step.within(ctx); err != nil {
			logger.Warn("stopping failed", "part", step.name, "err", err)
			errs = append(errs, fmt.Errorf("stopping %s: %w", step.name, err))
		}
	}
	return errors.Join(errs...)
}

func (c cleanup) within(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- c.stop(ctx) }()
	late := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, func() { close(late) }) })
	defer stop()
	select {
	case err := <-done:
		return err
	case <-late:
		return fmt.Errorf("not stopped %v after its time was over", grace)
	}
}
