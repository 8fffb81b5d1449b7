package operators

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
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
	// queueSize is how many records wait for the sink at most: with the longest texts that
	// clients can choose, 4 MiB.
	queueSize = 1024
	// batchSize is how many records a sink gets at a time.
	batchSize = 256
)

// StartDecisionLog returns a log that writes until it is closed.
func StartDecisionLog(opts LogOptions) *DecisionLog {
	l := &DecisionLog{
		opts: opts, pace: rate.NewLimiter(rate.Limit(opts.Rate), opts.Rate), queue: make(chan LogRecord, queueSize),
		closing: make(chan struct{}), ended: make(chan struct{}),
		records: prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_decision_log_records_total", Help: "Records written to the decision log."}),
		left: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_decision_log_left_out_total",
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

// run hands records to the sink until l is closed and nothing is left.
func (l *DecisionLog) run(ctx context.Context) {
	defer close(l.ended)
	for {
		select {
		case r := <-l.queue:
			l.write(ctx, r)
		case <-l.closing:
			for len(l.queue) > 0 && ctx.Err() == nil {
				l.write(ctx, <-l.queue)
			}
			return
		}
	}
}

// write hands first to the sink, with what waits already.
func (l *DecisionLog) write(ctx context.Context, first LogRecord) {
	batch := []LogRecord{first}
	for len(batch) < batchSize && len(l.queue) > 0 {
		batch = append(batch, <-l.queue)
	}
	if err := l.opts.Sink.Write(ctx, batch); err != nil {
		l.left.WithLabelValues("failed").Add(float64(len(batch)))
		l.opts.Failed(err)
		return
	}
	l.records.Add(float64(len(batch)))
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
