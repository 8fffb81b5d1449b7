package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// whenToDrain returns a context that ends delay after ctx, which the first
// signal ends, or at once with SIGINT or a second signal. From then on a signal
// ends the process.
func whenToDrain(ctx context.Context, delay time.Duration) (drain context.Context, stop context.CancelFunc) {
	drain, stop = context.WithCancel(context.WithoutCancel(ctx))
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(drain, func() { signal.Stop(signals) })
	context.AfterFunc(ctx, func() {
		defer stop()
		over := time.After(delay)
		for first := true; ; first = false {
			select {
			case <-drain.Done():
				return
			case <-over:
				return
			case s := <-signals:
				if s == os.Interrupt || !first {
					return
				}
			}
		}
	})
	return drain, stop
}
