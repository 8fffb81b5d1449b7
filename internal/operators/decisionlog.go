package operators

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"sync/atomic"
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

// LogOptions are the options of a DecisionLog.
type LogOptions struct {
	All  bool // also log outcomes that deny nothing
	Rate int  // maximum number of records per second
	Sink LogSink

	Registerer prometheus.Registerer
	Failed     func(error) // called with each error of the sink
}

// LogSink writes a batch of records, or fails if any record is lost. It should return when ctx ends. It is
// called for one batch at a time, and may take a long time.
type LogSink func(ctx context.Context, batch []LogRecord) error

// DecisionLog writes records of decisions to a sink that may be slow or fail. No request waits for
// the log, and dropped records are counted. A DecisionLog is safe for concurrent use.
type DecisionLog struct {
	opts    LogOptions
	pace    *rate.Limiter
	queue   chan LogRecord
	closing chan struct{} // closed by Close
	ended   chan struct{} // closed when run returns
	stop    context.CancelFunc
	records prometheus.Counter
	dropped *prometheus.CounterVec
	Lost    atomic.Uint64 // number of records dropped because the sink was too slow or failed
}

const (
	queueSize = 1024 // records that wait for the sink, at most 4 MiB
	batchSize = 256  // maximum number of records in a batch
)

// StartDecisionLog starts a log. The caller must close it.
func StartDecisionLog(opts LogOptions) *DecisionLog {
	l := &DecisionLog{
		opts: opts, pace: rate.NewLimiter(rate.Limit(opts.Rate), opts.Rate), queue: make(chan LogRecord, queueSize),
		closing: make(chan struct{}), ended: make(chan struct{}),
		records: prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_decision_log_records_total", Help: "Records written to the decision log."}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_decision_log_dropped_total",
			Help: "Records missing from the decision log: rate, DECISION_LOG_RATE was exceeded; slow, the log was not read fast enough; failed, it could not be written.",
		}, []string{"reason"}),
	}
	for _, reason := range []string{"rate", "slow", "failed"} {
		l.dropped.WithLabelValues(reason)
	}
	opts.Registerer.MustRegister(l.records, l.dropped)
	var ctx context.Context
	ctx, l.stop = context.WithCancel(context.Background())
	go l.run(ctx)
	return l
}

// admit reports whether the rate allows another record. If not, the record counts as dropped.
func (l *DecisionLog) admit(now time.Time) bool {
	admitted := l.pace.AllowN(now, 1)
	if !admitted {
		l.dropped.WithLabelValues("rate").Inc()
	}
	return admitted
}

// add queues an admitted record. If the queue is full, it drops the record.
func (l *DecisionLog) add(r LogRecord) {
	select {
	case l.queue <- r:
	default:
		l.dropped.WithLabelValues("slow").Inc()
		l.Lost.Add(1)
	}
}

// run passes queued records to the sink until l is closed and the queue is empty, or ctx ends.
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
		if err := l.opts.Sink(ctx, batch); err != nil {
			l.dropped.WithLabelValues("failed").Add(float64(len(batch)))
			l.Lost.Add(uint64(len(batch)))
			l.opts.Failed(err)
			continue
		}
		l.records.Add(float64(len(batch)))
	}
}

// Close waits until the queued records are written. If ctx ends earlier, Close returns the error of ctx, and
// does not wait for the sink, which may hang. Records that are added after Close may be lost.
func (l *DecisionLog) Close(ctx context.Context) error {
	defer l.stop()
	close(l.closing)
	select {
	case <-l.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// LogRecord is a record of the decision log: the outcome of one limit for a descriptor. Its JSON
// omits fields that are unknown or do not apply.
type LogRecord struct {
	Time       time.Time `json:"time"`
	Domain     string    `json:"domain"`
	Descriptor Excerpt   `json:"descriptor"`
	Rule       string    `json:"rule,omitempty"`      // keys and values of the rule
	Location   string    `json:"location,omitempty"`  // location of the rule
	Exception  string    `json:"exception,omitempty"` // ID of the exception that applies
	Limit      string    `json:"limit,omitempty"`
	Rate       string    `json:"rate,omitempty"`
	Outcome    string    `json:"outcome"`
	Remaining  *int64    `json:"remaining,omitempty"`
	RetryAfter *float64  `json:"retry_after,omitempty"` // seconds, if the limit is exceeded and waiting helps
	RequestID  string    `json:"request_id,omitempty"`  // ID from Envoy, if it sent one
	TraceID    string    `json:"trace_id,omitempty"`

	Trace trace.SpanContext `json:"-"`
}

// JSON returns the record as a line of JSON without terminal control characters.
func (r *LogRecord) JSON() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(r) // cannot fail: it has only plain fields
	return plaintext.JSON(b.Bytes())
}

// NewLines returns a sink that writes each record to w as a line of JSON. The sink ignores its
// context, so it hangs if w hangs.
func NewLines(w io.Writer) LogSink {
	return func(_ context.Context, batch []LogRecord) error {
		var text []byte
		for i := range batch {
			text = append(text, batch[i].JSON()...)
		}
		_, err := w.Write(text)
		return err
	}
}

// NewOTLP returns a sink that sends records through exporter, with service as their resource, and a
// function that closes exporter. The body of each OpenTelemetry record is the line of JSON of a LogRecord.
func NewOTLP(exporter sdklog.Exporter, service *resource.Resource) (sink LogSink, shutdown func(context.Context) error) {
	const size = 2 * batchSize // so that only the sink flushes the processor
	processor := sdklog.NewBatchProcessor(exporter, sdklog.WithMaxQueueSize(size), sdklog.WithExportMaxBatchSize(size), sdklog.WithExportInterval(time.Hour))
	provider := sdklog.NewLoggerProvider(sdklog.WithProcessor(processor), sdklog.WithResource(service))
	logger := provider.Logger("weir/decisions")
	return func(ctx context.Context, batch []LogRecord) error {
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
		return provider.ForceFlush(ctx)
	}, provider.Shutdown
}
