package operators

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"weir/internal/descriptors/plaintext"
)

// LogOptions say what a DecisionLog writes, and where.
type LogOptions struct {
	All  bool // admitted decisions, too
	Rate int  // most records a second
	Sink LogSink

	Registerer prometheus.Registerer
	Failed     func(error) // is called with each error of the sink
}

// LogSink takes records. A call may take long; there is one at a time.
type LogSink interface {
	// Write takes all records, or returns an error if some are lost. It returns when
	// ctx ends, if it can.
	Write(ctx context.Context, batch []LogRecord) error
	// Close sends what is left.
	Close(ctx context.Context) error
}

// DecisionLog writes a record of each decision to a sink that may be slow or gone: nothing
// waits for it, and what is left out is counted. It is safe for concurrent use.
type DecisionLog struct {
	opts    LogOptions
	pace    *rate.Limiter
	queue   chan LogRecord
	closing chan struct{} // closed when l is to be closed
	ended   chan struct{} // closed when the writer has ended
	stop    context.CancelFunc
	records prometheus.Counter
	left    *prometheus.CounterVec
}

const (
	queueSize = 1024 // records wait for the sink at most: with the longest texts that clients can choose, 4 MiB
	batchSize = 256  // records at most are handed to a sink at a time
)

// StartDecisionLog returns a log that writes until it is closed.
func StartDecisionLog(opts LogOptions) *DecisionLog {
	l := &DecisionLog{
		opts: opts, pace: rate.NewLimiter(rate.Limit(opts.Rate), opts.Rate), queue: make(chan LogRecord, queueSize),
		closing: make(chan struct{}), ended: make(chan struct{}),
		records: prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_decision_log_records_total", Help: "Records written to the decision log."}),
		left: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_decision_log_dropped_total",
			Help: "Records missing from the decision log: rate, DECISION_LOG_RATE was exceeded; slow, the log was not read fast enough; failed, it could not be written.",
		}, []string{"reason"}),
	}
	for _, reason := range []string{"rate", "slow", "failed"} {
		l.left.WithLabelValues(reason)
	}
	opts.Registerer.MustRegister(l.records, l.left)
	var ctx context.Context
	ctx, l.stop = context.WithCancel(context.Background())
	go l.run(ctx)
	return l
}

// admit reports whether one more record may be written now. If not, it is counted.
func (l *DecisionLog) admit(now time.Time) bool {
	admitted := l.pace.AllowN(now, 1)
	if !admitted {
		l.left.WithLabelValues("rate").Inc()
	}
	return admitted
}

// add adds a record that was admitted. It waits for nobody.
func (l *DecisionLog) add(r LogRecord) {
	select {
	case l.queue <- r:
	default:
		l.left.WithLabelValues("slow").Inc()
	}
}

// run hands records to the sink, those together that wait already, until l is closed and
// nothing is left.
func (l *DecisionLog) run(ctx context.Context) {
	defer close(l.ended)
	for ctx.Err() == nil {
		var batch []LogRecord
		select {
		case r := <-l.queue:
			batch = append(batch, r)
		case <-l.closing:
			if len(l.queue) == 0 {
				return
			}
		}
		for len(batch) < batchSize && len(l.queue) > 0 {
			batch = append(batch, <-l.queue)
		}
		if err := l.opts.Sink.Write(ctx, batch); err != nil {
			l.left.WithLabelValues("failed").Add(float64(len(batch)))
			l.opts.Failed(err)
			continue
		}
		l.records.Add(float64(len(batch)))
	}
}

// Close takes no more than what waits already to the sink, and returns when that is
// done, or when ctx ends: then the sink, which may hang, is left behind. What is added
// later is not written.
func (l *DecisionLog) Close(ctx context.Context) error {
	defer l.stop()
	close(l.closing)
	select {
	case <-l.ended:
		return l.opts.Sink.Close(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// LogRecord is one decision, what a limit meant for a descriptor, as the decision log has it
// in JSON. What is not known, or does not apply, is left out.
type LogRecord struct {
	Time       time.Time `json:"time"`
	Domain     string    `json:"domain"`
	Descriptor Excerpt   `json:"descriptor"`
	Rule       string    `json:"rule,omitempty"`      // the keys and values that lead to it
	Location   string    `json:"location,omitempty"`  // where it is written
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

// NewLines returns a sink that writes each record as a line of JSON. A call does not end with
// its context if the writer hangs.
func NewLines(w io.Writer) LogSink { return lines{w} }

type lines struct{ io.Writer }

func (l lines) Write(_ context.Context, batch []LogRecord) error {
	var text []byte
	for i := range batch {
		text = append(text, batch[i].JSON()...)
	}
	_, err := l.Writer.Write(text)
	return err
}

func (lines) Close(context.Context) error { return nil }

// NewOTLP returns a sink that sends records to a collector of OpenTelemetry by exporter, in the
// name of service. The body of each is its line of JSON.
func NewOTLP(exporter sdklog.Exporter, service *resource.Resource) LogSink {
	const room = 2 * batchSize // so that the processor waits for Write to flush it
	processor := sdklog.NewBatchProcessor(exporter, sdklog.WithMaxQueueSize(room), sdklog.WithExportMaxBatchSize(room), sdklog.WithExportInterval(time.Hour))
	return otlp{sdklog.NewLoggerProvider(sdklog.WithProcessor(processor), sdklog.WithResource(service))}
}

type otlp struct{ provider *sdklog.LoggerProvider }

func (o otlp) Write(ctx context.Context, batch []LogRecord) error {
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

func (o otlp) Close(ctx context.Context) error { return o.provider.Shutdown(ctx) }
