package memory

import (
	"context"
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"weir/internal/limiter"
)

// DefaultMaxCounters is the default of Options.MaxCounters. A counter takes about 80 bytes and its
// key, so a million counters with keys of 30 to 70 bytes take 110 to 160 MB.
const DefaultMaxCounters = 1_000_000

// Options configure a Store. The zero value works.
type Options struct {
	// MaxCounters bounds the number of counters; 0 means DefaultMaxCounters. A counter with holds
	// or a log counts as five counters, and each hold or ten logged units as one more.
	//
	// When the store is full, a new counter evicts the counter that expires soonest. If the evicted
	// counter has not expired, its limit starts again from zero, and weir_memory_evictions_total
	// counts the eviction. Each shard has an equal part of the bound and evicts on its own, so the
	// first evictions occur a few percent below MaxCounters.
	MaxCounters int
	// Now is the clock. If nil, the store reads the machine's clock once and adds elapsed time,
	// so that steps of that clock neither admit nor deny anything.
	Now func() time.Time
	// Registerer registers the metrics; nil disables them.
	Registerer prometheus.Registerer
}

const (
	maxShards     = 64   // number of bits in a mask of shards
	minPerShard   = 1024 // with fewer counters for each shard, the bound would be too inexact
	scratch       = 16   // largest number of hits that are decided without allocation
	clearedPerHit = 2    // expired counters removed for each hit; a hit adds at most two
)

// Store is a limiter.CounterStore in memory. It needs no closing.
type Store struct {
	now       func() time.Time
	seed      maphash.Seed
	shards    []shard       // their number is a power of two
	Evictions atomic.Uint64 // number of counters dropped before they expired
}

var _ limiter.CounterStore = (*Store)(nil)

// New returns a store with no counters.
func New(o Options) *Store {
	if o.MaxCounters <= 0 {
		o.MaxCounters = DefaultMaxCounters
	}
	if o.Now == nil {
		began := time.Now()
		o.Now = func() time.Time { return began.Add(time.Since(began)) }
	}
	n := maxShards
	for n > 1 && o.MaxCounters/n < minPerShard {
		n /= 2
	}
	s := &Store{now: o.Now, seed: maphash.MakeSeed(), shards: make([]shard, n)}
	for i := range s.shards {
		s.shards[i].counters = newCounters(s.seed, o.MaxCounters/n)
	}
	factory := promauto.With(o.Registerer)
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weir_memory_counters",
		Help: "Counters in memory, including expired ones that are not removed yet.",
	}, s.size)
	factory.NewCounterFunc(prometheus.CounterOpts{
		Name: "weir_memory_evictions_total",
		Help: "Counters dropped before they expired because memory was full. Their limits restarted from zero.",
	}, func() float64 { return float64(s.Evictions.Load()) })
	return s
}

// size returns the number of counters, including expired ones.
func (s *Store) size() (n float64) {
	for i := range s.shards {
		s.shards[i].mu.Lock()
		n += float64(len(s.shards[i].order))
		s.shards[i].mu.Unlock()
	}
	return n
}

// location is the location of a hit's counter.
type location struct {
	shard   *shard
	hash    uint32 // hash of the key within the shard
	counter uint32 // number in the shard, valid while the shard is locked
}

func (s *Store) locate(key []byte) (p location, shard int) {
	hash := maphash.Bytes(s.seed, key)
	shard = int(hash & uint64(len(s.shards)-1))
	return location{shard: &s.shards[shard], hash: inShard(hash)}, shard
}

