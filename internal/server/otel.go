package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc/filters"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"

	"weir/internal/operators"
)

// lastSignals bounds how long sending the last traces or decisions may take.
const lastSignals = 2 * time.Second

// openTelemetry begins to send traces, and to log decisions, where the settings ask for
// that. It returns the log of decisions, nil if there is none. A collector need not be there.
func (a *App) openTelemetry() (*operators.DecisionLog, error) {
	s, d := a.opts.Settings.Tracing, a.opts.Settings.DecisionLog
	lost := &lostSignals{logger: a.logger, now: rate.Sometimes{Interval: time.Minute}}
	var service *resource.Resource
	if s.Enabled || d.Decisions != "off" && d.To == "otlp" {
		// OpenTelemetry has one place for what all signals lose, and one for its own log.
		otel.SetErrorHandler(lost)
		otel.SetLogger(logr.FromSlogHandler(messagesOnly{a.logger.Handler()}))
		about := []attribute.KeyValue{semconv.ServiceName(s.ServiceName), semconv.ServiceInstanceID(cmp.Or(s.ServiceInstanceID, uuid.NewString()))}
		if s.ServiceNamespace != "" {
			about = append(about, semconv.ServiceNamespace(s.ServiceNamespace))
		}
		var err error
		if service, err = resource.Merge(resource.Default(), resource.NewSchemaless(about...)); err != nil {
			return nil, fmt.Errorf("describing this service to the collector: %w", err)
		}
	}
	if s.Enabled {
		if err := a.openTracing(service); err != nil {
			return nil, err
		}
	}
	if d.Decisions == "off" {
		return nil, nil
	}
	return a.openDecisionLog(service, lost)
}

func (a *App) openTracing(service *resource.Resource) (err error) {
	s := a.opts.Settings.Tracing
	var to sdktrace.SpanExporter
	if s.ExporterProtocol == "grpc" {
		to, err = otlptracegrpc.New(context.Background())
	} else {
		to, err = otlptracehttp.New(context.Background())
	}
	if err != nil {
		return fmt.Errorf("exporting traces (see TRACING_ENABLED and OTEL_EXPORTER_OTLP_ENDPOINT): %w", err)
	}
	a.logger.Info("traces are sent", "protocol", s.ExporterProtocol, "sampling_rate", float32(s.SamplingRate))
	a.tracing = sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(to),
		sdktrace.WithResource(service),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(s.SamplingRate))),
	)
	a.parts.add("traces", nil, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, lastSignals)
		defer cancel()
		if err := a.tracing.Shutdown(ctx); err != nil { // no failure of this process
			otel.Handle(err)
		}
		return nil
	})
	return nil
}

// openDecisionLog logs decisions. A reader that does not take the last ones is no failure of
// this process.
func (a *App) openDecisionLog(service *resource.Resource, lost *lostSignals) (*operators.DecisionLog, error) {
	d := a.opts.Settings.DecisionLog
	opts := operators.LogOptions{
		All: d.Decisions == "all", Rate: d.Rate, Registerer: a.opts.Registry,
		Sink: operators.Lines{W: a.opts.Stdout}, Failed: lost.Handle,
	}
	if d.To == "otlp" {
		var to sdklog.Exporter
		var err error
		if a.opts.Settings.Tracing.ExporterProtocol == "grpc" {
			to, err = otlploggrpc.New(context.Background())
		} else {
			to, err = otlploghttp.New(context.Background())
		}
		if err != nil {
			return nil, fmt.Errorf("exporting decisions (see DECISION_LOG_TO and OTEL_EXPORTER_OTLP_ENDPOINT): %w", err)
		}
		opts.Sink, opts.Linger = operators.NewOTLP(to, service), 500*time.Millisecond // gathered before they are sent
	}
	a.logger.Info("decisions are logged", "which", d.Decisions, "to", d.To, "rate", d.Rate)
	l := operators.StartDecisionLog(opts)
	a.parts.add("decision log", nil, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, lastSignals)
		defer cancel()
		if err := l.Close(ctx); err != nil && !errors.Is(err, context.Canceled) {
			a.logger.Warn("the last decisions were not logged", "err", withoutPaths(err))
		}
		return nil
	})
	return l, nil
}

// lostSignals logs that traces or decisions got lost: at once and then once a minute, because
// under load there are dozens of batches a second.
type lostSignals struct {
	logger *slog.Logger
	times  atomic.Int64 // since it was logged
	now    rate.Sometimes
}

// Handle implements otel.ErrorHandler. Errors about a variable show it, and a password may
// have been written there.
func (l *lostSignals) Handle(err error) {
	var escape url.EscapeError
	if errors.Is(err, resource.ErrPartialResource) || errors.As(err, &escape) {
		l.logger.Warn("OTEL_RESOURCE_ATTRIBUTES is invalid; use KEY=VALUE, separated by commas")
		return
	}
	l.times.Add(1)
	l.now.Do(func() {
		l.logger.Warn("traces or decisions were lost", "err", withoutPaths(err), "times", l.times.Swap(0))
	})
}

var pathOfURL = regexp.MustCompile(`(https?://[^/\s"]*)/[^\s"]*[^\s":,]`)

// withoutPaths words an error without the paths of its URLs, which are secrets of some
// collectors.
func withoutPaths(err error) string { return pathOfURL.ReplaceAllString(err.Error(), "$1/...") }

// messagesOnly is where OpenTelemetry logs, instead of to the standard error. What it tells
// beside its messages may be a header, or a URL with a password.
type messagesOnly struct{ slog.Handler }

// Enabled reports what is of interest: errors, and warnings, which have this level.
func (messagesOnly) Enabled(_ context.Context, level slog.Level) bool { return level >= -1 }

// Handle implements slog.Handler.
func (m messagesOnly) Handle(ctx context.Context, r slog.Record) error {
	record := slog.NewRecord(r.Time, slog.LevelWarn, "OpenTelemetry cannot do something", r.PC)
	record.Add("about", r.Message)
	return m.Handler.Handle(ctx, record)
}

// propagator reads from the headers of a request what trace it is part of.
var propagator = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})

// traced makes a server trace its calls, but for its health checks.
func traced(to *sdktrace.TracerProvider) grpc.ServerOption {
	return grpc.StatsHandler(otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(to),
		otelgrpc.WithPropagators(propagator),
		otelgrpc.WithMeterProvider(noop.NewMeterProvider()),
		otelgrpc.WithFilter(filters.Not(filters.HealthCheck())),
	))
}
