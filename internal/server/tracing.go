package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc/filters"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"

	"weir/internal/settings"
)

// openTracing begins to send traces, if the settings ask for that. The collector need
// not be there.
func (a *App) openTracing() error {
	s := a.opts.Settings.Tracing
	if !s.Enabled {
		return nil
	}
	handleOTelErrors(newLost(func(fields ...any) { a.logger.Warn("traces were lost", fields...) }), a.logger)
	var to sdktrace.SpanExporter
	var err error
	if s.ExporterProtocol == "grpc" {
		to, err = otlptracegrpc.New(context.Background())
	} else {
		to, err = otlptracehttp.New(context.Background())
	}
	if err != nil {
		return fmt.Errorf("exporting traces (see TRACING_ENABLED and OTEL_EXPORTER_OTLP_ENDPOINT): %w", err)
	}
	service, err := describeService(s)
	if err != nil {
		return err
	}
	a.logger.Info("traces are sent", "protocol", s.ExporterProtocol, "sampling_rate", float32(s.SamplingRate))
	a.tracing = sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(to),
		sdktrace.WithResource(service),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(float64(s.SamplingRate)))),
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

// describeService returns how this process is named to a collector.
func describeService(s settings.Tracing) (*resource.Resource, error) {
	about := []attribute.KeyValue{
		semconv.ServiceName(s.ServiceName),
		semconv.ServiceInstanceID(cmp.Or(s.ServiceInstanceID, processID())),
	}
	if s.ServiceNamespace != "" {
		about = append(about, semconv.ServiceNamespace(s.ServiceNamespace))
	}
	service, err := resource.Merge(resource.Default(), resource.NewSchemaless(about...))
	if err != nil {
		return nil, fmt.Errorf("describing this service to the collector: %w", err)
	}
	return service, nil
}

// processID is the name of this process, if the settings give it none.
var processID = sync.OnceValue(uuid.NewString)

// handleOTelErrors makes OpenTelemetry log here. It has one place for all signals.
func handleOTelErrors(lost *lostSignals, logger *slog.Logger) {
	otel.SetErrorHandler(otelErrors(lost, logger))
	otel.SetLogger(logr.New(otelLog{logger}))
}

// otelErrors is the exporter's only way to report what it lost, and the process's
// own. Errors about a variable show it, and a password may have been written there.
// What gets lost is logged at once and then once a minute: under load there are
// dozens of batches a second.
func otelErrors(lost *lostSignals, logger *slog.Logger) otel.ErrorHandlerFunc {
	return func(err error) {
		var escape url.EscapeError
		if errors.Is(err, resource.ErrPartialResource) || errors.As(err, &escape) {
			logger.Warn("OTEL_RESOURCE_ATTRIBUTES is invalid; use KEY=VALUE, separated by commas")
			return
		}
		lost.observe(err)
	}
}

// lostSignals logs that something got lost, not as often as that happens.
type lostSignals struct {
	log   func(fields ...any)
	times atomic.Int64 // since it was logged
	now   rate.Sometimes
}

func newLost(log func(fields ...any)) *lostSignals {
	return &lostSignals{log: log, now: rate.Sometimes{Interval: time.Minute}}
}

func (l *lostSignals) observe(err error) {
	l.times.Add(1)
	l.now.Do(func() {
		l.log("err", pathOfURL.ReplaceAllString(err.Error(), "$1/..."), "times", l.times.Swap(0))
	})
}

// pathOfURL finds URLs with their path, which is a secret of some collectors.
var pathOfURL = regexp.MustCompile(`(https?://[^/\s"]*)/[^\s"]*[^\s":,]`)

// otelLog is where OpenTelemetry logs, instead of to the standard error. Only its
// messages are handed on, because what it tells beside them may be a header, or a
// URL with a password.
type otelLog struct{ logger *slog.Logger }

func (otelLog) Init(logr.RuntimeInfo) {}

// Enabled reports what is of interest: errors are always, and 1 is a warning.
func (otelLog) Enabled(level int) bool { return level <= 1 }

func (o otelLog) Info(_ int, message string, _ ...any) {
	o.logger.Warn("OpenTelemetry warning", "about", message)
}

func (o otelLog) Error(_ error, message string, _ ...any) {
	o.logger.Warn("OpenTelemetry cannot read one of its variables", "failed", message)
}

func (o otelLog) WithValues(...any) logr.LogSink { return o }

func (o otelLog) WithName(string) logr.LogSink { return o }

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

// lastSignals bounds how long sending the last traces or decisions may take.
const lastSignals = 2 * time.Second
