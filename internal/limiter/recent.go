package limiter

import (
	"hash/maphash"
	"sync"
	"unsafe"
)

// Recent is a cache of one value for each of the most recently touched counters, in a fixed amount
// of memory. A new counter replaces the least recently touched counter of its set. Recent stores
// 64-bit hashes instead of keys, so in about one case in 2^48, a value belongs to another counter.
// This is rare enough for values that expire within seconds.
type Recent[V any] struct {
	seed maphash.Seed
	sets []recentSet[V] // their number is a power of two
}

// recentWays is the number of counters in a set.
const recentWays = 4

// recentSet has the counters of one set, most recently touched first.
type recentSet[V any] struct {
	mu   sync.Mutex
	ways [recentWays]recentValue[V]
}

type recentValue[V any] struct {
	hash  uint64 // 0 if unused
	value V
}

// NewRecent returns a Recent of at most the given size in bytes, but with at least one set.
func NewRecent[V any](bytes int) *Recent[V] {
	n := 1
	for 2*n*int(unsafe.Sizeof(recentSet[V]{})) <= bytes {
		n *= 2
	}
	return &Recent[V]{maphash.MakeSeed(), make([]recentSet[V], n)}
}

// Touch calls do with a pointer to the value of a counter, which is zero if the counter had none,
// and keeps the changed value. During do, the counter's set is locked, but no other set.
func (r *Recent[V]) Touch(key []byte, do func(*V)) {
	set, hash := r.lock(key)
	defer set.mu.Unlock()
	at := 0
	for at < recentWays-1 && set.ways[at].hash != hash {
		at++
	}
	touched := set.ways[at]
	if touched.hash != hash {
		touched = recentValue[V]{hash: hash}
	}
	copy(set.ways[1:at+1], set.ways[:at])
	set.ways[0] = touched
	do(&set.ways[0].value)
}

// Get returns the value of a counter, or the zero value if the counter has none.
func (r *Recent[V]) Get(key []byte) (value V) {
	set, hash := r.lock(key)
	defer set.mu.Unlock()
	for i := range set.ways {
		if set.ways[i].hash == hash {
			return set.ways[i].value
		}
	}
	return value
}

// lock locks and returns the set of a counter. hash is the hash of key and never 0.
func (r *Recent[V]) lock(key []byte) (set *recentSet[V], hash uint64) {
	hash = max(maphash.Bytes(r.seed, key), 1)
	set = &r.sets[hash&uint64(len(r.sets)-1)]
	set.mu.Lock()
	return set, hash
}
