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

// decide decides hits, which all have this lane.
func (l *lane) decide(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (denied bool, err error) {
	patience := l.patience(ctx)
	until := lastTakeOff(patience, hits)
	b, place, err := l.send(hits, false, until)
	if err != nil {
		return false, err
	}
	if err := l.wait(ctx, patience, b.done); err != nil {
		if !until.IsZero() {
			b.leave()
		}
		l.afterwards(ctx, b, place, hits)
		return false, err
	}
	if b.err != nil {
		if errors.Is(b.err, errLate) {
			l.metrics.errors[kindQueueFull].Inc()
		}
		return false, b.err
	}
	var buf [16]limiter.State
	states, denied, err := b.reply.decisions(place, hits, out, buf[:0])
	if err == nil {
		l.denials.note(b, place, hits, states, denied)
	}
	return denied, err
}

// lastTakeOff is until when a call for hits is of use to their caller. The rest of
// its patience, from now on, is for the call itself: if everybody were served at the last moment,
// as happens when more arrives than Redis decides, nobody would be answered in time.
// What is written whatever becomes of it can be at any time.
func lastTakeOff(patience time.Duration, hits []limiter.Hit) time.Time {
	for i := range hits {
		if hits[i].Unconditional() {
			return anytime
		}
	}
	return time.Now().Add(patience * 3 / 4)
}

// send takes a request on, or a part of one, for a call until then; zero is any
// time. It tells its batch and its place in it.
func (l *lane) send(hits []limiter.Hit, isPart bool, until time.Time) (b *batch, place int, err error) {
	b, place, start, err := l.queue.add(hits, isPart, until)
	if errors.Is(err, errQueueFull) {
		l.metrics.errors[kindQueueFull].Inc()
	}
	if start {
		go l.fly()
	}
	return b, place, err
}

// sendBack takes on what is to be given back. It is never refused, since it
// comes of what was taken on. It tells the batch, and the place of the first in it.
func (l *lane) sendBack(charges []giveBack) (b *batch, place int) {
	b, place, start := l.queue.addGiveBacks(charges)
	if start {
		go l.fly()
	}
	return b, place
}

// fly makes calls, one after the other, as long as something waits. If there is
// no use in calls, what waits fails at once.
func (l *lane) fly() {
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
			l.call(b)
			l.denials.loosen(b)
		}
		close(b.done)
	}
}
