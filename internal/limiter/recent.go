package limiter

import (
	"hash/maphash"
	"sync"
	"unsafe"
)

// Recent is a cache of one value for each of the most recently touched counters, in a fixed
// amount of memory. A new counter replaces the least recently touched of a few. Recent stores
// 64-bit hashes instead of keys, so a value may, in about one of 2^48 cases, belong to another
// counter: rarely enough for values that expire within seconds.
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

// NewRecent returns a Recent of at most the given size, or of one set if that is larger.
func NewRecent[V any](bytes int) *Recent[V] {
	n := 1
	for 2*n*int(unsafe.Sizeof(recentSet[V]{})) <= bytes {
		n *= 2
	}
	return &Recent[V]{maphash.MakeSeed(), make([]recentSet[V], n)}
}

// Touch calls do with the value of a counter, or the zero value if it has none, and keeps the
// changed value. It holds the lock of the counter's set, for which few others wait.
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

// Get returns the value of a counter, or the zero value if it has none.
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

// lock locks the set of a counter.
func (r *Recent[V]) lock(key []byte) (set *recentSet[V], hash uint64) {
	hash = max(maphash.Bytes(r.seed, key), 1)
	set = &r.sets[hash&uint64(len(r.sets)-1)]
	set.mu.Lock()
	return set, hash
}
