package operators

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"

	"weir/internal/descriptors/plaintext"
)

// LogRecord is one decision, what a limit meant for a descriptor, as the decision log has it
// in JSON. What is not known, or does not apply, is left out.
type LogRecord struct {
	Time       time.Time `json:"time"`
	Domain     string    `json:"domain"`
	Descriptor Excerpt   `json:"descriptor"`
	Rule       string    `json:"rule,omitempty"`      // the keys and values that lead to it
	Place      string    `json:"place,omitempty"`     // where it is written
	Exception  string    `json:"exception,omitempty"` // the ID of the one that applies
	Limit      string    `json:"limit,omitempty"`
	Rate       string    `json:"rate,omitempty"`
	Outcome    string    `json:"outcome"`
	Remaining  *int64    `json:"remaining,omitempty"`
	RetryAfter *float64  `json:"retry_after,omitempty"` // of a limit that is over, unless no waiting helps
	RequestID  string    `json:"request_id,omitempty"`  // that Envoy gave the request, if it sent it
	TraceID    string    `json:"trace_id,omitempty"`

	Trace trace.SpanContext `json:"-"`
}

// JSON returns the record on one line, without anything that a terminal obeys.
func (r *LogRecord) JSON() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(r) // which has nothing that JSON has not
	return plaintext.JSON(b.Bytes())
}

// Lines is a sink that writes each record as a line of JSON.
type Lines struct{ W io.Writer }

// Write implements LogSink. It does not end with its context if the writer hangs.
func (l Lines) Write(_ context.Context, batch []LogRecord) error {
	var text []byte
	for i := range batch {
		text = append(text, batch[i].JSON()...)
	}
	_, err := l.W.Write(text)
	return err
}

// Close implements LogSink.
func (Lines) Close(context.Context) error { return nil }

// OTLP is a sink that sends records to a collector of OpenTelemetry. The body of each is the
// line that Lines writes.
type OTLP struct{ provider *sdklog.LoggerProvider }

// NewOTLP returns a sink that sends by exporter, in the name of service.
func NewOTLP(exporter sdklog.Exporter, service *resource.Resource) OTLP {
	const room = 2 * batchSize // so that the processor waits for Write to flush it
	processor := sdklog.NewBatchProcessor(exporter, sdklog.WithMaxQueueSize(room), sdklog.WithExportMaxBatchSize(room), sdklog.WithExportInterval(time.Hour))
	return OTLP{sdklog.NewLoggerProvider(sdklog.WithProcessor(processor), sdklog.WithResource(service))}
}

// Write implements LogSink.
func (o OTLP) Write(ctx context.Context, batch []LogRecord) error {
	logger := o.provider.Logger("weir/decisions")
	for i := range batch {
		r := &batch[i]
		var record log.Record
		record.SetTimestamp(r.Time)
		record.SetSeverity(log.SeverityInfo)
		record.SetBody(attribute.StringValue(string(bytes.TrimSuffix(r.JSON(), []byte("\n")))))
		record.SetEventName("weir.decision")
		record.AddAttributes(
			attribute.String("domain", r.Domain), attribute.String("rule", r.Rule),
			attribute.String("limit", r.Limit), attribute.String("outcome", r.Outcome))
		logger.Emit(trace.ContextWithSpanContext(ctx, r.Trace), record)
	}
	return o.provider.ForceFlush(ctx)
}

// Close implements LogSink.
func (o OTLP) Close(ctx context.Context) error { return o.provider.Shutdown(ctx) }
