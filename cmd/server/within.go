package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// errInterrupted tells that a signal ended what would not end by itself.
var errInterrupted = errors.New("interrupted")

// within returns what f does. If it goes on for longer than grace after ctx has
// ended, it is left behind: no signal ends a read of a disk that hangs.
func within(ctx context.Context, grace time.Duration, f func() error) error {
	done := make(chan error, 1) // nobody takes it from what is left behind
	go func() { done <- f() }()
	late := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, func() { close(late) }) })
	defer stop()
	select {
	case err := <-done:
		return err
	case <-late:
		return fmt.Errorf("%w: not done %v after the signal", errInterrupted, grace)
	}
}

// tell calls print, but after a signal it does not wait for long: it may be stderr
// that nobody reads.
func tell(ctx context.Context, print func()) {
	_ = within(ctx, grace/10, func() error { print(); return nil })
}

// grace is what a command has to end by itself after a signal.
const grace = time.Second

// orInterrupted runs a command and returns what to exit with. A signal ends it,
// whatever it waits for.
func orInterrupted(ctx context.Context, stderr io.Writer, command func() int) int {
	code := exitOK
	err := within(ctx, grace, func() error {
		code = command()
		return nil
	})
	if err != nil {
		tell(ctx, func() { fmt.Fprintf(stderr, "weir: %v\n", err) })
		return exitUsage
	}
	return code
}
