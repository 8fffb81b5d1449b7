package redisstore

import (
	"fmt"
	"sync"

	"weir/internal/limiter"
)

const (
	// maxBatch is the most hits that go into one call, except that a larger
	// request goes alone. A call of this size keeps Redis busy for a few
	// milliseconds, in which it serves nobody else.
	maxBatch = 1024
	// maxQueue is the most hits that wait. Redis needs about half of
	// DefaultOpTimeout for them: more would not be answered in time.
	maxQueue = 16 * maxBatch
)

var (
	errQueueFull = fmt.Errorf("%w: more than %d hits wait for Redis", limiter.ErrUnavailable, maxQueue)
	errClosed    = fmt.Errorf("%w: the Redis store is closed", limiter.ErrUnavailable)
)

// queue holds the requests that wait for a call, first come first served.
type queue struct {
	mu      sync.Mutex
	batches []*batch // oldest first; the last one takes more requests
	hits    int      // in batches
	closed  bool
	flying  bool          // somebody makes calls until the queue is empty
	landed  chan struct{} // closed when the queue is closed and nobody makes calls
}

func newQueue() *queue { return &queue{landed: make(chan struct{})} }

// add takes a request on, or a part of one. It tells its batch and its place in
// it, and whether the caller must see to it that calls are made.
func (q *queue) add(hits []limiter.Hit, isPart bool) (b *batch, place int, start bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return nil, 0, false, errClosed
	case q.hits > 0 && q.hits+len(hits) > maxQueue:
		return nil, 0, false, errQueueFull
	}
	b = q.room(decideScript, len(hits))
	place = b.requests.len()
	b.add(hits, isPart)
	return b, place, q.start(), nil
}

// addGiveBacks takes on what is to be given back, all of it in one batch.
func (q *queue) addGiveBacks(charges []giveBack) (b *batch, place int, start bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b = q.room(giveBackScript, len(charges))
	place = b.requests.len()
	for _, g := range charges {
		b.addGiveBack(g)
	}
	return b, place, q.start()
}

// room returns the batch that takes so many more hits: the last one for the same
// script. What is given back need not keep its place among requests, since those
// that it comes of are decided; so the two scripts do not part what arrives.
func (q *queue) room(s *script, hits int) *batch {
	q.hits += hits
	for n := len(q.batches) - 1; n >= max(0, len(q.batches)-2); n-- {
		if b := q.batches[n]; b.script == s {
			if b.keys.len()+hits <= maxBatch {
				return b
			}
			break // requests keep their order among themselves
		}
	}
	b := &batch{script: s, done: make(chan struct{})}
	q.batches = append(q.batches, b)
	return b
}

// start tells whether nobody makes calls yet.
func (q *queue) start() bool {
	started := q.flying
	q.flying = true
	return !started
}

// next takes the oldest batch out of the queue. After nil, which means that
// there is none, the caller makes no more calls.
func (q *queue) next() *batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.batches) == 0 {
		q.flying = false
		if q.closed {
			close(q.landed)
		}
		return nil
	}
	b := q.batches[0]
	q.batches[0] = nil
	q.batches = q.batches[1:]
	q.hits -= b.keys.len()
	return b
}

// close refuses further requests. What waits is still called.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.closed = true
	if !q.flying {
		close(q.landed)
	}
}
