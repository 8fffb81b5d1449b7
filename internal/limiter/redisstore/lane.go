package redisstore

import (
	"context"
	"errors"
	"runtime"
	"time"

	"weir/internal/limiter"
)

// lane makes calls one after the other: to the one Redis there is, or about one
// slot of a cluster. What arrives during a call goes into the next.
type lane struct {
	*backend
	queue *queue
}

func newLane(b *backend) *lane { return &lane{b, newQueue()} }

// decide decides hits, whose counters all have this lane.
func (l *lane) decide(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (denied bool, err error) {
	timeout := l.timeout(ctx)
	deadline := callDeadline(timeout, hits)
	b, place, err := l.send(hits, false, deadline)
	if err != nil {
		return false, err
	}
	if err := l.wait(ctx, timeout, b.done); err != nil {
		if !deadline.IsZero() {
			b.leave()
		}
		l.noteLater(ctx, b, place, hits)
		return false, err
	}
	if b.err != nil {
		if errors.Is(b.err, errLate) {
			l.metrics.errors[kindQueueFull].Inc()
		}
		return false, b.err
	}
	return l.result(b, place, hits, out)
}

// result reads the decision of the request at place of a batch from the reply, and
// notes it.
func (b *backend) result(batch *batch, place int, hits []limiter.Hit, out []limiter.Decision) (denied bool, err error) {
	var buf [16]limiter.State
	states, denied, err := batch.reply.decisions(place, hits, out, buf[:0])
	if err == nil {
		b.denials.note(batch, place, hits, states, denied)
	}
	return denied, err
}

// send queues a request, or a part of one, for a call before the deadline. It
// returns the batch of the request and its place there.
func (l *lane) send(hits []limiter.Hit, isPart bool, deadline time.Time) (b *batch, place int, err error) {
	b, place, start, err := l.queue.add(hits, isPart, deadline)
	if errors.Is(err, errQueueFull) {
		l.metrics.errors[kindQueueFull].Inc()
	}
	if start {
		go l.serve()
	}
	return b, place, err
}

// sendBack queues charges to be given back, and returns their batch. It never
// fails, because they come of requests that were queued before.
func (l *lane) sendBack(charges []giveBack) *batch {
	b, start := l.queue.addGiveBacks(charges)
	if start {
		go l.serve()
	}
	return b
}

// serve makes calls, one after the other, until the queue is empty. While the
// breaker is open, the batches fail at once.
func (l *lane) serve() {
	for {
		// Requests that have arrived, but whose goroutines did not have their turn
		// yet, come along: a fifth fewer calls on busy processors, no wait on idle ones.
		runtime.Gosched()
		b := l.queue.next()
		if b == nil {
			return
		}
		if l.breaker.isOpen() {
			b.err = errOpen
		} else {
			began := time.Now()
			l.call(b)
			l.queue.excuse(time.Since(began) - l.opTimeout)
			l.denials.noteCredits(b)
		}
		close(b.done)
	}
}
