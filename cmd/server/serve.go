package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/app"
	"weir/internal/settings"
)

// serve serves until ctx ends. SIGHUP loads the rules anew.
func serve(ctx context.Context, s settings.Settings, stderr io.Writer) int {
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)

	server, err := app.New(app.Options{
		Settings: s,
		Logger:   newLogger(s.Process, stderr),
		Registry: prometheus.NewRegistry(),
		Version:  version(),
		Reload:   reload,
	})
	if err == nil {
		err = server.Run(ctx)
	}
	if err != nil {
		fmt.Fprintf(stderr, "weir: %v\n", err)
		return exitFailed
	}
	return exitOK
}

func newLogger(s settings.Process, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.Level(s.LogLevel)}
	if s.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
