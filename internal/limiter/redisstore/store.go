package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/limiter"
)

// Store is a limiter.Store on a single Redis. Its Decide holds a request back
// while the call before is in flight.
//
// Whatever Redis does, Decide returns within Options.OpTimeout, and so long
// before the deadline of the caller's context (an eighth of the time left, and
// answerTime if that is more) that the caller's own caller learns of the failure
// before it gives up.
type Store struct {
	client    *redis.Client
	opTimeout time.Duration
	now       func() time.Time // nil: Redis' clock
	queue     *queue
	metrics   *metrics
	outage    outage
}

var _ limiter.Store = (*Store)(nil)

// answerTime is what an answer needs to wake up and travel on a busy machine. Of
// Envoy's default of 20 ms it leaves 15 to Redis.
const answerTime = 5 * time.Millisecond

// New returns a store on the Redis that o names, or an error that names what is
// wrong with o. It does not connect: Redis need not be there yet.
func New(o Options) (*Store, error) {
	client, err := o.client()
	if err != nil {
		return nil, err
	}
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Store{
		client:    redis.NewClient(client),
		opTimeout: client.ReadTimeout,
		now:       o.Now,
		queue:     newQueue(),
		metrics:   newMetrics(o.Registerer),
		outage:    outage{log: log.With("address", client.Addr)},
	}, nil
}

// Decide implements limiter.Store. All its errors wrap limiter.ErrUnavailable;
// if the caller went away, also the cause of that.
func (s *Store) Decide(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (denied bool, err error) {
	b, place, start, err := s.queue.add(hits)
	if err != nil {
		if errors.Is(err, errQueueFull) {
			s.metrics.errors[kindQueueFull].Inc()
		}
		return false, err
	}
	if start {
		go s.fly()
	}
	if err := s.wait(ctx, b); err != nil {
		return false, err
	}
	return b.reply.decisions(place, hits, out)
}

// fly makes calls, one after the other, as long as requests wait.
func (s *Store) fly() {
	for b := s.queue.next(); b != nil; b = s.queue.next() {
		s.call(b)
		close(b.done)
	}
}

// wait waits for the call of b, but not longer than the caller can.
func (s *Store) wait(ctx context.Context, b *batch) error {
	patience := s.opTimeout
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(patience, patienceOf(time.Until(deadline)))
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-b.done:
		return b.err
	case <-timer.C:
		return fmt.Errorf("%w: no answer of Redis within %v", limiter.ErrUnavailable, patience.Round(time.Millisecond))
	case <-ctx.Done():
		return fmt.Errorf("%w: waiting for Redis: %w", limiter.ErrUnavailable, context.Cause(ctx))
	}
}

// patienceOf is how long a caller can wait who gives up when so much time has
// passed, and whose own caller is to learn of it before that.
func patienceOf(left time.Duration) time.Duration {
	answer := max(left/8, min(left/2, answerTime))
	return max(0, left-answer)
}

// State tells whether Redis decides, as of the last call.
func (s *Store) State() State { return s.outage.now() }

// Close ends the store: it refuses new requests, lets those that it has taken
// on be decided for at most ten times Options.OpTimeout, and closes the
// connections. It returns when nothing of the store runs any more.
func (s *Store) Close() error {
	s.queue.close()
	timer := time.NewTimer(10 * s.opTimeout)
	defer timer.Stop()
	select {
	case <-s.queue.landed:
	case <-timer.C:
	}
	err := s.client.Close() // calls that still wait fail at once
	<-s.queue.landed
	s.outage.close()
	if err != nil {
		return fmt.Errorf("closing the connections to Redis: %w", err)
	}
	return nil
}
