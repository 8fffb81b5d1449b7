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

// whenDecided is for a request whose caller has left. When done is closed it calls finish, which
// returns why the request could not be decided, unless the store is closed before. It counts the
// request if the caller ran out of time; one who cancels need not have waited for long.
func (b *backend) whenDecided(ctx context.Context, done <-chan struct{}, finish func() error) {
	late := !errors.Is(ctx.Err(), context.Canceled)
	if !b.enter() {
		return
	}
	go func() {
		defer b.working.Done()
		<-done
		err := finish()
		if late && (err == nil || errors.Is(err, errLate)) { // other errors of calls are counted
			b.countTimeout()
		}
	}()
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
