package server

import (
	"context"
	"io"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/settings"
)

// Options says what an App is made of. All fields but Stdout and Reload are required.
type Options struct {
	Settings settings.Settings
	Logger   *slog.Logger
	// Stdout takes the decision log, if that is to go there.
	Stdout io.Writer
	// Registry receives the metrics of all parts, and is what the metrics
	// listener shows.
	Registry *prometheus.Registry
	// Build is shown in the log, on the status page and by the metric weir_build_info.
	Build Build
	// Reload makes the rules be loaded anew with each signal that it delivers.
	Reload <-chan os.Signal
	// Hurry ends the pause before the drain when it ends. If it ends before the context of
	// Run, there is no pause. It also ends commands that print secrets for New.
	Hurry context.Context
}
