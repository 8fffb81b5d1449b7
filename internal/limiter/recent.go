package limiter

import (
	"hash/maphash"
	"sync"
	"unsafe"
)

// Recent keeps a value for each of the counters that were touched last, in a fixed
// amount of memory: a new counter takes the place of that which was touched longest
// ago, of a few. It does not keep keys but their hashes, of 64 bits, so that what it
// returns may, in one of 2^48 cases or so, be that of another counter: too rarely to matter
// for what is forgotten within seconds.
type Recent[V any] struct {
	seed maphash.Seed
	sets []recentSet[V] // a power of two
}

// recentWays is how many counters have the same place.
const recentWays = 4

// recentSet holds the counters of one place, the last touched first.
type recentSet[V any] struct {
	mu   sync.Mutex
	ways [recentWays]recentValue[V]
}

type recentValue[V any] struct {
	hash  uint64 // 0: none
	value V
}

// NewRecent returns a Recent of at most so many bytes, or of one set of counters if
// that is more.
func NewRecent[V any](bytes int) *Recent[V] {
	n := 1
	for 2*n*int(unsafe.Sizeof(recentSet[V]{})) <= bytes {
		n *= 2
	}
	return &Recent[V]{maphash.MakeSeed(), make([]recentSet[V], n)}
}

// Touch calls do with the value of a counter, the zero value if there is none, under
// a lock that keeps few others waiting. What do leaves there is kept.
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

// Get returns the value of a counter, the zero value if there is none.
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

// lock locks the place of a counter.
func (r *Recent[V]) lock(key []byte) (set *recentSet[V], hash uint64) {
	hash = max(maphash.Bytes(r.seed, key), 1)
	set = &r.sets[hash&uint64(len(r.sets)-1)]
	set.mu.Lock()
	return set, hash
}
