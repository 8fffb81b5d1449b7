package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"weir/internal/server"
)

// within returns the error of f, or one of its own if f goes on for longer than grace
// after the signal that ends ctx.
func within(ctx context.Context, grace time.Duration, f func() error) error {
	return server.Within(ctx, grace, fmt.Errorf("interrupted: not done %v after the signal", grace), f)
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
