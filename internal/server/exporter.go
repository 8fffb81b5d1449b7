package server

import (
	"context"
	"fmt"
	"maps"
	"sync"

	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// exporter sends to a collector with headers that may change. OpenTelemetry's exporters keep
// those that they were made with, so that another one takes the place of the first. Exports
// come one after the other.
type exporter[E interface{ Shutdown(context.Context) error }] struct {
	headers func() map[string]string
	open    func(headers map[string]string) (E, error)

	mu      sync.Mutex
	current E
	with    map[string]string // the headers of current
}

func newExporter[E interface{ Shutdown(context.Context) error }](headers func() map[string]string, open func(map[string]string) (E, error)) (*exporter[E], error) {
	with := headers()
	first, err := open(with)
	return &exporter[E]{headers: headers, open: open, current: first, with: with}, err
}

// newest returns what has the headers as they are now.
func (x *exporter[E]) newest(ctx context.Context) (E, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	headers := x.headers()
	if maps.Equal(headers, x.with) {
		return x.current, nil
	}
	next, err := x.open(headers)
	if err != nil {
		return next, fmt.Errorf("with changed headers: %w", err)
	}
	err = x.current.Shutdown(ctx) // nothing is under way
	x.current, x.with = next, headers
	return next, err
}

// Shutdown ends the newest.
func (x *exporter[E]) Shutdown(ctx context.Context) error {
	x.mu.Lock()
	last := x.current
	x.mu.Unlock()
	return last.Shutdown(ctx)
}

// spans and records are the exporters of traces and of decisions.
type (
	spans struct {
		*exporter[sdktrace.SpanExporter]
	}
	records struct{ *exporter[sdklog.Exporter] }
)

// ExportSpans implements sdktrace.SpanExporter.
func (x spans) ExportSpans(ctx context.Context, list []sdktrace.ReadOnlySpan) error {
	to, err := x.newest(ctx)
	if err != nil {
		return err
	}
	return to.ExportSpans(ctx, list)
}

// Export implements sdklog.Exporter.
func (x records) Export(ctx context.Context, list []sdklog.Record) error {
	to, err := x.newest(ctx)
	if err != nil {
		return err
	}
	return to.Export(ctx, list)
}

// ForceFlush implements sdklog.Exporter.
func (x records) ForceFlush(ctx context.Context) error {
	to, err := x.newest(ctx)
	if err != nil {
		return err
	}
	return to.ForceFlush(ctx)
}
