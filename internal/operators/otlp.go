package operators

import (
	"bytes"
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"
)

// OTLP sends records to a collector of OpenTelemetry. The body of each is the line that
// Lines writes.
type OTLP struct {
	exporter sdklog.Exporter
	gathered *gatherer
	logger   log.Logger
}

// NewOTLP returns a sink that sends by exporter, in the name of service.
func NewOTLP(exporter sdklog.Exporter, service *resource.Resource) *OTLP {
	g := new(gatherer)
	provider := sdklog.NewLoggerProvider(sdklog.WithProcessor(g), sdklog.WithResource(service))
	return &OTLP{exporter, g, provider.Logger("weir/decisions")}
}

// Write implements LogSink.
func (o *OTLP) Write(ctx context.Context, batch []LogRecord) error {
	o.gathered.records = nil
	for i := range batch {
		r := &batch[i]
		var record log.Record
		record.SetTimestamp(r.Time)
		record.SetSeverity(log.SeverityInfo)
		record.SetBody(attribute.StringValue(string(bytes.TrimSuffix(r.JSON(), []byte("\n")))))
		if r.LeftOut == nil {
			record.SetEventName("weir.decision")
			record.AddAttributes(
				attribute.String("domain", r.Domain), attribute.String("rule", r.Rule),
				attribute.String("limit", r.Limit), attribute.String("outcome", r.Outcome))
		} else {
			record.SetEventName("weir.left_out")
		}
		o.logger.Emit(trace.ContextWithSpanContext(ctx, r.Trace), record)
	}
	return o.exporter.Export(ctx, o.gathered.records)
}

// Close implements LogSink.
func (o *OTLP) Close(ctx context.Context) error { return o.exporter.Shutdown(ctx) }

// gatherer is a processor that keeps records, which only a processor can be given.
type gatherer struct{ records []sdklog.Record }

// Enabled implements sdklog.Processor.
func (*gatherer) Enabled(context.Context, sdklog.EnabledParameters) bool { return true }

// OnEmit implements sdklog.Processor.
func (g *gatherer) OnEmit(_ context.Context, r *sdklog.Record) error {
	g.records = append(g.records, r.Clone())
	return nil
}

// Shutdown implements sdklog.Processor.
func (*gatherer) Shutdown(context.Context) error { return nil }

// ForceFlush implements sdklog.Processor.
func (*gatherer) ForceFlush(context.Context) error { return nil }
