package operators

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// LogOptions say what a DecisionLog writes, and where.
type LogOptions struct {
	All    bool // admitted decisions, too
	Rate   int  // most records a second
	Sink   LogSink
	Linger time.Duration // to wait for further records before the sink gets them

	Registerer prometheus.Registerer
	// Failed is called with each error of the sink.
	Failed func(error)
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
// waits for it, and what is left out is counted and reported. It is safe for concurrent use.
type DecisionLog struct {
	opts    LogOptions
	began   time.Time
	second  atomic.Uint64 // seconds since began << 32 | records in that second
	queue   chan LogRecord
	ended   chan struct{} // closed when the writer has ended
	stop    context.CancelFunc
	leaving chan struct{}

	records prometheus.Counter
	left    [allReasons]leftOut
}

// The reasons why a record was left out.
const (
	tooMany  = iota // more than Rate
	tooSlow         // the sink has not taken those before
	notTaken        // the sink failed
	allReasons
)

var reasons = [allReasons]string{"rate", "slow", "failed"}

// leftOut counts what one reason left out.
type leftOut struct {
	all      prometheus.Counter
	reported atomic.Uint64 // since it was last written to the log
}

// queueSize is how many records wait for the sink at most: with the longest texts that
// clients can choose, 4 MiB.
const queueSize = 1024

// StartDecisionLog returns a log that writes until it is closed.
func StartDecisionLog(opts LogOptions) *DecisionLog {
	ctx, stop := context.WithCancel(context.Background())
	l := &DecisionLog{
		opts: opts, began: time.Now(), queue: make(chan LogRecord, queueSize), ended: make(chan struct{}), stop: stop, leaving: make(chan struct{}),
		records: prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_decision_log_records_total", Help: "Records written to the decision log."}),
	}
	left := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_decision_log_left_out_total",
		Help: "Records missing from the decision log: rate, DECISION_LOG_RATE was exceeded; slow, the log was not read fast enough; failed, it could not be written.",
	}, []string{"reason"})
	for i, name := range reasons {
		l.left[i].all = left.WithLabelValues(name)
	}
	opts.Registerer.MustRegister(l.records, left)
	go l.run(ctx)
	return l
}

// all reports whether admitted decisions are written, too.
func (l *DecisionLog) all() bool { return l.opts.All }

// admit reports whether one more record may be written in the second of now. If not, it
// is counted.
func (l *DecisionLog) admit(now time.Time) bool {
	second := uint64(now.Sub(l.began)/time.Second) << 32 // by a clock that does not step
	for {
		old := l.second.Load()
		next := max(old, second) + 1
		if next&(1<<32-1) > uint64(l.opts.Rate) {
			l.leaveOut(tooMany, 1)
			return false
		}
		if l.second.CompareAndSwap(old, next) {
			return true
		}
	}
}

// add adds a record that was admitted. It waits for nobody.
func (l *DecisionLog) add(r LogRecord) {
	select {
	case l.queue <- r:
	default:
		l.leaveOut(tooSlow, 1)
	}
}

func (l *DecisionLog) leaveOut(reason, n int) {
	l.left[reason].all.Add(float64(n))
	l.left[reason].reported.Add(uint64(n))
}

// leftOutEvery is how often what was left out is written to the log.
const leftOutEvery = time.Second

// batchSize is how many records a sink gets at a time.
const batchSize = 256

// run hands records to the sink until l is closed and nothing is left.
func (l *DecisionLog) run(ctx context.Context) {
	defer close(l.ended)
	ticker := time.NewTicker(leftOutEvery)
	defer ticker.Stop()
	for {
		select {
		case r := <-l.queue:
			l.write(ctx, l.batch(r))
		case <-ticker.C:
			l.report(ctx)
		case <-l.leaving:
			for len(l.queue) > 0 && ctx.Err() == nil {
				l.write(ctx, l.batch(<-l.queue))
			}
			l.report(ctx)
			return
		}
	}
}

// batch returns first and what waits already, or comes within Linger.
func (l *DecisionLog) batch(first LogRecord) []LogRecord {
	batch := []LogRecord{first}
	linger := time.NewTimer(l.opts.Linger)
	defer linger.Stop()
	for len(batch) < batchSize {
		select {
		case r := <-l.queue:
			batch = append(batch, r)
			continue
		default:
		}
		select {
		case r := <-l.queue:
			batch = append(batch, r)
		case <-linger.C:
			return batch
		case <-l.leaving:
			return batch
		}
	}
	return batch
}

func (l *DecisionLog) write(ctx context.Context, batch []LogRecord) {
	if err := l.opts.Sink.Write(ctx, batch); err != nil {
		l.leaveOut(notTaken, len(batch))
		l.opts.Failed(err)
		return
	}
	l.records.Add(float64(len(batch)))
}

// report writes what was left out since it was last written. If that fails, the next
// one says it again.
func (l *DecisionLog) report(ctx context.Context) {
	var n [allReasons]uint64
	sum := uint64(0)
	for i := range n {
		n[i] = l.left[i].reported.Load()
		sum += n[i]
	}
	if sum == 0 {
		return
	}
	r := LogRecord{Time: time.Now().UTC(), LeftOut: &LeftOut{Rate: n[tooMany], Slow: n[tooSlow], Failed: n[notTaken]}}
	if l.opts.Sink.Write(ctx, []LogRecord{r}) != nil {
		return
	}
	for i := range n {
		l.left[i].reported.Add(-n[i])
	}
}

// Close takes no more than what waits already to the sink, and returns when that is
// done, or soon after ctx ends: then the sink, which may hang, is left behind. Add may
// be called no more.
func (l *DecisionLog) Close(ctx context.Context) error {
	close(l.leaving)
	select {
	case <-l.ended:
	case <-ctx.Done():
	}
	l.stop()
	select {
	case <-l.ended:
		return l.opts.Sink.Close(ctx)
	case <-time.After(lastWords):
		return ctx.Err()
	}
}

// lastWords is what a sink has to return after its context has ended.
const lastWords = 100 * time.Millisecond
