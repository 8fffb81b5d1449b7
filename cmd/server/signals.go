package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// signalled is the cause of a context that a signal has ended.
type signalled struct{ os.Signal }

func (s signalled) Error() string { return s.String() + " received" }

// untilSignal returns a context that the first SIGINT or SIGTERM ends. Unless
// others listen, a second one ends the process at once.
func untilSignal() context.Context {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		first := <-signals
		signal.Stop(signals)
		cancel(signalled{first})
	}()
	return ctx
}

// departure is when a server leaves.
type departure struct {
	serving context.Context // ends when the health checks are to fail
	hurry   context.Context // ends, before serving does, if there is to be no pause
	drained context.Context // ends when the pause is over
	stop    context.CancelFunc
}

// newDeparture returns the departure that the end of ctx begins, with a pause of
// delay, but for none after SIGINT and an early end of it by a second signal. From
// the end of the pause on a signal ends the process as if nobody listened.
func newDeparture(ctx context.Context, delay time.Duration) departure {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	hurry, hurryUp := context.WithCancel(context.WithoutCancel(ctx))
	drained, stop := context.WithCancel(hurry)
	serving, leave := context.WithCancel(drained)
	context.AfterFunc(drained, func() { signal.Stop(signals) })
	context.AfterFunc(ctx, func() {
		if first, ok := errors.AsType[signalled](context.Cause(ctx)); ok && first.Signal == os.Interrupt {
			hurryUp()
			return
		}
		leave()
		time.AfterFunc(delay, stop)
		for range 2 { // the first is that of ctx
			select {
			case <-signals:
			case <-drained.Done():
				return
			}
		}
		hurryUp()
	})
	return departure{serving, hurry, drained, hurryUp}
}
