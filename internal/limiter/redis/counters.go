package redis

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"weir/internal/limiter"
)

// Peek implements limiter.CounterStore. It takes no longer than Decide.
func (s *store) Peek(ctx context.Context, hits []limiter.Hit) ([]limiter.Counter, error) {
	timeout := s.main.timeout(ctx)
	tickets := make([]ticket, len(hits))
	for i := range hits {
		// In shadow mode none of them denies another.
		h := []limiter.Hit{{Limit: hits[i].Limit, Key: hits[i].Key, Hold: hits[i].Hold, Mode: limiter.Shadow}}
		var err error
		if tickets[i], err = s.locate(&h[0]).queue(ctx, h, false, timeout); err != nil {
			return nil, err
		}
	}
	counters := make([]limiter.Counter, len(hits))
	for i := range hits {
		t := tickets[i]
		if err := s.main.wait(ctx, timeout, t.batch.done); err != nil {
			for _, t := range tickets[i:] {
				t.batch.needed.Add(-1)
			}
			return nil, err
		}
		states, err := t.outcomes(make([]limiter.Decision, 1), nil)
		if err != nil {
			return nil, err
		}
		counters[i] = hits[i].Limit.Counter(states[0], t.batch.reply.now)
	}
	return counters, nil
}

// Reset implements limiter.CounterStore. Other processes may go on to deny by what they
// remember, for a second.
func (s *store) Reset(ctx context.Context, hits []limiter.Hit) error {
	defer s.denials.reset()
	ctx, cancel := context.WithTimeout(ctx, s.main.client.server.Timeout) // for all attempts of go-redis
	defer cancel()
	keys := make(map[*backend][]string)
	for i := range hits {
		b := s.locate(&hits[i]).backend
		keys[b] = append(keys[b], string(hits[i].Key))
	}
	errs := make(chan error, len(keys))
	for b, keys := range keys {
		go func() { errs <- b.reset(ctx, keys) }()
	}
	var err error
	for range keys {
		err = errors.Join(err, <-errs)
	}
	return err
}

func (b *backend) reset(ctx context.Context, keys []string) error {
	_, err := b.client.current().Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.Del(ctx, key)
		}
		return nil
	})
	if err != nil {
		b.client.lookAgain(err)
		return unavailable(b.client.clean(err))
	}
	return nil
}
