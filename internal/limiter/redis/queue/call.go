package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/conn"
	"weir/internal/limiter/redis/wire"
)

// Call is a batch with the callers that wait for it.
type Call struct {
	Batch  wire.Batch
	Number int64      // from Options.NextNumber, in the order of calls
	Began  time.Time  // by the local clock
	Reply  wire.Reply // valid if the call is done and Err is nil
	Err    error
	Done   chan struct{} // closed when Reply or Err is set

	slot     int          // in a cluster, the hash slot of all counters of the call
	waiting  atomic.Int64 // number of requests whose callers have not left, plus calls of Queue.Release
	until    time.Time    // time at which the last caller leaves
	deadline time.Time    // latest start of the call; a call that starts later is too late for all callers
	required bool         // the call has releases, or hits that must be written even if no caller waits

	redisTime int64 // approximate time of Redis at Began, in microseconds since the epoch
}

// NewCall returns a call for slot, with room for n requests that have one hit each.
func NewCall(slot, n int) *Call {
	return &Call{Batch: wire.MakeBatch(n), slot: slot, Done: make(chan struct{})}
}

// Ticket stands for a request, or a part of a request, in a call.
type Ticket struct {
	Call    *Call
	Request int // index in Call.Batch
}

// Leave reports that the caller no longer waits. Other callers of the call may still wait.
func (t Ticket) Leave() { t.Call.waiting.Add(-1) }

// Outcomes sets Over, Already and Reserved of the request's hits in out, and appends the states of
// their counters to states. The call must be done.
func (t Ticket) Outcomes(out []limiter.Decision, states []limiter.State) ([]limiter.State, error) {
	if t.Call.Err != nil {
		return nil, t.Call.Err
	}
	states, err := t.Call.Batch.Outcomes(&t.Call.Reply, t.Request, out, states)
	return states, Unavailable(err)
}

// Unavailable returns an error that wraps limiter.ErrUnavailable and err, or nil if err is nil.
func Unavailable(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: asking Redis: %w", limiter.ErrUnavailable, err)
}

// callEach makes all calls at the same time. The client of the cluster finds the primary of each.
func (q *Queues) callEach(calls []*Call) {
	var running sync.WaitGroup
	for _, c := range calls {
		running.Go(func() {
			q.call(nil, []*Call{c})
			if c.Err == nil {
				q.located.Store(true)
			}
		})
	}
	running.Wait()
}

// call makes a node decide calls, in one pipeline, and sets the reply or error of each. It
// returns the calls that a primary did not execute; see conn.Client.IsElsewhere.
func (q *Queues) call(node conn.Node, calls []*Call) (elsewhere []*Call) {
	// The context is not a caller's, because a call continues when its callers leave. It lasts
	// as long as the longest wait of a caller, and at least as long as the wait of a caller
	// without a deadline, because late replies help later requests.
	start := time.Now()
	patience := q.options.Patience
	for _, c := range calls {
		patience = max(patience, c.until.Sub(start))
		c.Began, c.Number = q.options.Local(), q.options.NextNumber()
		c.redisTime = c.Began.UnixMicro() + q.ahead.Load()
	}
	ctx, cancel := context.WithDeadline(context.Background(), start.Add(patience))
	defer cancel()
	q.Run(ctx, node, calls, false)
	seconds := time.Since(start).Seconds()
	var failed error
	for _, c := range calls {
		if node != nil && q.options.Client.IsElsewhere(c.Err) {
			c.Err = nil
			elsewhere = append(elsewhere, c)
			continue
		}
		q.options.Metrics.calls.Inc()
		q.options.Metrics.requests.Observe(float64(c.Batch.Requests()))
		q.options.Metrics.seconds.Observe(seconds)
		err := q.options.Client.Failed(cmp.Or(c.Err, c.Reply.Refusal))
		if err == nil {
			continue
		}
		failed = err
		q.options.Metrics.errors[conn.Classify(failed)].Inc()
		if c.Err != nil {
			c.Err = Unavailable(failed)
		} else {
			c.Reply.Refusal = failed
		}
	}
	if len(elsewhere) < len(calls) {
		q.options.Called(failed, patience)
	}
	return elsewhere
}

// Run sends calls to a node without queueing them, by EVALSHA or, if eval is set, by EVAL. It sets
// their replies or errors. Calls that did nothing are repeated: with the text of the script if
// Redis did not have the script, and with other calendar windows if the time of Redis was outside
// of the first windows.
func (q *Queues) Run(ctx context.Context, node conn.Node, calls []*Call, eval bool) {
	q.send(ctx, node, calls, eval)
	for range 2 {
		var again []*Call
		for _, c := range calls {
			switch {
			case conn.IsNoScript(c.Err):
				q.options.Metrics.errors[conn.KindNoScript].Inc()
				eval = true
			case errors.Is(c.Err, wire.ErrNoWindow):
				c.redisTime = c.Reply.Now
				q.ahead.Store(c.redisTime - c.Began.UnixMicro())
			default:
				continue
			}
			again = append(again, c)
		}
		if again == nil {
			return
		}
		q.send(ctx, node, again, eval)
	}
}

// send sends calls once and reads the answers.
func (q *Queues) send(ctx context.Context, node conn.Node, calls []*Call, eval bool) {
	clock := ""
	if q.options.Now != nil {
		clock = strconv.FormatInt(q.options.Now().UnixMicro(), 10)
	}
	commands := make([][]any, len(calls))
	for i, c := range calls {
		commands[i] = c.Batch.Command(eval, c.redisTime, clock)
	}
	for i, a := range q.options.Client.Send(ctx, node, commands) {
		c := calls[i]
		if c.Err = a.Err; a.Err == nil {
			c.Reply, c.Err = c.Batch.Read(a.Integers)
		}
	}
}

// kindQueueFull is the kind of error of requests that are rejected because too many are waiting.
const kindQueueFull conn.Kind = "queue_full"

// Metrics has the metrics of the calls to Redis.
type Metrics struct {
	calls    prometheus.Counter
	requests prometheus.Histogram
	seconds  prometheus.Histogram
	errors   map[conn.Kind]prometheus.Counter
}

// NewMetrics registers the metrics with reg. If reg is nil, they are not registered.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	create := promauto.With(reg)
	errors := create.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_redis_errors_total", Help: "Failed calls to Redis, requests rejected because too many are waiting, and requests that Redis answered too late, by kind.",
	}, []string{"kind"})
	m := &Metrics{
		calls: create.NewCounter(prometheus.CounterOpts{
			Name: "weir_redis_calls_total", Help: "Calls to Redis, each for one batch of requests.",
		}),
		requests: create.NewHistogram(prometheus.HistogramOpts{
			Name: "weir_redis_batch_requests", Help: "Requests per call to Redis.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 11),
		}),
		seconds: create.NewHistogram(prometheus.HistogramOpts{
			Name: "weir_redis_call_seconds", Help: "Duration of a call to Redis.",
			Buckets: prometheus.ExponentialBuckets(100e-6, 2, 14),
		}),
		errors: make(map[conn.Kind]prometheus.Counter, len(conn.Kinds)+1),
	}
	for _, k := range append(conn.Kinds, kindQueueFull) {
		m.errors[k] = errors.WithLabelValues(string(k))
	}
	return m
}
