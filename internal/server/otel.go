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
	"weir/internal/settings"
)

// openTelemetry starts to send traces and to log decisions, without waiting for a collector. tracing
// and decisions are nil if the settings turn them off.
func openTelemetry(o Options, life *lifecycle) (tracing *sdktrace.TracerProvider, decisions *operators.DecisionLog, err error) {
	s, d := o.Settings.Tracing, o.Settings.DecisionLog
	lost := logLosses(o.Logger)
	logs := d.Decisions != "off" && d.To == "otlp"
	var to exporters
	if s.Enabled || logs {
		// OpenTelemetry has one error handler and one logger for the process.
		otel.SetErrorHandler(lost)
		otel.SetLogger(logr.FromSlogHandler(messagesOnly{o.Logger.Handler()}))
		if to, err = openExporters(s, logs); err != nil {
			return nil, nil, fmt.Errorf("sending to a collector (see TRACING_ENABLED, DECISION_LOG_TO and OTEL_EXPORTER_OTLP_ENDPOINT): %w", err)
		}
	}
	if s.Enabled {
		o.Logger.Info("traces are sent", "protocol", s.ExporterProtocol, "sampling_rate", float32(s.SamplingRate))
		tracing = sdktrace.NewTracerProvider(
			sdktrace.WithBatcher(to.spans),
			sdktrace.WithResource(to.service),
			sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(s.SamplingRate))),
		)
		sendLast(life, "traces", tracing.Shutdown, lost)
	}
	if d.Decisions == "off" {
		return tracing, nil, nil
	}
	opts := operators.LogOptions{
		All: d.Decisions == "all", Rate: d.Rate, Registerer: o.Registry,
		Sink: operators.NewLines(o.Stdout), Failed: lost,
	}
	if logs {
		var shutdown func(context.Context) error
		opts.Sink, shutdown = operators.NewOTLP(to.logs, to.service)
		sendLast(life, "exporter of decisions", shutdown, lost) // stops after the decision log
	}
	o.Logger.Info("decisions are logged", "which", d.Decisions, "to", d.To, "rate", d.Rate)
	decisions = operators.StartDecisionLog(opts)
	sendLast(life, "decision log", decisions.Close, lost)
	return tracing, decisions, nil
}

// exporters send traces and logs to the collector, by the protocol in the settings.
type exporters struct {
	service *resource.Resource
	spans   sdktrace.SpanExporter // nil if traces are off
	logs    sdklog.Exporter       // nil if decisions go elsewhere
}

func openExporters(s settings.Tracing, logs bool) (to exporters, err error) {
	about := []attribute.KeyValue{semconv.ServiceName(s.ServiceName), semconv.ServiceInstanceID(cmp.Or(s.ServiceInstanceID, uuid.NewString()))}
	if s.ServiceNamespace != "" {
		about = append(about, semconv.ServiceNamespace(s.ServiceNamespace))
	}
	if to.service, err = resource.Merge(resource.Default(), resource.NewSchemaless(about...)); err != nil {
		return to, err
	}
	ctx, overGRPC := context.Background(), s.ExporterProtocol == "grpc"
	switch {
	case s.Enabled && overGRPC:
		to.spans, err = otlptracegrpc.New(ctx)
	case s.Enabled:
		to.spans, err = otlptracehttp.New(ctx)
	}
	switch {
	case err != nil:
	case logs && overGRPC:
		to.logs, err = otlploggrpc.New(ctx)
	case logs:
		to.logs, err = otlploghttp.New(ctx)
	}
	return to, err
}

// sendLast adds a component that sends the remaining records within two seconds when the server
// stops. An error of send is logged and is not an error of the server.
func sendLast(life *lifecycle, name string, send func(context.Context) error, lost func(error)) {
	life.add(&component{name: name, stop: func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		if err := send(ctx); err != nil && !errors.Is(err, context.Canceled) {
			lost(err)
		}
		return nil
	}})
}

// logLosses returns a function that logs why traces or decisions were lost, at most once a minute,
// because dozens of batches a second may fail. It does not log errors that quote a
// variable, which may contain a password.
func logLosses(logger *slog.Logger) otel.ErrorHandlerFunc {
	var times atomic.Int64 // losses since the last record
	now := rate.Sometimes{Interval: time.Minute}
	return func(err error) {
		if _, escape := errors.AsType[url.EscapeError](err); escape || errors.Is(err, resource.ErrPartialResource) {
			logger.Warn("OTEL_RESOURCE_ATTRIBUTES is invalid; use KEY=VALUE, separated by commas")
			return
		}
		times.Add(1)
		now.Do(func() {
			logger.Warn("traces or decisions were lost", "err", pathOfURL.ReplaceAllString(err.Error(), "$1/..."), "times", times.Swap(0))
		})
	}
}

// pathOfURL matches URLs with their paths, which are secret for some collectors.
var pathOfURL = regexp.MustCompile(`(https?://[^/\s"]*)/[^\s"]*[^\s":,]`)

// messagesOnly receives OpenTelemetry's own log and keeps only the messages, because attributes may
// contain a header, or a URL with a password.
type messagesOnly struct{ slog.Handler }

// Enabled accepts errors and warnings. OpenTelemetry logs warnings at level -1.
func (messagesOnly) Enabled(_ context.Context, level slog.Level) bool { return level >= -1 }

// Handle implements slog.Handler.
func (m messagesOnly) Handle(ctx context.Context, r slog.Record) error {
	record := slog.NewRecord(r.Time, slog.LevelWarn, "OpenTelemetry cannot do something", r.PC)
	record.Add("about", r.Message)
	return m.Handler.Handle(ctx, record)
}

// propagator reads the trace of a request from its headers.
var propagator = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})

// traced traces all calls of a server except health checks.
func traced(to *sdktrace.TracerProvider) grpc.ServerOption {
	return grpc.StatsHandler(otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(to),
		otelgrpc.WithPropagators(propagator),
		otelgrpc.WithMeterProvider(noop.NewMeterProvider()),
		otelgrpc.WithFilter(filters.Not(filters.HealthCheck())),
	))
}
