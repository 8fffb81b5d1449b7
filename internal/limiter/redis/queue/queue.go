// Package queue batches requests into calls to Redis: requests that arrive during a call wait and
// share the next one.
//
// Read Queue.Add first, then Queue.run, then call.go. Queues finds the queue of a counter.
// waiting.go is the view of a caller, which may leave before its request is decided.
package queue

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/conn"
	"weir/internal/limiter/redis/wire"
)

const (
	// MaxBatch limits the hits of one call; a larger request gets a call of its own. A call of
	// this size keeps Redis busy for 1 to 3 ms (BenchmarkPrice). Larger calls would save round
	// trips of large requests, but delay small requests.
	MaxBatch = 256
	// MaxQueue limits the waiting hits of a queue; a larger request may wait alone. Redis needs
	// 30 to 80 ms for MaxQueue hits, so more would not be answered within the default wait.
	MaxQueue = 32 * MaxBatch
)

var (
	errQueueFull = fmt.Errorf("%w: more than %d hits are waiting for Redis", limiter.ErrUnavailable, MaxQueue)
	errLate      = fmt.Errorf("%w: too many requests are waiting for Redis", limiter.ErrUnavailable)
	// ErrClosed is the error of requests after Queues.Close.
	ErrClosed = fmt.Errorf("%w: the Redis store is closed", limiter.ErrUnavailable)
)

// Queue has the waiting requests for one node: a single Redis or one primary of a cluster. It
// makes one call at a time. In a cluster, it sends a pipeline with a batch for each slot, so
// that the slots of a primary share writes, reads and wake-ups.
//
// A full queue refuses requests, but not releases, because an unreleased charge counts until its
// window ends. There are at most as many releases as requests waiting in other queues.
type Queue struct {
	queues   *Queues
	node     conn.Node
	isRouter bool   // in a cluster, the queue of calls whose primary is unknown
	firstKey string // key of the counter for which the queue was created

	mu      sync.Mutex
	calls   []*Call // waiting, oldest first
	hits    int     // number of hits in calls
	last    int     // hits of the call that was removed last
	closed  bool
	running bool // run is making calls
}

// Add adds a request or, if isPart is set, a part of a request to the next call. All counters of
// hits must be in slot. timeout is how long the caller can wait. Add fails if the queue is closed or
// full, or if the caller has left; see limiter.Left.
func (q *Queue) Add(ctx context.Context, slot int, hits []limiter.Hit, isPart bool, timeout time.Duration) (Ticket, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	err := limiter.Left(ctx, hits)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		q.queues.countTimeout()
		return Ticket{}, err
	case err != nil:
		return Ticket{}, err
	case q.closed:
		return Ticket{}, ErrClosed
	case q.hits > 0 && q.hits+len(hits) > MaxQueue:
		q.queues.options.Metrics.errors[kindQueueFull].Inc()
		return Ticket{}, errQueueFull
	}
	c := q.callFor(slot, len(hits), timeout)
	c.Batch.Add(hits, isPart)
	for i := range hits {
		c.required = c.required || hits[i].Unconditional()
	}
	return Ticket{c, c.Batch.Requests() - 1}, nil
}

// Release adds releases in one slot to the next call, and returns that call.
func (q *Queue) Release(slot int, releases []wire.Release) *Call {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.callFor(slot, len(releases), q.queues.options.Client.Timeout())
	for _, r := range releases {
		c.Batch.AddRelease(r)
	}
	c.required = true
	return c
}

// callFor returns the waiting call for n more hits, whose caller can wait for timeout: the
// newest call of the slot if it has room, or a new call. q.mu must be held.
func (q *Queue) callFor(slot, n int, timeout time.Duration) *Call {
	q.hits += n
	var c *Call
	for i := len(q.calls) - 1; i >= 0 && c == nil; i-- {
		if q.calls[i].slot == slot {
			c = q.calls[i]
		}
	}
	if c == nil || c.Batch.IsSealed() || c.Batch.Hits()+n > MaxBatch {
		c = NewCall(slot, q.last)
		q.calls = append(q.calls, c)
	}
	c.waiting.Add(1)
	now := time.Now()
	if until := now.Add(timeout); until.After(c.until) {
		c.until = until
	}
	// The call itself gets the last quarter of timeout. Otherwise, under overload, each request would be
	// sent at the last moment, and none would be answered in time.
	if deadline := now.Add(timeout * 3 / 4); deadline.After(c.deadline) {
		c.deadline = deadline
	}
	q.trigger() // before the hits are added, so that run starts on another core in parallel
	return c
}

// requeue adds a call that another node could not decide.
func (q *Queue) requeue(c *Call) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.calls = append(q.calls, c)
	q.hits += c.Batch.Hits()
	q.trigger()
}

// trigger starts run unless it is running. q.mu must be held.
func (q *Queue) trigger() {
	if !q.running {
		q.running = true
		q.queues.working.Add(1)
		go q.run()
	}
}

// run makes calls, one at a time, until none waits. While the breaker is open, calls fail
// immediately.
func (q *Queue) run() {
	for {
		// Let goroutines that have not run yet add requests that have arrived: this saves a
		// fifth of the calls on busy processors and costs no delay on idle ones.
		runtime.Gosched()
		calls := q.next()
		if calls == nil {
			return
		}
		var elsewhere []*Call
		if err := q.queues.options.Check(); err != nil {
			for _, c := range calls {
				c.Err = err
			}
		} else if q.isRouter {
			q.queues.callEach(calls)
		} else {
			elsewhere = q.queues.call(q.node, calls)
		}
		for _, c := range calls {
			if slices.Contains(elsewhere, c) {
				q.queues.fallback.requeue(c)
				continue
			}
			q.queues.options.Decided(c)
			close(c.Done)
		}
	}
}

// next removes the oldest calls from the queue, as many as are sent in one pipeline, and returns
// them. If none is left to send, it marks the queue as not running and returns nil.
//
// A call that is too late for all its callers fails: Redis would decide it in vain, and younger
// calls would become late, too. But if no other call waits, even a late call is sent while one of
// its callers waits.
func (q *Queue) next() (calls []*Call) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for hits := 0; len(q.calls) > 0 && (hits == 0 || hits+q.calls[0].Batch.Hits() <= MaxBatch); {
		c := q.calls[0]
		q.calls[0] = nil
		q.calls = q.calls[1:]
		q.last = c.Batch.Hits()
		q.hits -= q.last
		isOnly := calls == nil && len(q.calls) == 0
		if c.required || c.waiting.Load() > 0 && (isOnly || !time.Now().After(c.deadline)) {
			calls = append(calls, c)
			hits += q.last
			continue
		}
		c.Err = errLate
		close(c.Done)
	}
	if calls == nil {
		q.running = false
		q.queues.working.Done()
	}
	return calls
}
