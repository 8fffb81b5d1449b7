package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/app"
	"weir/internal/settings"
)

// serve serves until ctx ends, and a while longer. SIGHUP loads the rules anew.
func serve(ctx context.Context, s settings.Settings, stderr io.Writer) int {
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	drain, stop := whenToDrain(ctx, s.Process.DrainDelay)
	defer stop()

	logger := newLogger(s.Process, stderr)
	server, err := app.New(app.Options{
		Settings: s,
		Logger:   logger,
		Registry: prometheus.NewRegistry(),
		Version:  version(),
		Reload:   reload,
	})
	if err != nil {
		complain(stderr, s.Process, "cannot start", err)
		return exitFailed
	}
	if err := server.Run(ctx, drain); err != nil {
		complain(stderr, s.Process, "failed", err)
		return exitFailed
	}
	return exitOK
}

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

// complain says why the program ends: to people in lines that they can read, to
// programs that read a log in JSON as one more line of it.
func complain(w io.Writer, s settings.Process, what string, err error) {
	if s.LogFormat == "json" {
		newLogger(s, w).Error("weir ends", "reason", what, "problems", strings.Split(err.Error(), "\n"))
		return
	}
	fmt.Fprintf(w, "weir: %v\n", err)
}

func newLogger(s settings.Process, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.Level(s.LogLevel)}
	if s.LogFormat == "json" {
		options.ReplaceAttr = readable
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// readable spells a duration as a setting does, which JSON would show in
// nanoseconds.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}
