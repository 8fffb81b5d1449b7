package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

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
