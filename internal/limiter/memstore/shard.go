package memstore

import (
	"container/heap"
	"sync"

	"weir/internal/limiter"
)

// shard is a part of the counters, under one lock.
type shard struct {
	mu       sync.Mutex
	max      int                 // counters to keep at most
	counters map[string]*counter // by key
	byExpiry expiryHeap          // the same counters, the next to expire first
}

// counter is the state of one key.
type counter struct {
	key    string
	state  limiter.State
	expiry int64 // when state no longer matters, in microseconds since the epoch
	index  int   // place in byExpiry, or fresh or dropped
}

const (
	fresh   = -1 // found by the request that is being decided, and not yet kept
	dropped = -2
)

// find returns the counter of key, a fresh one if there is none. A request must
// keep what it found.
func (s *shard) find(key []byte) *counter {
	if c := s.counters[string(key)]; c != nil {
		return c
	}
	c := &counter{key: string(key), index: fresh}
	s.counters[c.key] = c
	return c
}

// keep files c under its expiry, or drops it if it is not used. It tells
// whether another counter that still mattered at now had to make room.
func (s *shard) keep(c *counter, expiry, now int64) (evicted bool) {
	switch {
	case c.index == dropped: // by an earlier hit of the same request
	case expiry <= now:
		s.drop(c)
	case c.index == fresh:
		if len(s.byExpiry) >= s.max {
			evicted = s.byExpiry[0].expiry > now
			s.drop(s.byExpiry[0])
		}
		c.expiry = expiry
		heap.Push(&s.byExpiry, c)
	case c.expiry != expiry:
		c.expiry = expiry
		heap.Fix(&s.byExpiry, c.index)
	}
	return evicted
}

// clearExpired drops up to n counters that have expired at now.
func (s *shard) clearExpired(now int64, n int) {
	for ; n > 0 && len(s.byExpiry) > 0 && s.byExpiry[0].expiry <= now; n-- {
		s.drop(s.byExpiry[0])
	}
}

func (s *shard) drop(c *counter) {
	if c.index >= 0 {
		heap.Remove(&s.byExpiry, c.index)
	}
	c.index = dropped
	delete(s.counters, c.key)
	// A map never shrinks: after a flood of keys it would stay as large as it got.
	if len(s.counters) == 0 && cap(s.byExpiry) > worthReturning {
		s.counters, s.byExpiry = make(map[string]*counter), nil
	}
}

// expiryHeap implements heap.Interface.
type expiryHeap []*counter

func (h expiryHeap) Len() int           { return len(h) }
func (h expiryHeap) Less(i, j int) bool { return h[i].expiry < h[j].expiry }
func (h expiryHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push appends a counter, for heap.Push.
func (h *expiryHeap) Push(x any) {
	c := x.(*counter)
	c.index = len(*h)
	*h = append(*h, c)
}

// Pop takes the last counter, for heap.Remove.
func (h *expiryHeap) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return c
}
