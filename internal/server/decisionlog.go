package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	sdklog "go.opentelemetry.io/otel/sdk/log"

	"weir/internal/operators"
)

// decisionLinger is how long records are gathered before they are sent to a collector.
const decisionLinger = 500 * time.Millisecond

// openDecisionLog returns the log of decisions, or nil if the settings do not ask for
// one. A collector need not be there. A reader that does not take the last decisions is
// no failure of this process.
func (a *App) openDecisionLog() (*operators.DecisionLog, error) {
	d := a.opts.Settings.DecisionLog
	if d.Decisions == "off" {
		return nil, nil
	}
	lost := newLost(func(fields ...any) { a.logger.Warn("decisions were lost", fields...) })
	opts := operators.LogOptions{
		All: d.Decisions == "all", Rate: d.Rate, Registerer: a.opts.Registry,
		Sink: operators.Lines{W: a.opts.Stdout}, Failed: lost.observe,
	}
	if d.To == "otlp" {
		sink, err := a.decisionCollector(lost)
		if err != nil {
			return nil, err
		}
		opts.Sink, opts.Linger = sink, decisionLinger
	}
	a.logger.Info("decisions are logged", "which", d.Decisions, "to", d.To, "rate", d.Rate)
	l := operators.StartDecisionLog(opts)
	a.parts.add("decision log", nil, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, lastSignals)
		defer cancel()
		if err := l.Close(ctx); err != nil && !errors.Is(err, context.Canceled) {
			a.logger.Warn("the last decisions were not logged", "err", pathOfURL.ReplaceAllString(err.Error(), "$1/..."))
		}
		return nil
	})
	return l, nil
}

// decisionCollector returns a sink that sends to a collector.
func (a *App) decisionCollector(lost *lostSignals) (operators.LogSink, error) {
	s := a.opts.Settings
	if !s.Tracing.Enabled { // else its errors go where those of traces do
		handleOTelErrors(lost, a.logger)
	}
	service, err := describeService(s.Tracing)
	if err != nil {
		return nil, err
	}
	var to sdklog.Exporter
	if s.Tracing.ExporterProtocol == "grpc" {
		to, err = otlploggrpc.New(context.Background())
	} else {
		to, err = otlploghttp.New(context.Background())
	}
	if err != nil {
		return nil, fmt.Errorf("exporting decisions (see DECISION_LOG_TO and OTEL_EXPORTER_OTLP_ENDPOINT): %w", err)
	}
	return operators.NewOTLP(to, service), nil
}
