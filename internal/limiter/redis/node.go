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
	// maxQueue is the most hits that wait in a line, except that a larger request may
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
// Requests and charges to be given back have a line each, which take turns. A full line refuses
// requests. Charges to be given back are never refused: they would count until the end of their
// window. They are no more than those of the requests that wait somewhere else.
type node struct {
	*backend
	asks caller // nil: of a cluster, whichever node it names for a batch

	mu      sync.Mutex
	lines   [2]line
	turn    int // the line whose turn it is
	closed  bool
	serving bool // a goroutine makes calls until nothing waits
}

// line is batches, first come first served.
type line struct {
	batches []*batch // oldest first
	hits    int      // in batches
	last    int      // hits of the batch that was taken out last
}

const (
	requestLine = iota
	giveBackLine
)

// ticket is where the answer to a request, or to a part of one, will be.
type ticket struct {
	batch *batch
	place int // of the request in batch
}

// send queues a request, or a part of one, of counters in one slot, whose caller can wait for
// timeout. It refuses a request whose caller has left, see limiter.Left.
func (n *node) send(ctx context.Context, slot int, hits []limiter.Hit, isPart bool, timeout time.Duration) (ticket, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	err := limiter.Left(ctx, hits)
	switch waiting := n.lines[requestLine].hits; {
	case errors.Is(err, context.DeadlineExceeded):
		n.countTimeout()
		return ticket{}, err
	case err != nil:
		return ticket{}, err
	case n.closed:
		return ticket{}, errClosed
	case waiting > 0 && waiting+len(hits) > maxQueue:
		n.metrics.errors[kindQueueFull].Inc()
		return ticket{}, errQueueFull
	}
	b := n.batchFor(requestLine, slot, len(hits), timeout)
	b.add(hits, isPart)
	return ticket{b, len(b.ends) - 1}, nil
}

// sendBack queues charges to be given back to counters in one slot, all in one batch.
func (n *node) sendBack(slot int, charges []giveBack) *batch {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.batchFor(giveBackLine, slot, len(charges), n.client.server.Timeout)
	for _, g := range charges {
		b.addGiveBack(g)
	}
	return b
}

// batchFor returns the batch for so many more hits of a caller who can wait for timeout: the
// last one of the slot, if it has room.
func (n *node) batchFor(which, slot, hits int, timeout time.Duration) *batch {
	line := &n.lines[which]
	line.hits += hits
	var b *batch
	for i := len(line.batches) - 1; i >= 0 && b == nil; i-- {
		if line.batches[i].slot == slot {
			b = line.batches[i]
		}
	}
	if b == nil || b.numbers == nil || len(b.hits)+hits > maxBatch {
		b = newBatch(slot, line.last)
		line.batches = append(line.batches, b)
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
	line := &n.lines[requestLine]
	line.batches = append(line.batches, b)
	line.hits += len(b.hits)
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

// next takes out the batches of the next call: of the line whose turn it is, the oldest that
// are of use. If nothing waits it returns nil, and its caller makes no more calls.
func (n *node) next() []*batch {
	n.mu.Lock()
	defer n.mu.Unlock()
	for range n.lines {
		line := &n.lines[n.turn]
		n.turn = (n.turn + 1) % len(n.lines)
		if batches := line.next(); batches != nil {
			return batches
		}
	}
	n.serving = false
	n.working.Done()
	return nil
}

// next takes out the oldest batches that are of use, as many as one call can have.
// Batches that are too late for all their callers fail: Redis would work for
// nobody, while those behind become late in turn. A late batch with nothing behind it is called
// all the same, as long as a caller waits for it.
func (l *line) next() (batches []*batch) {
	for hits := 0; len(l.batches) > 0 && (hits == 0 || hits+len(l.batches[0].hits) <= maxBatch); {
		b := l.batches[0]
		l.batches[0] = nil
		l.batches = l.batches[1:]
		l.last = len(b.hits)
		l.hits -= l.last
		isLast := batches == nil && len(l.batches) == 0
		if b.mustBeCalled || b.needed.Load() > 0 && (isLast || !time.Now().After(b.deadline)) {
			batches = append(batches, b)
			hits += l.last
			continue
		}
		b.err = errLate
		close(b.done)
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