// Decide implements limiter.Store. It waits only for other requests, and fails only if the caller
// has left.
func (s *Store) Decide(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (denied bool, err error) {
	var locationsBuf [scratch]location
	var afterBuf [scratch]limiter.State
	locations := slices.Grow(locationsBuf[:0], len(hits))[:len(hits)]
	after := slices.Grow(afterBuf[:0], len(hits))[:len(hits)]
	var records []location // locations of the hits' records, or nil if no hit has a Reservation
	var touched uint64     // mask of the shards with counters of the request
	for i := range hits {
		var shard int
		locations[i], shard = s.locate(hits[i].Key)
		touched |= 1 << shard
		if key := hits[i].Reservation; key != nil {
			if records == nil {
				records = make([]location, len(hits))
			}
			records[i], shard = s.locate(key)
			touched |= 1 << shard
		}
	}
	denied, now, err := s.count(ctx, touched, hits, locations, records, out, after)
	if err != nil {
		return false, err
	}
	limiter.Describe(hits, after, now, out) // outside the locks

	// Clear a random shard as well, unless it is busy, so that all shards are cleared even if
	// traffic touches only a few keys.
	if other := &s.shards[rand.IntN(len(s.shards))]; other.mu.TryLock() { //nolint:gosec // guessing the shard gains nothing
		other.clear(now, clearedPerHit*len(hits))
		other.mu.Unlock()
	}
	return denied, nil
}

// count calls limiter.Count under the locks of the touched shards. It returns the time of the
// decision. Its error comes from limiter.Left.
func (s *Store) count(ctx context.Context, touched uint64, hits []limiter.Hit, locations, records []location, out []limiter.Decision, after []limiter.State) (denied bool, now int64, err error) {
	// All requests lock shards in ascending order to avoid deadlocks.
	for rest := touched; rest != 0; rest &= rest - 1 {
		s.shards[bits.TrailingZeros64(rest)].mu.Lock()
	}
	defer func() {
		for rest := touched; rest != 0; rest &= rest - 1 {
			s.shards[bits.TrailingZeros64(rest)].mu.Unlock()
		}
	}()
	if err := limiter.Left(ctx, hits); err != nil {
		return false, 0, err
	}
	// The time is read under the locks, so that times on a counter never go backwards.
	now = s.now().UnixMicro()

	// Every hit gets a counter. New counters that stay unused are removed again, and evict nothing.
	var statesBuf [scratch]*limiter.State
	states := statesBuf[:0]
	var kept []limiter.Kept
	for i := range hits {
		p, h := &locations[i], &hits[i]
		if p.counter = p.shard.find(p.hash, h.Key); p.counter == 0 {
			p.counter = p.shard.add(p.hash, h.Key)
		}
		states = append(states, &p.shard.at(p.counter).state)
		if !h.HasUses() && h.Reservation == nil {
			continue
		}
		if kept == nil {
			kept = make([]limiter.Kept, len(hits))
		}
		if h.HasUses() {
			kept[i].Uses = p.shard.usesOf(p.counter, h)
		}
		if h.Reservation != nil {
			r := &records[i]
			if r.counter = r.shard.find(r.hash, h.Reservation); r.counter == 0 {
				r.counter = r.shard.add(r.hash, h.Reservation)
			}
			kept[i].Record = &r.shard.at(r.counter).state
		}
	}
	denied = limiter.Count(hits, states, kept, now, out, after)
	evictions := 0
	for i, p := range locations {
		evictions += p.shard.keep(p.counter, hits[i].Limit.Expiry(after[i]), now)
		if hits[i].Reservation != nil {
			r := records[i]
			evictions += r.shard.keep(r.counter, hits[i].Limit.Record().Expiry(r.shard.at(r.counter).state), now)
		}
	}
	for _, p := range locations {
		p.shard.clear(now, clearedPerHit)
	}
	if evictions > 0 {
		s.Evictions.Add(uint64(evictions))
	}
	return denied, now, nil
}

// Peek implements limiter.CounterStore. It never fails.
func (s *Store) Peek(_ context.Context, hits []limiter.Hit) ([]limiter.Counter, error) {
	counters := make([]limiter.Counter, len(hits))
	for i, h := range hits {
		p, _ := s.locate(h.Key)
		p.shard.mu.Lock()
		now := s.now().UnixMicro()
		var state limiter.State
		if n := p.shard.find(p.hash, h.Key); n != 0 {
			state = p.shard.at(n).state
			if of := p.shard.uses[n]; of != nil {
				state = h.Limit.State(state, of, 1, now)
			}
		}
		p.shard.mu.Unlock()
		counters[i] = h.Limit.Counter(state, now)
	}
	return counters, nil
}

// Reset implements limiter.CounterStore. It never fails.
func (s *Store) Reset(_ context.Context, hits []limiter.Hit) error {
	for _, h := range hits {
		p, _ := s.locate(h.Key)
		p.shard.mu.Lock()
		if n := p.shard.find(p.hash, h.Key); n != 0 {
			p.shard.drop(n)
		}
		p.shard.mu.Unlock()
	}
	return nil
}
