package redisstore

import (
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
	// more would not be answered in time.
	maxQueue = 32 * maxBatch
)

var (
	errQueueFull = fmt.Errorf("%w: more than %d hits wait for Redis", limiter.ErrUnavailable, maxQueue)
	errClosed    = fmt.Errorf("%w: the Redis store is closed", limiter.ErrUnavailable)
	errLate      = fmt.Errorf("%w: too much waits for Redis", limiter.ErrUnavailable)
)

// anytime is until when a call is of use that must be made however late it is.
var anytime time.Time

// queue holds what waits for a call: small requests, large ones, and what is to be
// given back. Each of them has a line of its own, and the lines take turns, so that
// none holds another up for longer than a call. Small and large requests need not
// keep their order, since nobody has been answered yet; nor need what is given back
// among requests, since those that it comes of are decided.
//
// Every line is bounded. Requests are refused when theirs is full, so that those
// who send large ones do not take the room of all others. What is to be given back
// never is, because it would be missing until the end of its window; it is bounded
// by maxSpread, which bounds what it comes of.
type queue struct {
	mu        sync.Mutex
	small     line
	large     line
	giveBacks line
	closed    bool
	flying    bool          // somebody makes calls until the queue is empty
	turn      int           // of the lines, in the order of lines
	landed    chan struct{} // closed when the queue is closed and nobody makes calls
}

func newQueue() *queue {
	return &queue{
		small:     line{script: decideScript},
		large:     line{script: decideScript},
		giveBacks: line{script: giveBackScript},
		landed:    make(chan struct{}),
	}
}

// lines lists the lines in the order in which they take turns.
func (q *queue) lines() [3]*line { return [...]*line{&q.small, &q.large, &q.giveBacks} }

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

// next takes the oldest batch out of the line, nil if there is none. It passes over
// those that come too late for all their callers, because Redis would work for
// nobody while those who wait behind become late in turn. But the last one goes even
// late, as long as anybody waits for it: nothing is behind it.
func (l *line) next() *batch {
	for len(l.batches) > 0 {
		b := l.batches[0]
		l.batches[0] = nil
		l.batches = l.batches[1:]
		l.hits -= b.keys.len()
		if b.needed.Load() > 0 && (len(l.batches) == 0 || !b.late(time.Now())) {
			l.last = b.size()
			return b
		}
		b.err = errLate
		close(b.done)
	}
	return nil
}

// add takes a request on, or a part of one, for a call until then.
// It tells its batch and its place in it, and whether the caller must see to it that
// calls are made.
func (q *queue) add(hits []limiter.Hit, isPart bool, until time.Time) (b *batch, place int, start bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
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
	b = line.room(len(hits))
	place = b.requests.len()
	b.add(hits, isPart)
	b.need(until)
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
	b.need(anytime)
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
	lines := q.lines()
	for range lines {
		line := lines[q.turn]
		q.turn = (q.turn + 1) % len(lines)
		if b := line.next(); b != nil {
			return b
		}
	}
	q.flying = false
	if q.closed {
		close(q.landed)
	}
	return nil
}

// close refuses further requests. What waits is still called, if anybody needs it.
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
