package memstore

import (
	"sync"
	"sync/atomic"

	"weir/internal/limiter"
)

// shard is a part of the counters, under one lock.
type shard struct {
	mu     sync.Mutex
	max    uint32        // counters to keep at most
	turn   atomic.Uint64 // which shard requests of this one cleared last
	tables []*table      // by the steps of their keys, nil where no key ever was
	order  blocks[due]

	_ [32]byte // keeps shards in cache lines of their own
}

func (s *shard) init(maxCounters int) {
	s.max = uint32(min(uint64(maxCounters), uint64(none)))
	s.order.width = 1
}

// find returns the counter of key, nil if there is none. It is valid until a
// counter is added or dropped.
func (s *shard) find(hash uint32, key []byte) *counter {
	steps := keySteps(key)
	if steps >= len(s.tables) || s.tables[steps] == nil {
		return nil
	}
	return s.tables[steps].find(hash, key)
}

// add adds a counter for a key that has none. It tells whether another one that
// still mattered at now had to make room.
func (s *shard) add(hash uint32, key []byte, state limiter.State, expiry, now int64) (evicted bool) {
	if s.order.n >= s.max {
		evicted = s.nearest().expiry > now
		s.dropNearest()
	}
	steps := keySteps(key)
	if steps >= len(s.tables) {
		s.tables = append(s.tables, make([]*table, steps+1-len(s.tables))...)
	}
	if s.tables[steps] == nil {
		s.tables[steps] = newTable(steps)
	}
	s.file(due{expiry, uint32(steps), s.tables[steps].add(hash, key, state)})
	return evicted
}

// clear drops up to n counters that have expired at now.
func (s *shard) clear(now int64, n int) {
	for ; n > 0 && s.order.n > 0 && s.nearest().expiry <= now; n-- {
		s.dropNearest()
	}
}

// tryClear is clear of a shard that is not locked, unless others are just at work
// there.
func (s *shard) tryClear(now int64, n int) {
	if s.mu.TryLock() {
		s.clear(now, n)
		s.mu.Unlock()
	}
}

// dropNearest drops the counter that expires first.
func (s *shard) dropNearest() {
	d := s.nearest()
	s.unfile(0)
	t := s.tables[d.table]
	if t.remove(d.counter) {
		moved := t.counters.at(d.counter)
		s.order.at(moved.place).counter = d.counter
	}
}
