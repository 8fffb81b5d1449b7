// Package memstore keeps counters in the memory of this process. It is the
// store of a single replica and of tests: nothing is shared between processes
// and nothing survives one.
//
// Counters are spread over shards, each under its own lock. A request locks the
// shards of all its hits at once, in ascending order, and so is decided as one
// step without waiting for requests elsewhere. There is no goroutine: expired
// counters are cleared away by the requests that follow.
package memstore

import (
	"context"
	"hash/maphash"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
)

// DefaultMaxCounters is used where Options say nothing. With keys of 30 to 70
// bytes a counter takes 160 to 210 bytes, and the process 200 to 290 for it: this
// many take 200 to 290 MB. While new keys push out old ones, the garbage that
// they are until it is collected takes up to 500 MB altogether.
const DefaultMaxCounters = 1_000_000

// Options are what a Store needs; the zero value works.
type Options struct {
	// MaxCounters bounds how many counters are kept, DefaultMaxCounters if 0.
	// When they are full, a new counter takes the place of an expired one or, if
	// there is none, of the one nearest to its expiry, whose limit then starts
	// anew: that is counted in weir_memory_evictions_total. Each shard
	// holds an equal part, so a store of many counters evicts when its fullest
	// shard is full, a few percent before MaxCounters.
	MaxCounters int
	// Now is the clock, time.Now if nil.
	Now func() time.Time
	// Registerer takes the metrics; if nil, nobody sees them.
	Registerer prometheus.Registerer
}

const (
	maxShards      = 64   // bits of the mask of locks
	minPerShard    = 1024 // below it, fewer shards keep the bound closer
	scratch        = 16   // hits of a request that is decided without allocation
	clearedPerHit  = 2    // expired counters cleared away for each hit, which adds at most one
	worthReturning = 1024 // counters a shard must have held for its tables to be freed when empty
)

// Store is a limiter.Store in memory. It needs no closing.
type Store struct {
	now     func() time.Time
	seed    maphash.Seed
	shards  []shard // a power of two
	turn    atomic.Uint32
	metrics *metrics
}

var _ limiter.Store = (*Store)(nil)

// New returns a store with no counters.
func New(o Options) *Store {
	if o.MaxCounters <= 0 {
		o.MaxCounters = DefaultMaxCounters
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	n := maxShards
	for n > 1 && o.MaxCounters/n < minPerShard {
		n /= 2
	}
	s := &Store{now: o.Now, seed: maphash.MakeSeed(), shards: make([]shard, n)}
	for i := range s.shards {
		s.shards[i].counters = make(map[string]*counter)
		s.shards[i].max = o.MaxCounters / n
	}
	s.metrics = newMetrics(o.Registerer, s.counters)
	return s
}

// Decide implements limiter.Store. It never waits for anything but other
// requests, so it looks at no context, and it never fails.
func (s *Store) Decide(_ context.Context, hits []limiter.Hit, out []limiter.Decision) (denied bool, err error) {
	var placesBuf [scratch]uint64
	places := placesBuf[:0] // places[i] is the shard of hits[i]
	mask := uint64(len(s.shards) - 1)
	// One more shard, in turn, is cleared of expired counters, so that traffic on
	// few keys clears them all.
	clearing := uint64(s.turn.Add(1)) & mask
	touched := uint64(1) << clearing
	for i := range hits {
		place := maphash.Bytes(s.seed, hits[i].Key) & mask
		places = append(places, place)
		touched |= 1 << place
	}

	s.lock(touched)
	defer s.unlock(touched)
	// The time is read under the locks, so that of two requests on a counter the
	// later one does not come with an earlier time, unless the clock stepped back:
	// then a counter that has expired and was cleared away starts anew.
	now := s.now().UnixMicro()
	denied = s.decide(hits, places, now, out)
	s.shards[clearing].clearExpired(now, clearedPerHit*len(hits))
	return denied, nil
}

// decide is Decide under the locks of places.
func (s *Store) decide(hits []limiter.Hit, places []uint64, now int64, out []limiter.Decision) (denied bool) {
	var countersBuf [scratch]*counter
	var statesBuf [scratch]*limiter.State
	counters, states := countersBuf[:0], statesBuf[:0]
	for i := range hits {
		c := s.shards[places[i]].find(hits[i].Key)
		counters = append(counters, c)
		states = append(states, &c.state)
	}
	denied = limiter.Decide(hits, states, now, out)
	for i, c := range counters {
		if s.shards[places[i]].keep(c, hits[i].Limit.Expiry(c.state), now) {
			s.metrics.evictions.Inc()
		}
	}
	return denied
}

// lock locks the shards of a mask, the lowest first, as every request does.
func (s *Store) lock(mask uint64) {
	for ; mask != 0; mask &= mask - 1 {
		s.shards[bits.TrailingZeros64(mask)].mu.Lock()
	}
}

func (s *Store) unlock(mask uint64) {
	for ; mask != 0; mask &= mask - 1 {
		s.shards[bits.TrailingZeros64(mask)].mu.Unlock()
	}
}

// counters tells how many counters are kept, expired ones included.
func (s *Store) counters() (n int) {
	for i := range s.shards {
		s.shards[i].mu.Lock()
		n += len(s.shards[i].byExpiry)
		s.shards[i].mu.Unlock()
	}
	return n
}
