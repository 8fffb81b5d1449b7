package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/conn"
)

// Timeout returns how long a caller can wait for Redis: until shortly before its deadline, so
// that the answer of the failure mode arrives in time, but at most the time limit of a call. An
// answer needs 5 ms on a busy machine, which leaves Redis 15 ms of Envoy's default timeout of 20
// ms. Without a deadline, Timeout returns Options.Patience.
func (q *Queues) Timeout(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return q.options.Patience
	}
	left := time.Until(deadline)
	answer := max(left/8, min(left/2, 5*time.Millisecond))
	return min(q.options.Client.Timeout(), max(0, left-answer))
}

// Wait waits until done is closed. It returns an error if timeout passes or ctx is done first.
func (q *Queues) Wait(ctx context.Context, timeout time.Duration, done <-chan struct{}) (err error) {
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
	case <-done: // both were ready, and select chose at random
		return nil
	default:
		return err
	}
}

// WhenDecided is for a request whose caller has left. It returns immediately, and calls finish when
// done is closed. finish returns the error of the request. A request that was decided or too late
// is counted as a timeout, unless its caller canceled it, perhaps after a short wait. WhenDecided
// does nothing if the queues are closed.
func (q *Queues) WhenDecided(ctx context.Context, done <-chan struct{}, finish func() error) {
	late := !errors.Is(ctx.Err(), context.Canceled)
	if !q.Enter() {
		return
	}
	go func() {
		defer q.Exit()
		<-done
		err := finish()
		if late && (err == nil || errors.Is(err, errLate)) { // other errors are counted once for each call
			q.countTimeout()
		}
	}()
}

// CountLate counts a request as rejected if err, the error of the request, means that its call was
// too late for all callers. err may be nil.
func (q *Queues) CountLate(err error) {
	if errors.Is(err, errLate) {
		q.options.Metrics.errors[kindQueueFull].Inc()
	}
}

// countTimeout counts a request that Redis decided, or would have decided, after its caller
// left. It logs the first and then at most once a minute. The breaker ignores these timeouts,
// because Redis answers.
func (q *Queues) countTimeout() {
	q.options.Metrics.errors[conn.KindTimeout].Inc()
	q.late.Add(1)
	q.lateLog.Do(func() {
		q.options.Log().Warn("redis answers after the deadlines of requests, failure modes apply", "kind", conn.KindTimeout, "requests", q.late.Swap(0))
	})
}
