package redis

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"weir/internal/limiter"
)

const (
	// maxBatch is the most hits that go into one call, except that a larger request
	// goes alone. A call of this size keeps Redis busy for one to three milliseconds
	// (BenchmarkPrice), in which it serves nobody else. Larger calls would save round
	// trips of large requests, but make small ones wait for longer.
	maxBatch = 256
	// maxQueue is the most hits that wait for a node, except that a larger request may
	// wait alone. Redis needs 30 to 80 ms for them, which is most of DefaultWait:
	// more would not be answered in time.
	maxQueue = 32 * maxBatch
)

var (
	errQueueFull = fmt.Errorf("%w: more than %d hits are waiting for Redis", limiter.ErrUnavailable, maxQueue)
	errClosed    = fmt.Errorf("%w: the Redis store is closed", limiter.ErrUnavailable)
	errLate      = fmt.Errorf("%w: too many requests are waiting for Redis", limiter.ErrUnavailable)
)

// node makes the calls to one server: to the one Redis there is, or to one primary of a
// cluster. It makes one after the other. What arrives during a call waits and goes into the
// next one, which in a cluster is a pipeline with a batch for each slot, so that the slots of
// a primary share writes, reads and wake-ups.
//
// A full queue refuses requests. Charges to be given back are never refused: they would count
// until the end of their window. They are no more than those of the requests that wait
// somewhere else.
type node struct {
	*backend
	asks  caller // nil: of a cluster, whichever node it names for a batch
	first string // key of the counter for which the node was made

	mu      sync.Mutex
	batches []*batch // that wait, oldest first
	hits    int      // in batches
	last    int      // hits of the batch that was taken out last
	closed  bool
	serving bool // a goroutine makes calls until nothing waits
}

// ticket is where the answer to a request, or to a part of one, will be.
type ticket struct {
	batch *batch
	place int // of the request in batch
}

// queue has a request, or a part of one, wait for the next call to its node, if its caller can
// wait for timeout. It refuses a request whose caller has left, see limiter.Left.
func (l location) queue(ctx context.Context, hits []limiter.Hit, isPart bool, timeout time.Duration) (ticket, error) {
	n := l.node(hits[0].Key)
	n.mu.Lock()
	defer n.mu.Unlock()
	err := limiter.Left(ctx, hits)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		n.countTimeout()
		return ticket{}, err
	case err != nil:
		return ticket{}, err
	case n.closed:
		return ticket{}, errClosed
	case n.hits > 0 && n.hits+len(hits) > maxQueue:
		n.metrics.errors[kindQueueFull].Inc()
		return ticket{}, errQueueFull
	}
	b := n.batchFor(l.slot, len(hits), timeout)
	b.add(hits, isPart)
	return ticket{b, len(b.ends) - 1}, nil
}

// queueGiveBacks has charges wait for the next call to their node, which it returns.
func (l location) queueGiveBacks(charges []giveBack) *batch {
	n := l.node(charges[0].Key)
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.batchFor(l.slot, len(charges), n.client.server.Timeout)
	for _, g := range charges {
		b.addGiveBack(g)
	}
	return b
}

// batchFor returns the batch for so many more hits of a caller who can wait for timeout: the
// last one of the slot, if it has room.
func (n *node) batchFor(slot, hits int, timeout time.Duration) *batch {
	n.hits += hits
	var b *batch
	for i := len(n.batches) - 1; i >= 0 && b == nil; i-- {
		if n.batches[i].slot == slot {
			b = n.batches[i]
		}
	}
	if b == nil || b.numbers == nil || len(b.hits)+hits > maxBatch {
		b = newBatch(slot, n.last)
		n.batches = append(n.batches, b)
	}
	b.needed.Add(1)
	now := time.Now()
	if until := now.Add(timeout); until.After(b.until) {
		b.until = until
	}
	// The rest of the time is for the call itself: if every request were called at the last
	// moment, as happens when more arrives than Redis decides, none would be answered in time.
	if deadline := now.Add(timeout * 3 / 4); deadline.After(b.deadline) {
		b.deadline = deadline
	}
	n.wake()
	return b
}

// requeue queues a batch that another node could not decide.
func (n *node) requeue(b *batch) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.batches = append(n.batches, b)
	n.hits += len(b.hits)
	n.wake()
}

// wake has calls made until nothing waits. The node is locked.
func (n *node) wake() {
	if !n.serving {
		n.serving = true
		n.working.Add(1)
		go n.serve()
	}
}

// serve makes calls, one after the other, until nothing waits. While the breaker is
// open, the batches fail at once.
func (n *node) serve() {
	for {
		// Requests that have arrived, but whose goroutines did not have their turn
		// yet, come along: a fifth fewer calls on busy processors, no wait on idle ones.
		runtime.Gosched()
		batches := n.next()
		var elsewhere []*batch
		switch {
		case batches == nil:
			return
		case n.breaker.isOpen():
			for _, b := range batches {
				b.err = errOpen
			}
		case n.asks == nil:
			n.callEach(batches)
		default:
			elsewhere = n.call(n.asks, batches)
		}
		for _, b := range batches {
			if slices.Contains(elsewhere, b) {
				n.any.requeue(b)
				continue
			}
			n.denials.noteCredits(b)
			close(b.done)
		}
	}
}

// callEach makes a call for each batch, all at once, through the client of the cluster, which
// finds its node and goes where that says.
func (n *node) callEach(batches []*batch) {
	var calls sync.WaitGroup
	for _, b := range batches {
		calls.Go(func() {
			n.call(n.client, []*batch{b})
			if b.err == nil {
				n.located.Store(true)
			}
		})
	}
	calls.Wait()
}

// next takes out the batches of the next call, the oldest that are of use. If nothing waits it
// ends the serving and returns nil: serve must return then, and wake starts it again.
//
// Batches that are too late for all their callers fail: Redis would work for
// nobody, while those behind become late in turn. A late batch with nothing behind it is called
// all the same, as long as a caller waits for it.
func (n *node) next() (batches []*batch) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for hits := 0; len(n.batches) > 0 && (hits == 0 || hits+len(n.batches[0].hits) <= maxBatch); {
		b := n.batches[0]
		n.batches[0] = nil
		n.batches = n.batches[1:]
		n.last = len(b.hits)
		n.hits -= n.last
		isLast := batches == nil && len(n.batches) == 0
		if b.mustBeCalled || b.needed.Load() > 0 && (isLast || !time.Now().After(b.deadline)) {
			batches = append(batches, b)
			hits += n.last
			continue
		}
		b.err = errLate
		close(b.done)
	}
	if batches == nil {
		n.serving = false
		n.working.Done()
	}
	return batches
}

// close refuses further requests. Those that wait are still called, if a caller waits
// for them.
func (n *node) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
}
