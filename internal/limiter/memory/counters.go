package memory

import (
	"context"
	"hash/maphash"

	"weir/internal/limiter"
)

// Peek implements limiter.CounterStore. It never fails.
func (s *Store) Peek(_ context.Context, hits []limiter.Hit) ([]limiter.Counter, error) {
	counters := make([]limiter.Counter, len(hits))
	for i := range hits {
		s.at(hits[i].Key, func(shard *shard, hash uint32) {
			now := s.now()
			counters[i] = hits[i].Limit.Counter(shard.state(&hits[i], hash, now), now)
		})
	}
	return counters, nil
}

// Reset implements limiter.CounterStore. It never fails.
func (s *Store) Reset(_ context.Context, hits []limiter.Hit) error {
	for i := range hits {
		s.at(hits[i].Key, func(shard *shard, hash uint32) {
			if c := shard.find(hash, hits[i].Key); c != nil {
				shard.drop(*shard.orders[c.class].at(c.place))
			}
		})
	}
	return nil
}

// at calls do with the shard of a key, which is locked, and the key's hash there.
func (s *Store) at(key []byte, do func(shard *shard, hash uint32)) {
	hash := maphash.Bytes(s.seed, key)
	shard := &s.shards[hash&uint64(len(s.shards)-1)]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	do(shard, uint32(hash>>32))
}

// state returns the state of the counter of h.
func (s *shard) state(h *limiter.Hit, hash uint32, now int64) limiter.State {
	if h.Hold != nil {
		if of := s.holds[string(h.Key)]; of != nil {
			return of.State(now)
		}
		return limiter.State{}
	}
	c := s.find(hash, h.Key)
	if c == nil {
		return limiter.State{}
	}
	state := c.state
	state.Until = s.until(c)
	return state
}
