package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/server"
	"weir/internal/settings"
)

// afterDrain is what the server has after its drain, to leave behind what does not
// end. After that the process ends whatever hangs, such as a full pipe of the log.
const afterDrain = 5 * time.Second

// serve serves until ctx ends, and a while longer. SIGHUP loads the rules anew.
func serve(ctx context.Context, s settings.Settings, stdout, stderr io.Writer) int {
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	signal.Ignore(syscall.SIGPIPE) // a reader of stdout that goes ends no server
	leave := newDeparture(ctx, s.Process.DrainDelay)
	defer leave.stop()

	log := newLossyWriter(stderr, func(lost int64) {
		newLogger(s.Process, stderr).Warn("lines of the log were lost, because it was not read fast enough", "lines", lost)
	})
	defer log.close(grace)
	recorded, _ := build()
	var running *server.App
	what, err := "cannot start", within(ctx, s.Process.DrainTimeout, func() (err error) {
		running, err = server.New(server.Options{
			Settings: s,
			Logger:   newLogger(s.Process, log),
			Stdout:   stdout,
			Registry: prometheus.NewRegistry(),
			Version:  version(),
			Build:    recorded,
			Reload:   reload,
			Hurry:    leave.hurry.Done(),
		})
		return err
	})
	if err == nil {
		what, err = "failed", within(leave.drained, s.Process.DrainTimeout+afterDrain, func() error { return running.Run(leave.serving) })
	}
	if err != nil {
		log.close(grace)
		tell(leave.drained, func() { complain(stderr, s.Process, what, err) })
		return exitFailed
	}
	return exitOK
}

// signalled is the cause of a context that a signal has ended.
type signalled struct{ os.Signal }

// Error implements error.
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

// lossyWriter writes lines to another writer in the background, because requests
// write them: a pipe that nobody reads must hold none of them. It keeps some lines
// that are not written yet, and drops the next ones.
type lossyWriter struct {
	lines   chan []byte
	lost    atomic.Int64
	closing context.CancelFunc
	ended   chan struct{} // closed when all is written, after close
}

const lossyLines = 8192

// newLossyWriter returns a writer to w. tell writes to w how many lines were dropped.
func newLossyWriter(w io.Writer, tell func(lost int64)) *lossyWriter {
	closed, closing := context.WithCancel(context.Background())
	l := &lossyWriter{lines: make(chan []byte, lossyLines), closing: closing, ended: make(chan struct{})}
	write := func(line []byte) {
		_, _ = w.Write(line) // nobody is left to hear that it fails
		if lost := l.lost.Swap(0); lost > 0 {
			tell(lost)
		}
	}
	go func() {
		defer close(l.ended)
		for {
			select {
			case line := <-l.lines:
				write(line)
			case <-closed.Done():
				for range len(l.lines) {
					write(<-l.lines)
				}
				return
			}
		}
	}()
	return l
}

// Write implements io.Writer. It takes a line, waits for nobody and never fails.
func (l *lossyWriter) Write(line []byte) (int, error) {
	select {
	case l.lines <- bytes.Clone(line):
	default:
		l.lost.Add(1)
	}
	return len(line), nil
}

// close waits until the lines before it are written, but no longer than patience.
func (l *lossyWriter) close(patience time.Duration) {
	l.closing()
	select {
	case <-l.ended:
	case <-time.After(patience):
	}
}
