package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/internal/limiter"
)

// answerTime is what an answer needs to wake up and travel on a busy machine. Of
// Envoy's default of 20 ms it leaves 15 to Redis.
const answerTime = 5 * time.Millisecond

// timeout returns how long a caller can wait for Redis: until so long before its deadline
// that the failure mode's answer still comes in time, but no longer than a call may take.
func (b *backend) timeout(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return b.patience
	}
	left := time.Until(deadline)
	answer := max(left/8, min(left/2, answerTime))
	return min(b.client.server.Timeout, max(0, left-answer))
}

// wait waits until done is closed, but not longer than timeout, nor than ctx.
func (b *backend) wait(ctx context.Context, timeout time.Duration, done <-chan struct{}) (err error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		err = fmt.Errorf("%w: Redis did not answer within %v", limiter.ErrUnavailable, timeout.Round(time.Millisecond))
	case <-ctx.Done():
		err = fmt.Errorf("%w: waiting for Redis: %w", limiter.ErrUnavailable, context.Cause(ctx))
	}
	select {
	case <-done: // too, and select chose by chance
		return nil
	default:
		return err
	}
}

// timedOut reports whether a caller who did not get an answer ran out of time. A
// caller who cancels need not have waited for long.
func timedOut(ctx context.Context) bool { return !errors.Is(ctx.Err(), context.Canceled) }

// noteLater notes the decision of a request whose caller has left, when it comes.
// Else a Redis slower than its callers would never be known to deny. The caller
// uses hits again, so noteLater copies them.
func (b *backend) noteLater(ctx context.Context, t ticket, hits []limiter.Hit) {
	late := timedOut(ctx)
	copies := make([]limiter.Hit, len(hits))
	for i := range hits {
		copies[i] = cloneHit(&hits[i])
	}
	b.whenDone(t.batch.done, func() {
		if late && (t.batch.err == nil || errors.Is(t.batch.err, errLate)) { // other errors of calls are counted
			b.countTimeout()
		}
		_, _ = b.result(t, copies, make([]limiter.Decision, len(copies)))
	})
}

// whenDone calls do when done is closed, unless the store is closed before.
func (b *backend) whenDone(done <-chan struct{}, do func()) {
	if b.enter() {
		go func() {
			defer b.working.Done()
			<-done
			do()
		}()
	}
}

// countTimeout counts a request that Redis answered when its caller had left, or
// would have. The breaker does not count it, because Redis answers. It is logged at once, and
// then once a minute while there are more.
func (b *backend) countTimeout() {
	b.metrics.errors[kindTimeout].Inc()
	b.late.Add(1)
	b.lateLog.Do(func() {
		b.log().Warn("redis answers after the deadlines of requests, failure modes apply", "kind", kindTimeout, "requests", b.late.Swap(0))
	})
}
