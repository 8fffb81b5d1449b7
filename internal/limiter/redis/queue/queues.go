package queue

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/conn"
	"weir/internal/limiter/redis/wire"
)

// Queues is the queues of one Redis deployment: one queue, or in a cluster one for each primary
// and one for calls whose primary is not known.
type Queues struct {
	client   *conn.Client
	patience time.Duration    // of a caller without a deadline
	now      func() time.Time // replaces the clock of Redis, or nil
	local    func() time.Time // clock of this process
	observer Observer
	metrics  *Metrics
	log      func() *slog.Logger

	ahead   atomic.Int64 // microseconds by which Redis' clock is ahead of local, as of the last correction
	late    atomic.Int64 // timeouts that are not logged yet
	lateLog rate.Sometimes

	first   *Queue      // the only queue; in a cluster the one for calls whose primary is not known
	located atomic.Bool // the client of a cluster knows the primaries of slots

	mu      sync.RWMutex
	queues  map[conn.Node]*Queue // by primary; nil unless Redis is a cluster
	closed  bool
	working sync.WaitGroup // running queues, and work of callers; see Enter
}

// Options are the properties of Queues.
type Options struct {
	Client   *conn.Client
	Patience time.Duration    // how long a caller without a deadline waits
	Now      func() time.Time // replaces the clock of Redis, or nil
	Local    func() time.Time // clock of this process
	Observer Observer
	Metrics  *Metrics
	Log      func() *slog.Logger // logger with the current address of Redis
}

// Observer decides whether calls are made, and observes them.
type Observer interface {
	// Check returns the error with which calls fail at once, or nil if calls may be made.
	Check() error
	// NextNumber returns a number for a call that is larger than all earlier ones.
	NextNumber() int64
	// Called observes the error, or nil, of a call that could take as long as patience.
	Called(err error, patience time.Duration)
	// Decided observes a call before its callers do.
	Decided(*Call)
}

// New returns queues without requests.
func New(o Options) *Queues {
	q := &Queues{
		client: o.Client, patience: o.Patience, now: o.Now, local: o.Local, observer: o.Observer, metrics: o.Metrics, log: o.Log,
		lateLog: rate.Sometimes{Interval: time.Minute},
	}
	q.first = &Queue{queues: q, isRouter: o.Client.IsCluster()}
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

// Add adds a request, or a part of one, to the next call to its node. Its counters must be in the
// same slot. timeout is what Timeout returned for ctx.
func (q *Queues) Add(ctx context.Context, slot int, hits []limiter.Hit, isPart bool, timeout time.Duration) (Ticket, error) {
	return q.queueOf(hits[0].Key).add(ctx, slot, hits, isPart, timeout)
}

// Release adds releases of charges in one slot to the next call to their node, which it returns.
func (q *Queues) Release(slot int, releases []wire.Release) *Call {
	return q.queueOf(releases[0].Hit.Key).addReleases(slot, releases)
}

// queueOf returns the queue for a counter. It never waits for a cluster. When it creates a queue,
// it removes the queues of former clients, which a new password or a new primary has replaced.
func (q *Queues) queueOf(key []byte) *Queue {
	if q.queues == nil || !q.located.Load() {
		return q.first
	}
	node, err := q.client.NodeOf(string(key))
	if err != nil {
		return q.first
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
			now, err := q.client.NodeOf(of.firstKey)
			return err != nil || now != old
		})
		found = &Queue{queues: q, node: node, firstKey: string(key), closed: q.closed}
		q.queues[node] = found
	}
	return found
}

// Enter registers work that Idle waits for, until Exit is called. It returns false if the queues
// are closed.
func (q *Queues) Enter() bool {
	q.mu.RLock()
	defer q.mu.RUnlock()
	if !q.closed {
		q.working.Add(1)
	}
	return !q.closed
}

// Exit ends work that Enter registered.
func (q *Queues) Exit() { q.working.Done() }

// Close makes all queues refuse requests.
func (q *Queues) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.first.close()
	for _, of := range q.queues {
		of.close()
	}
}

// Idle waits until no call is waiting or in flight, and no registered work is left.
func (q *Queues) Idle() { q.working.Wait() }

// Stats describes queues at one moment.
type Stats struct {
	Hits    int  // waiting in the first queue
	Running bool // the first queue is making calls
	Queues  int  // for primaries of a cluster
}

// Stats returns the current Stats.
func (q *Queues) Stats() Stats {
	q.mu.RLock()
	defer q.mu.RUnlock()
	q.first.mu.Lock()
	defer q.first.mu.Unlock()
	return Stats{q.first.hits, q.first.running, len(q.queues)}
}
