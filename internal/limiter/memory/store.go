package memory

import (
	"context"
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"weir/internal/limiter"
)

// DefaultMaxCounters is used where Options say nothing. A counter takes about 80 bytes
// and its key: this many with keys of 30 to 70 bytes take 110 to 160 MB.
const DefaultMaxCounters = 1_000_000

// Options are what a Store needs; the zero value works.
type Options struct {
	// MaxCounters bounds how many counters are kept, DefaultMaxCounters if 0. A hold
	// counts as one more, and a counter that has any as five.
	//
	// When they are full, the counter that expires soonest makes room for a new one. If
	// it has not expired yet, its limit starts anew: that is counted in
	// weir_memory_evictions_total. Each shard holds an equal part and makes room for
	// itself, so a store of many counters evicts a few percent before MaxCounters.
	MaxCounters int
	// Now is the clock. If nil, it is the machine's as it was when the store began, and
	// what has passed since: later steps of that clock admit and deny nothing.
	Now func() time.Time
	// Registerer takes the metrics; if nil, nobody sees them.
	Registerer prometheus.Registerer
}

const (
	maxShards     = 64   // bits of the mask of locks
	minPerShard   = 1024 // below it, fewer shards keep the bound closer
	scratch       = 16   // hits of a request that is decided without allocation
	clearedPerHit = 2    // expired counters dropped for each hit, which adds at most one
)

// Store is a limiter.CounterStore in memory. It needs no closing.
type Store struct {
	now       func() time.Time
	seed      maphash.Seed
	shards    []shard // a power of two
	evictions prometheus.Counter
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
	s.evictions = factory.NewCounter(prometheus.CounterOpts{
		Name: "weir_memory_evictions_total",
		Help: "Counters dropped before they expired because memory was full. Their limits restarted from zero.",
	})
	return s
}

// size returns how many counters are kept.
func (s *Store) size() (n float64) {
	for i := range s.shards {
		s.shards[i].mu.Lock()
		n += float64(len(s.shards[i].order))
		s.shards[i].mu.Unlock()
	}
	return n
}

// place is where the counter of a hit is.
type place struct {
	shard   *shard
	hash    uint32 // of the key, in the shard
	counter uint32 // its number, while the shard is locked
}

func (s *Store) place(key []byte) (p place, shard int) {
	hash := maphash.Bytes(s.seed, key)
	shard = int(hash & uint64(len(s.shards)-1))
	return place{shard: &s.shards[shard], hash: inShard(hash)}, shard
}

// Decide implements limiter.Store. It never waits for anything but other requests, and
// fails only if the caller has left.
func (s *Store) Decide(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (denied bool, err error) {
	var placesBuf [scratch]place
	var afterBuf [scratch]limiter.State
	places := slices.Grow(placesBuf[:0], len(hits))[:len(hits)]
	after := slices.Grow(afterBuf[:0], len(hits))[:len(hits)]
	var touched uint64 // the shards, as a mask
	for i := range hits {
		var shard int
		places[i], shard = s.place(hits[i].Key)
		touched |= 1 << shard
	}
	denied, now, err := s.count(ctx, touched, hits, places, out, after)
	if err != nil {
		return false, err
	}
	limiter.Describe(hits, after, now, out) // which keeps nobody waiting

	// Some other shard is cleared, too, so that traffic on few keys clears all, unless
	// others are just at work there.
	if other := &s.shards[rand.IntN(len(s.shards))]; other.mu.TryLock() { //nolint:gosec // nobody gains by guessing which
		other.clear(now, clearedPerHit*len(hits))
		other.mu.Unlock()
	}
	return denied, nil
}

// count does what limiter.Count says, under the locks of the shards that are touched. It
// returns at what time it was. The error is limiter.Left.
func (s *Store) count(ctx context.Context, touched uint64, hits []limiter.Hit, places []place, out []limiter.Decision, after []limiter.State) (denied bool, now int64, err error) {
	// The lowest shard first, as every request does, so that none waits in a circle.
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
	// The time is read under the locks, so that of two requests on a counter the later
	// one does not come with an earlier time.
	now = s.now().UnixMicro()

	// Every hit gets a counter. Those that are new and hold nothing afterwards are dropped
	// before any other has to make room for them.
	var statesBuf [scratch]*limiter.State
	states := statesBuf[:0]
	var holds []*limiter.Holds
	for i := range hits {
		p, h := &places[i], &hits[i]
		if p.counter = p.shard.find(p.hash, h.Key); p.counter == 0 {
			p.counter = p.shard.add(p.hash, h.Key)
		}
		states = append(states, &p.shard.at(p.counter).state)
		if h.Hold != nil {
			if holds == nil {
				holds = make([]*limiter.Holds, len(hits))
			}
			holds[i] = p.shard.holdsOf(p.counter, h.Limit)
		}
	}
	denied = limiter.Count(hits, states, holds, now, out, after)
	evictions := 0
	for i, p := range places {
		evictions += p.shard.keep(p.counter, hits[i].Limit.Expiry(after[i]), now)
	}
	for _, p := range places {
		p.shard.clear(now, clearedPerHit)
	}
	if evictions > 0 {
		s.evictions.Add(float64(evictions))
	}
	return denied, now, nil
}

// Peek implements limiter.CounterStore. It never fails.
func (s *Store) Peek(_ context.Context, hits []limiter.Hit) ([]limiter.Counter, error) {
	counters := make([]limiter.Counter, len(hits))
	for i, h := range hits {
		p, _ := s.place(h.Key)
		p.shard.mu.Lock()
		now := s.now().UnixMicro()
		var state limiter.State
		if n := p.shard.find(p.hash, h.Key); n != 0 {
			state = p.shard.at(n).state
			if of := p.shard.holds[n]; of != nil {
				state = of.State(now)
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
		p, _ := s.place(h.Key)
		p.shard.mu.Lock()
		if n := p.shard.find(p.hash, h.Key); n != 0 {
			p.shard.drop(n)
		}
		p.shard.mu.Unlock()
	}
	return nil
}
