package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/server"
	"weir/internal/settings"
)

// afterDrain is what the server has after its drain, to leave behind what does not
// end. After that the process exits whatever hangs, such as a full pipe of the log.
const afterDrain = 5 * time.Second

// serve serves until ctx ends, and a while longer. SIGHUP reloads the rules.
func serve(ctx context.Context, s settings.Settings, stdout, stderr io.Writer) int {
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	signal.Ignore(syscall.SIGPIPE) // a reader of stdout that goes ends no server
	serving, paused := departure(ctx, s.Process.DrainDelay)

	log := newLossyWriter(stderr, func(lost int64) {
		newLogger(s.Process, stderr).Warn("log lines were dropped because nothing read the log fast enough", "lines", lost)
	})
	var running *server.App
	what, err := "cannot start", within(ctx, s.Process.DrainTimeout, func() (err error) {
		running, err = server.New(server.Options{
			Settings: s,
			Logger:   newLogger(s.Process, log),
			Stdout:   stdout,
			Registry: prometheus.NewRegistry(),
			Build:    build(),
			Reload:   reload,
			Hurry:    paused,
		})
		return err
	})
	if err == nil {
		what, err = "failed", within(paused, s.Process.DrainTimeout+afterDrain, func() error { return running.Run(serving) })
	}
	log.close(grace)
	if err != nil {
		tell(paused, func() { complain(stderr, s.Process.LogFormat == "json", what, err) })
		return exitFailed
	}
	return exitOK
}

// departure returns two contexts that end after ctx, which a signal ends: serving when the
// health checks are to fail, paused when the pause after that is over. A second signal ends
// the pause, and SIGINT ends both. From then on a signal ends the process as if nobody
// listened.
func departure(ctx context.Context, pause time.Duration) (serving, paused context.Context) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	paused, end := context.WithCancel(context.WithoutCancel(ctx))
	serving, leave := context.WithCancel(paused)
	context.AfterFunc(ctx, func() {
		defer end()
		defer signal.Stop(signals)
		over, stop := context.WithTimeout(paused, pause)
		defer stop()
		for range 2 { // the first is the one that ended ctx
			select {
			case received := <-signals:
				if received == os.Interrupt {
					return
				}
				leave()
			case <-over.Done():
				return
			}
		}
	})
	return serving, paused
}

// within returns the error of f, or one of its own if f goes on for longer than grace
// after the signal that ends ctx.
func within(ctx context.Context, grace time.Duration, f func() error) error {
	return server.Within(ctx, grace, fmt.Errorf("interrupted: still running %v after the signal", grace), f)
}

// tell calls print, but after a signal it does not wait for long: it may be stderr
// that nobody reads.
func tell(ctx context.Context, print func()) {
	_ = within(ctx, grace/10, func() error { print(); return nil })
}
