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
	// maxQueue is the most hits that wait, except that a larger request may wait
	// alone. Redis needs about half of DefaultOpTimeout for them: more would not be
	// answered in time.
	maxQueue = 16 * maxBatch
)

var (
	errQueueFull = fmt.Errorf("%w: more than %d hits wait for Redis", limiter.ErrUnavailable, maxQueue)
	errClosed    = fmt.Errorf("%w: the Redis store is closed", limiter.ErrUnavailable)
)

// queue holds what waits for a call: requests, and what is to be given back. Each
// has a line of its own, and the two take turns, so that neither holds the other
// up for longer than a call. What is given back need not keep its place among
// requests, since those that it comes of are decided.
//
// Both lines are bounded. Requests are refused when theirs is full. What is to be
// given back never is, because it would be missing until the end of its window;
// it is bounded by maxSpread, which bounds what it comes of.
type queue struct {
	mu        sync.Mutex
	requests  line
	giveBacks line
	closed    bool
	flying    bool          // somebody makes calls until the queue is empty
	backsNext bool          // it is the turn of giveBacks
	landed    chan struct{} // closed when the queue is closed and nobody makes calls
}

func newQueue() *queue {
	return &queue{
		requests:  line{script: decideScript},
		giveBacks: line{script: giveBackScript},
		landed:    make(chan struct{}),
	}
}

// line is batches for one script, first come first served.
type line struct {
	script  *script
	batches []*batch // oldest first; the last one takes more
	hits    int      // in batches
	last    room     // of the last one that left
}

// room returns the batch that takes so many more hits. Any two batches that follow
// each other hold more than maxBatch, so that there are few of them.
func (l *line) room(hits int) *batch {
	l.hits += hits
	if n := len(l.batches); n > 0 && l.batches[n-1].keys.len()+hits <= maxBatch {
		return l.batches[n-1]
	}
	b := newBatch(l.script, l.last)
	l.batches = append(l.batches, b)
	return b
}

// next takes the oldest batch out of the line, nil if there is none.
func (l *line) next() *batch {
	if len(l.batches) == 0 {
		return nil
	}
	b := l.batches[0]
	l.batches[0] = nil
	l.batches = l.batches[1:]
	l.hits -= b.keys.len()
	l.last = b.size()
	return b
}

// add takes a request on, or a part of one. It tells its batch and its place in
// it, and whether the caller must see to it that calls are made.
func (q *queue) add(hits []limiter.Hit, isPart bool) (b *batch, place int, start bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return nil, 0, false, errClosed
	case q.requests.hits > 0 && q.requests.hits+len(hits) > maxQueue:
		return nil, 0, false, errQueueFull
	}
	b = q.requests.room(len(hits))
	place = b.requests.len()
	b.add(hits, isPart)
	return b, place, q.start(), nil
}

// addGiveBacks takes on what is to be given back, all of it in one batch.
func (q *queue) addGiveBacks(charges []giveBack) (b *batch, place int, start bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b = q.giveBacks.room(len(charges))
	place = b.requests.len()
	for _, g := range charges {
		b.addGiveBack(g)
	}
	return b, place, q.start()
}

// start tells whether nobody makes calls yet.
func (q *queue) start() bool {
	started := q.flying
	q.flying = true
	return !started
}

// next takes the batch whose turn it is out of the queue. After nil, which means
// that there is none, the caller makes no more calls.
func (q *queue) next() *batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	first, second := &q.requests, &q.giveBacks
	if q.backsNext {
		first, second = second, first
	}
	b := first.next()
	if b == nil {
		b = second.next()
	}
	if b == nil {
		q.flying = false
		if q.closed {
			close(q.landed)
		}
		return nil
	}
	q.backsNext = b.script == decideScript
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
