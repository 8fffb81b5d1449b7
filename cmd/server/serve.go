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

// afterDrain is the time that the server has after the drain to abandon components that do not
// stop. After that time, the process exits even if, for example, a write to a full pipe hangs.
const afterDrain = 5 * time.Second

// serve runs the server until ctx is done and the server has drained, and returns the exit
// code. SIGHUP reloads the rules.
func serve(ctx context.Context, s settings.Settings, stdout, stderr io.Writer) int {
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	signal.Ignore(syscall.SIGPIPE) // the server continues if the reader of its stdout exits
	serving, paused := shutdown(ctx, s.Process.DrainDelay)

	log := newLossyWriter(stderr, func(lost int64) {
		newLogger(s.Process, stderr).Warn("log lines were dropped because nothing read the log fast enough", "lines", lost)
	})
	var running *server.App
	reason, err := "cannot start", within(ctx, s.Process.DrainTimeout, func() (err error) {
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
		go fitProcessors(paused) // after the load of the rules, which uses all processors
		reason, err = "failed", within(paused, s.Process.DrainTimeout+afterDrain, func() error { return running.Run(serving) })
	}
	log.close(grace)
	if err != nil {
		show(paused, func() { complain(stderr, s.Process.LogFormat == "json", reason, err) })
		return exitFailed
	}
	return exitOK
}

// shutdown returns the contexts of the shutdown that begins when a signal cancels ctx. When the
// context serving is done, health checks begin to fail. When the context paused is done, the server
// drains. SIGTERM cancels serving and, after the duration pause or at a second SIGTERM, also paused.
// SIGINT cancels both immediately. Later signals get Go's default handling.
func shutdown(ctx context.Context, pause time.Duration) (serving, paused context.Context) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	paused, end := context.WithCancel(context.WithoutCancel(ctx))
	serving, leave := context.WithCancel(paused)
	context.AfterFunc(ctx, func() {
		defer end()
		defer signal.Stop(signals)
		over, stop := context.WithTimeout(paused, pause)
		defer stop()
		for range 2 { // the first signal has canceled ctx
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

// within runs f and returns its error. If f is still running the duration grace after a signal
// canceled ctx, within abandons f and returns an error that says so.
func within(ctx context.Context, grace time.Duration, f func() error) error {
	return server.Within(ctx, grace, fmt.Errorf("interrupted: still running %v after the signal", grace), f)
}

// show calls print. After a signal, it waits only briefly for print, because the reader of
// stderr may have stopped.
func show(ctx context.Context, print func()) {
	_ = within(ctx, grace/10, func() error { print(); return nil })
}
