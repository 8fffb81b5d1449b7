package redis

import (
	"context"
	"fmt"
	"sync"
	"time"

	"weir/internal/limiter"
)

const (
	// smallRequest is the most hits of a request that does not wait behind large ones.
	smallRequest = 16
	// maxBatch is the most hits that go into one call, except that a larger request
	// goes alone. A call of this size keeps Redis busy for one to three milliseconds
	// (BenchmarkCall), in which it serves nobody else. Larger calls would save round
	// trips of large requests, but make small ones wait for longer.
	maxBatch = 256
	// maxQueue is the most hits that wait in a line, except that a larger request may
	// wait alone. Redis needs 30 to 80 ms for them, which is most of DefaultOpTimeout:
	// more would not be answered in time. In a cluster it bounds each slot: what is too late
	// there is not called.
	maxQueue = 32 * maxBatch
)

var (
	errQueueFull = fmt.Errorf("%w: more than %d hits wait for Redis", limiter.ErrUnavailable, maxQueue)
	errClosed    = fmt.Errorf("%w: the Redis store is closed", limiter.ErrUnavailable)
	errLate      = fmt.Errorf("%w: too much waits for Redis", limiter.ErrUnavailable)
)

// noDeadline is the deadline of a call that must be made however late it is.
var noDeadline time.Time

// queue holds what waits for a call: small requests, large ones, and charges to be
// given back. Each kind has a line of its own, and the lines take turns, so that
// none delays another by more than one call. The order between lines does not
// matter: no request in them has an answer yet, and charges that are given back
// belong to requests that have one.
//
// Every line is bounded. A full line refuses requests, and as small and large ones
// have lines of their own, large ones do not take the room of all others. Charges
// to be given back are never refused: they would count until the end of their
// window. They are bounded by maxCrossSlotHits, which bounds the requests that made
// them.
type queue struct {
	mu        sync.Mutex
	small     line
	large     line
	giveBacks line
	closed    bool
	serving   bool          // calls are made, or will be, until the queue is empty
	turn      int           // index of the line whose turn it is
	drained   chan struct{} // closed when the queue is closed and no calls are made
}

func newQueue() *queue {
	return &queue{drained: make(chan struct{})}
}

// lines lists the lines in the order in which they take turns.
func (q *queue) lines() [3]*line { return [...]*line{&q.small, &q.large, &q.giveBacks} }

// line is batches, first come first served.
type line struct {
	batches []*batch // oldest first; the last one takes more
	hits    int      // in batches
	last    room     // size of the last batch that was taken out
}

// batchFor returns the batch for so many more hits. Any two batches that follow
// each other hold more than maxBatch, so that there are few of them.
func (l *line) batchFor(hits int) *batch {
	l.hits += hits
	if n := len(l.batches); n > 0 && l.batches[n-1].weight()+hits <= maxBatch {
		return l.batches[n-1]
	}
	b := newBatch(l.last)
	l.batches = append(l.batches, b)
	return b
}

// next takes out the oldest batch that is of use, and returns nil if there is none.
// Batches that are too late for all their callers fail: Redis would work for
// nobody, while those behind become late in turn. Where the line is the last that
// waits, its last batch is returned even if it is late, as long as a caller waits for
// it: nothing is behind it.
func (l *line) next(isLast bool) *batch {
	for len(l.batches) > 0 {
		b := l.batches[0]
		l.batches[0] = nil
		l.batches = l.batches[1:]
		l.hits -= b.weight()
		if b.needed.Load() > 0 && (isLast && len(l.batches) == 0 || !b.late(time.Now())) {
			l.last = b.size()
			return b
		}
		b.err = errLate
		close(b.done)
	}
	return nil
}

// add queues a request, or a part of one, for a call before the deadline. It
// returns the batch of the request, its place there, and whether the caller must
// have calls made. It refuses a request whose caller has left, see limiter.Left.
func (q *queue) add(ctx context.Context, hits []limiter.Hit, isPart bool, deadline time.Time) (b *batch, place int, start bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := limiter.Left(ctx, hits); err != nil {
		return nil, 0, false, err
	}
	line := &q.small
	if len(hits) > smallRequest {
		line = &q.large
	}
	switch {
	case q.closed:
		return nil, 0, false, errClosed
	case line.hits > 0 && line.hits+len(hits) > maxQueue:
		return nil, 0, false, errQueueFull
	}
	b = line.batchFor(len(hits))
	place = b.len()
	b.add(hits, isPart)
	b.need(deadline)
	return b, place, q.start(), nil
}

// addGiveBacks queues charges to be given back, all in one batch, and reports
// whether the caller must have calls made.
func (q *queue) addGiveBacks(charges []giveBack) (b *batch, start bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b = q.giveBacks.batchFor(len(charges))
	for _, g := range charges {
		b.addGiveBack(g)
	}
	b.need(noDeadline)
	return b, q.start()
}

// start reports whether no calls are made yet. From then on, they are.
func (q *queue) start() bool {
	started := q.serving
	q.serving = true
	return !started
}

// next takes out the batch whose turn it is. isLast reports whether nothing else waits
// for the node. It returns nil if there is none. Then the caller makes no more calls.
func (q *queue) next(isLast bool) *batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	lines := q.lines()
	for range lines {
		line := lines[q.turn]
		q.turn = (q.turn + 1) % len(lines)
		if b := line.next(isLast); b != nil {
			return b
		}
	}
	q.serving = false
	if q.closed {
		close(q.drained)
	}
	return nil
}

// close refuses further requests. Those in the queue are still called, if a caller
// waits for them.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.closed = true
	if !q.serving {
		close(q.drained)
	}
}
