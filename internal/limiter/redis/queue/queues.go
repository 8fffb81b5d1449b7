package queue

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/conn"
)

// Queues has the queues of one Redis deployment: one queue or, in a cluster, one for each
// primary and one for calls whose primary is unknown.
type Queues struct {
	options Options
	ahead   atomic.Int64 // microseconds by which the clock of Redis was ahead of Options.Local at the last correction by Run
	late    atomic.Int64 // number of timeouts that are not logged yet
	lateLog rate.Sometimes

	fallback *Queue      // the only queue or, in a cluster, the queue of calls whose primary is unknown
	located  atomic.Bool // the client of a cluster knows the primaries of slots

	mu      sync.RWMutex
	queues  map[conn.Node]*Queue // by primary; nil unless Redis is a cluster
	closed  bool
	working sync.WaitGroup // running queues, and work of callers; see Enter
}

// Options configure Queues.
type Options struct {
	Client     *conn.Client
	Patience   time.Duration    // how long a caller without a deadline waits
	Now        func() time.Time // replaces the clock of Redis unless nil
	Local      func() time.Time // clock of this server
	Metrics    *Metrics
	Log        func() *slog.Logger                     // logger with the current address of Redis
	Check      func() error                            // returns the error with which calls fail immediately, or nil; the health of package redis
	NextNumber func() int64                            // returns a number for a call, larger than all earlier numbers
	Called     func(err error, patience time.Duration) // gets the error of each call, or nil, and the time limit of the call; the same health
	Decided    func(*Call)                             // observes a completed call before its callers do; the memo of package redis
}

// New returns queues without requests.
func New(o Options) *Queues {
	q := &Queues{options: o, lateLog: rate.Sometimes{Interval: time.Minute}}
	q.fallback = &Queue{queues: q, isRouter: o.Client.IsCluster()}
	if o.Client.IsCluster() {
		q.queues = make(map[conn.Node]*Queue)
	}
	return q
}

// Slot returns the hash slot of key in a cluster, and 0 otherwise.
func (q *Queues) Slot(key []byte) int {
	if q.queues == nil {
		return 0
	}
	return limiter.Slot(key)
}

// Of returns the queue for a counter. It never waits for an answer of the cluster. When it creates a
// queue, it removes the queues of nodes that a new password or a new primary has replaced.
func (q *Queues) Of(key []byte) *Queue {
	if q.queues == nil || !q.located.Load() {
		return q.fallback
	}
	node, err := q.options.Client.NodeOf(string(key))
	if err != nil {
		return q.fallback
	}
	q.mu.RLock()
	found := q.queues[node]
	q.mu.RUnlock()
	if found != nil {
		return found
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if found = q.queues[node]; found == nil {
		maps.DeleteFunc(q.queues, func(old conn.Node, of *Queue) bool {
			now, err := q.options.Client.NodeOf(of.firstKey)
			return err != nil || now != old
		})
		found = &Queue{queues: q, node: node, firstKey: string(key), closed: q.closed}
		q.queues[node] = found
	}
	return found
}

// Enter makes Idle wait until Exit is called. It returns false if the queues are closed.
func (q *Queues) Enter() bool {
	q.mu.RLock()
	defer q.mu.RUnlock()
	if !q.closed {
		q.working.Add(1)
	}
	return !q.closed
}

// Exit must be called after Enter returned true.
func (q *Queues) Exit() { q.working.Done() }

// Close makes all queues refuse requests. Waiting calls are still made as long as a caller
// waits.
func (q *Queues) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, of := range slices.AppendSeq([]*Queue{q.fallback}, maps.Values(q.queues)) {
		of.mu.Lock()
		of.closed = true
		of.mu.Unlock()
	}
}

// Idle waits until no call is waiting or in flight, and Exit was called for each Enter.
func (q *Queues) Idle() { q.working.Wait() }

// Stats returns the hits and running fields of the fallback queue, and the number of primaries with a
// queue.
func (q *Queues) Stats() (hits int, running bool, primaries int) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	q.fallback.mu.Lock()
	defer q.fallback.mu.Unlock()
	return q.fallback.hits, q.fallback.running, len(q.queues)
}
