package redis

import (
	"context"
	"errors"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/queue"
)

// Peek implements limiter.CounterStore. It takes no longer than Decide.
func (s *Store) Peek(ctx context.Context, hits []limiter.Hit) ([]limiter.Counter, error) {
	timeout := s.main.queues.Timeout(ctx)
	tickets := make([]queue.Ticket, len(hits))
	for i := range hits {
		// A peek in shadow mode denies nothing.
		h := []limiter.Hit{{Limit: hits[i].Limit, Key: hits[i].Key, Hold: hits[i].Hold, Mode: limiter.Shadow}}
		at := s.locate(&h[0])
		var err error
		if tickets[i], err = at.backend.queues.Of(h[0].Key).Add(ctx, at.slot, h, false, timeout); err != nil {
			return nil, err
		}
	}
	counters := make([]limiter.Counter, len(hits))
	for i := range hits {
		t := tickets[i]
		if err := s.main.queues.Wait(ctx, timeout, t.Call.Done); err != nil { // the remaining calls may still be made, but change nothing
			return nil, err
		}
		states, err := t.Outcomes(make([]limiter.Decision, 1), nil)
		if err != nil {
			return nil, err
		}
		counters[i] = hits[i].Limit.Counter(states[0], t.Call.Reply.Now)
	}
	return counters, nil
}

// Reset implements limiter.CounterStore. Other servers may still deny by remembered states for a
// second.
func (s *Store) Reset(ctx context.Context, hits []limiter.Hit) error {
	defer s.memo.reset()
	ctx, cancel := context.WithTimeout(ctx, s.main.client.Timeout()) // for all attempts of go-redis together
	defer cancel()
	keys := make(map[*backend][]string)
	for i := range hits {
		b := s.locate(&hits[i]).backend
		keys[b] = append(keys[b], string(hits[i].Key))
	}
	errs := make(chan error, len(keys))
	for b, keys := range keys {
		go func() {
			p := b.client.Current().Pipeline()
			for _, key := range keys {
				p.Del(ctx, key)
			}
			_, err := p.Exec(ctx)
			errs <- queue.Unavailable(b.client.Failed(err))
		}()
	}
	var err error
	for range keys {
		err = errors.Join(err, <-errs)
	}
	return err
}
