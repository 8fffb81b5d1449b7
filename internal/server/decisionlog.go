package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	sdklog "go.opentelemetry.io/otel/sdk/log"

	"weir/internal/settings"

	"weir/internal/operators"
)

// decisionLinger is how long records are gathered before they are sent to a collector.
const decisionLinger = 500 * time.Millisecond

// openDecisionLog returns the log of decisions, or nil if the settings do not ask for
// one. A collector need not be there.
func (a *App) openDecisionLog() (*operators.DecisionLog, error) {
	l, err := startDecisionLog(a.opts.Settings, a.secrets, a.opts.Stdout, a.opts.Registry, a.logger)
	if l != nil {
		a.cleanups.add("decision log", func(ctx context.Context) error { return stopDecisionLog(ctx, l, a.logger) })
	}
	return l, err
}

func startDecisionLog(s settings.Settings, changing *changingSecrets, stdout io.Writer, reg prometheus.Registerer, logger *slog.Logger) (*operators.DecisionLog, error) {
	d := s.DecisionLog
	if d.Decisions == "off" {
		return nil, nil
	}
	lost := lostDecisions(logger)
	opts := operators.LogOptions{
		All: d.Decisions == "all", Sample: float64(d.Sample), Rate: d.Rate, Registerer: reg,
		Sink: operators.Lines{W: stdout}, Failed: lost.observe,
	}
	if d.To == "otlp" {
		sink, err := decisionCollector(s, changing, lost, logger)
		if err != nil {
			return nil, err
		}
		opts.Sink, opts.Linger = sink, decisionLinger
	}
	logger.Info("decisions are logged", "which", d.Decisions, "to", d.To, "sample", float32(d.Sample), "rate", d.Rate)
	return operators.StartDecisionLog(opts), nil
}

// decisionCollector returns a sink that sends to a collector.
func decisionCollector(s settings.Settings, changing *changingSecrets, lost *lostSignals, logger *slog.Logger) (operators.LogSink, error) {
	if !s.Tracing.Enabled { // else its errors go where those of traces do
		handleOTelErrors(lost, logger)
	}
	if err := checkOTelFiles("LOGS"); err != nil {
		return nil, err
	}
	service, err := describeService(s.Tracing)
	if err != nil {
		return nil, err
	}
	headers := func() map[string]string {
		now := changing.now()
		return now.DecisionLog.HeaderValues(now.Tracing.Headers)
	}
	to, err := newExporter(headers, func(headers map[string]string) (sdklog.Exporter, error) {
		if s.Tracing.ExporterProtocol == "grpc" {
			return otlploggrpc.New(context.Background(), otlploggrpc.WithHeaders(headers))
		}
		return otlploghttp.New(context.Background(), otlploghttp.WithHeaders(headers))
	})
	if err != nil {
		return nil, fmt.Errorf("exporting decisions (see DECISION_LOG_TO and OTEL_EXPORTER_OTLP_ENDPOINT): %w", err)
	}
	return operators.NewOTLP(records{to}, service), nil
}

// lastDecisions bounds how long writing the last decisions may take.
const lastDecisions = 2 * time.Second

// stopDecisionLog writes what is left. A reader that does not take it is no failure of
// this process.
func stopDecisionLog(ctx context.Context, l *operators.DecisionLog, logger *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, lastDecisions)
	defer cancel()
	if err := l.Close(ctx); err != nil && !errors.Is(err, context.Canceled) {
		logger.Warn("the last decisions could not be logged", "err", pathOfURL.ReplaceAllString(err.Error(), "$1/..."))
	}
	return nil
}
