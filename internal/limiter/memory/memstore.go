// Package memory keeps counters in the memory of this process. It is the
// store of a single replica and of tests: nothing is shared between processes
// and nothing survives one.
//
// Counters are spread over shards, each under its own lock. A request locks the
// shards of all its hits at once, in ascending order, and so is decided as one
// step without waiting for requests elsewhere. There is no goroutine: expired
// counters are cleared away by the requests that follow.
//
// However many counters there are, the garbage collector has little to follow
// and no request waits for others to be moved: counters, their keys, the index by
// key (index.go) and the orders by expiry (expiry.go) are lists of plain numbers
// and bytes without gaps, which refer to each other by number and grow and shrink
// by a block at a time (blocks.go).
package memory

import (
	"context"
	"hash/maphash"
	"math/bits"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
)

// DefaultMaxCounters is used where Options say nothing. A counter takes 68 bytes
// and its key, rounded up to 8: this many with keys of 30 to 70 bytes take 100 to
// 140 MB.
const DefaultMaxCounters = 1_000_000

// Options are what a Store needs; the zero value works.
type Options struct {
	// MaxCounters bounds how many counters are kept, DefaultMaxCounters if 0. A hold
	// counts as one more, and a counter that has any as five.
	// When they are full, a new counter takes the place of an expired one or, if
	// there is none, of another, whose limit then starts anew: that is counted in
	// weir_memory_evictions_total. A counter that denies goes after all that do
	// not, and among equals one that was asked for more often goes later, by powers
	// of two up to 128 (class.go). Of those that do not deny, the one nearest to its
	// expiry goes first; of those that deny, one after the other. So to reset a
	// counter that denies and was asked for n times, an attacker must make
	// MaxCounters others deny, and ask for each of them n/2 times or more.
	//
	// Each shard holds an equal part and makes room for itself, so a store of many
	// counters evicts when its fullest shard is full, a few percent before
	// MaxCounters.
	MaxCounters int
	// Now is the clock. If nil, the machine's holds as it was when the store began,
	// and what passes since: steps of that clock admit and deny nothing.
	Now func() time.Time
	// Registerer takes the metrics; if nil, nobody sees them.
	Registerer prometheus.Registerer
}

const (
	maxShards     = 64   // bits of the mask of locks
	minPerShard   = 1024 // below it, fewer shards keep the bound closer
	scratch       = 16   // hits of a request that is decided without allocation
	clearedPerHit = 2    // due counters looked at for each hit, which adds at most one

	clearedPerEviction = 4 // due counters looked at before one that is not must make room
)

// Store is a limiter.Store in memory. It needs no closing.
type Store struct {
	now     func() int64 // in microseconds since the epoch
	seed    maphash.Seed
	shards  []shard // a power of two
	metrics *metrics
}

var _ limiter.CounterStore = (*Store)(nil)

// New returns a store with no counters.
func New(o Options) *Store {
	if o.MaxCounters <= 0 {
		o.MaxCounters = DefaultMaxCounters
	}
	now := func() int64 { return o.Now().UnixMicro() }
	if o.Now == nil {
		now = systemClock().now
	}
	n := maxShards
	for n > 1 && o.MaxCounters/n < minPerShard {
		n /= 2
	}
	s := &Store{now: now, seed: maphash.MakeSeed(), shards: make([]shard, n)}
	for i := range s.shards {
		s.shards[i].init(o.MaxCounters / n)
	}
	s.metrics = newMetrics(o.Registerer, s.counters)
	return s
}

// Decide implements limiter.Store. It never waits for anything but other
// requests, and fails only if the caller has left.
func (s *Store) Decide(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (denied bool, err error) {
	var asks [scratch]asked
	var after [scratch]limiter.State
	r := request{
		hits: hits, out: out,
		asks:  slices.Grow(asks[:0], len(hits))[:len(hits)],
		after: slices.Grow(after[:0], len(hits))[:len(hits)],
	}
	mask := uint64(len(s.shards) - 1)
	for i := range hits {
		hash := maphash.Bytes(s.seed, hits[i].Key)
		r.touched |= 1 << (hash & mask)
		r.asks[i].shard, r.asks[i].hash = &s.shards[hash&mask], uint32(hash>>32)
	}
	denied, now, err := s.count(ctx, &r)
	if err != nil {
		return false, err
	}
	limiter.Describe(hits, r.after, now, out) // which keeps nobody waiting

	// One more shard, in turn, is cleared of expired counters, so that traffic on
	// few keys clears them all.
	turn := r.asks[0].shard.turn.Add(1)
	s.shards[turn&mask].tryClear(now, clearedPerHit*len(hits))
	return denied, nil
}

// count is limiter.Count of a request, under the locks of the shards that it
// touches. It returns at what time it was. The error is limiter.Left.
func (s *Store) count(ctx context.Context, r *request) (denied bool, now int64, err error) {
	s.lock(r.touched)
	defer s.unlock(r.touched)
	if err := limiter.Left(ctx, r.hits); err != nil {
		return false, 0, err
	}
	// The time is read under the locks, so that of two requests on a counter the
	// later one does not come with an earlier time: that would take a counter back
	// and forth between two times.
	now = s.now()
	var states [scratch]*limiter.State
	r.holds = r.holdsOf()
	denied = limiter.Count(r.hits, r.find(states[:0]), r.holds, now, r.out, r.after)
	evictions := r.keep(now)
	if r.holds != nil {
		evictions += r.keepHolds(now)
	}
	if evictions > 0 {
		s.metrics.evictions.Add(float64(evictions))
	}
	return denied, now, nil
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

// counters returns how many counters are kept, expired ones included.
func (s *Store) counters() (n int) {
	for i := range s.shards {
		s.shards[i].mu.Lock()
		n += int(s.shards[i].n)
		s.shards[i].mu.Unlock()
	}
	return n
}
