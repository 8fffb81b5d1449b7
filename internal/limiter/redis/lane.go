package redis

import (
	"context"
	"errors"
	"time"

	"weir/internal/limiter"
)

// lane is the requests to the one Redis there is, or about one slot of a cluster.
// It has one batch called at a time, by its node. What arrives meanwhile goes into
// the next.
type lane struct {
	*backend
	queue *queue
	key   string // of a counter, by which a cluster finds the node of the slot
}

func newLane(b *backend, key []byte) *lane { return &lane{b, newQueue(), string(key)} }

// decide decides hits, whose counters all have this lane.
func (l *lane) decide(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (denied bool, err error) {
	timeout := l.timeout(ctx)
	deadline := callDeadline(timeout, hits)
	b, place, err := l.send(ctx, hits, false, deadline)
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
func (l *lane) send(ctx context.Context, hits []limiter.Hit, isPart bool, deadline time.Time) (b *batch, place int, err error) {
	b, place, start, err := l.add(ctx, hits, isPart, deadline)
	if start {
		l.wake()
	}
	return b, place, err
}

// add queues a request as send does, and reports whether the caller must wake l.
func (l *lane) add(ctx context.Context, hits []limiter.Hit, isPart bool, deadline time.Time) (b *batch, place int, start bool, err error) {
	b, place, start, err = l.queue.add(ctx, hits, isPart, deadline)
	switch {
	case errors.Is(err, errQueueFull):
		l.metrics.errors[kindQueueFull].Inc()
	case errors.Is(err, context.DeadlineExceeded):
		l.countTimeout()
	}
	return b, place, start, err
}

// sendBack queues charges to be given back, and returns their batch. It never
// fails, because they come of requests that were queued before.
func (l *lane) sendBack(charges []giveBack) *batch {
	b, start := l.queue.addGiveBacks(charges)
	if start {
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
		if b := l.queue.next(true); b != nil {
			l.callAlone(b)
		}
	}()
}

// callAlone calls a batch through the client of the cluster, which finds its node and
// goes where that says. Others of the node that was asked do not wait for it.
func (l *lane) callAlone(b *batch) {
	l.call(b)
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
