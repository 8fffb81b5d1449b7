package redis

import (
	"context"
	"errors"
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
	// (BenchmarkPrice), in which it serves nobody else. Larger calls would save round
	// trips of large requests, but make small ones wait for longer.
	maxBatch = 256
	// maxQueue is the most hits that wait in a line, except that a larger request may
	// wait alone. Redis needs 30 to 80 ms for them, which is most of DefaultWait:
	// more would not be answered in time. In a cluster it bounds each slot: what is too late
	// there is not called.
	maxQueue = 32 * maxBatch
)

var (
	errQueueFull = fmt.Errorf("%w: more than %d hits wait for Redis", limiter.ErrUnavailable, maxQueue)
	errClosed    = fmt.Errorf("%w: the Redis store is closed", limiter.ErrUnavailable)
	errLate      = fmt.Errorf("%w: too much waits for Redis", limiter.ErrUnavailable)
)

// lane is what waits for the one Redis there is, or for one slot of a cluster: small
// requests, large ones, and charges to be given back. Each kind has a line of its own, and
// the lines take turns, so that none delays another by more than one call. The order
// between lines does not matter: no request in them has an answer yet, and charges that
// are given back belong to requests that have one.
//
// One batch at a time is called, by the node. What arrives meanwhile goes into the next.
//
// A full line refuses requests. Charges to be given back are never refused: they would
// count until the end of their window. They are bounded by maxCrossSlotHits, which bounds
// the requests that made them.
type lane struct {
	*backend
	key string // of a counter, by which a cluster finds the node of the slot

	mu      sync.Mutex
	lines   [3]line // of small requests, large ones and charges to be given back
	turn    int     // the line whose turn it is
	closed  bool
	serving bool // calls are made, or will be, until nothing waits
}

// line is batches, first come first served.
type line struct {
	batches []*batch // oldest first; the last one takes more
	hits    int      // in batches
	last    int      // hits of the batch that was taken out last
}

const (
	smallLine = iota
	largeLine
	giveBackLine
)

// send queues a request, or a part of one, whose caller can wait for timeout. It returns the
// batch of the request, and its place there. It refuses a request whose caller has left,
// see limiter.Left.
func (l *lane) send(ctx context.Context, hits []limiter.Hit, isPart bool, timeout time.Duration) (b *batch, place int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	which := smallLine
	if len(hits) > smallRequest {
		which = largeLine
	}
	err = limiter.Left(ctx, hits)
	switch waiting := l.lines[which].hits; {
	case errors.Is(err, context.DeadlineExceeded):
		l.countTimeout()
		return nil, 0, err
	case err != nil:
		return nil, 0, err
	case l.closed:
		return nil, 0, errClosed
	case waiting > 0 && waiting+len(hits) > maxQueue:
		l.metrics.errors[kindQueueFull].Inc()
		return nil, 0, errQueueFull
	}
	b = l.batchFor(which, len(hits), timeout)
	b.mustBeCalled = b.mustBeCalled || mustBeCalled(hits)
	b.add(hits, isPart)
	return b, len(b.ends) - 1, nil
}

// sendBack queues charges to be given back, all in one batch.
func (l *lane) sendBack(charges []giveBack) *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.batchFor(giveBackLine, len(charges), l.client.server.Timeout)
	b.mustBeCalled = true
	for _, g := range charges {
		b.addGiveBack(g)
	}
	return b
}

// batchFor returns the batch for so many more hits of a caller who can wait for timeout. Any
// two batches that follow each other hold more than maxBatch, so that there are few of them.
func (l *lane) batchFor(which, hits int, timeout time.Duration) *batch {
	line := &l.lines[which]
	line.hits += hits
	n := len(line.batches)
	if n == 0 || len(line.batches[n-1].hits)+hits > maxBatch {
		line.batches = append(line.batches, newBatch(l, line.last))
		n++
	}
	b := line.batches[n-1]
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
	if !l.serving {
		l.serving = true
		l.working.Add(1)
		l.wake()
	}
	return b
}

// wake has the node of l call its next batch. Where no node is known, the client of
// the cluster finds it.
func (l *lane) wake() {
	if n := l.nodeOf(l.key); n != nil {
		n.add(l)
		return
	}
	go func() {
		if b := l.next(true); b != nil {
			l.callAlone(b)
		}
	}()
}

// callAlone calls a batch through the client of the cluster, which finds its node and
// goes where that says. Others of the node that was asked do not wait for it.
func (l *lane) callAlone(b *batch) {
	l.call(l.client, []*batch{b})
	if b.err == nil {
		l.located.Store(true)
	}
	l.done(b)
}

// done hands out what became of a batch, and has the next one called.
func (l *lane) done(b *batch) {
	l.denials.noteCredits(b)
	close(b.done)
	l.wake()
}

// next takes out the batch whose turn it is. isLast reports whether nothing else waits
// for the node. It returns nil if there is none. Then the caller makes no more calls.
func (l *lane) next(isLast bool) *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range l.lines {
		line := &l.lines[l.turn]
		l.turn = (l.turn + 1) % len(l.lines)
		if b := line.next(isLast); b != nil {
			return b
		}
	}
	l.serving = false
	l.working.Done()
	return nil
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
		l.last = len(b.hits)
		l.hits -= l.last
		isLate := !b.mustBeCalled && time.Now().After(b.deadline)
		if b.needed.Load() > 0 && (!isLate || isLast && len(l.batches) == 0) {
			return b
		}
		b.err = errLate
		close(b.done)
	}
	return nil
}

// close refuses further requests. Those that wait are still called, if a caller waits
// for them.
func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// decide decides hits, whose counters all have this lane.
func (l *lane) decide(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (denied bool, err error) {
	timeout := l.timeout(ctx)
	b, place, err := l.send(ctx, hits, false, timeout)
	if err != nil {
		return false, err
	}
	if err := l.wait(ctx, timeout, b.done); err != nil {
		if !mustBeCalled(hits) {
			b.needed.Add(-1) // it is called all the same, if the callers of others in it wait
		}
		l.noteLater(ctx, b, place, hits)
		return false, err
	}
	if errors.Is(b.err, errLate) {
		l.metrics.errors[kindQueueFull].Inc()
	}
	return b.result(place, hits, out)
}

// result reads the decision of the request at place from the reply, and notes it.
func (b *batch) result(place int, hits []limiter.Hit, out []limiter.Decision) (denied bool, err error) {
	if b.err != nil {
		return false, b.err
	}
	var buf [16]limiter.State
	states, err := b.reply.outcomes(place, out, buf[:0])
	if err != nil {
		return false, err
	}
	denied = limiter.Settle(hits, out)
	limiter.Describe(hits, states, b.reply.now, out)
	b.lane.denials.note(b, place, hits, states, denied)
	return denied, nil
}
