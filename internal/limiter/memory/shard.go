package memory

import (
	"bytes"
	"container/heap"
	"hash/maphash"
	"sync"

	"weir/internal/limiter"
)

// shard is a part of the counters, guarded by one lock.
type shard struct {
	mu sync.Mutex
	counters

	_ [64]byte // keeps shards in separate cache lines
}

// counters has the counters of a shard, numbered from 1. Counters refer to each other by number and
// to their keys by offset, so that the garbage collector has little to scan.
type counters struct {
	seed     maphash.Seed
	max      int
	index    map[uint32]uint32    // by hash, the first of the counters with this hash, linked by counter.next
	blocks   []*[perBlock]counter // counters by number; number 0 is unused
	made     uint32               // the next new number; all smaller numbers are used or free
	free     uint32               // first of the free numbers, linked by counter.next, or 0
	order    []uint32             // heap of counters by expiry, the soonest first
	keys     []byte               // keys of all counters, with gaps where counters were dropped
	live     int                  // length of keys without the gaps
	uses     map[uint32]*uses     // by number of a counter with uses
	usesSize int                  // size of all uses, in counters
}

const perBlock = 16

// counter is the counter of one key.
type counter struct {
	state    limiter.State
	expiry   int64  // time at which the counter becomes unused, in microseconds since the epoch
	key      uint32 // offset in keys, which has less than 4 GiB
	length   uint32 // length of the key
	next     uint32 // next counter with the same hash, or next free number
	position int32  // index in order, or one of the constants added and dropped
}

const (
	added   = -1 // added by the current request, and not yet in order
	dropped = -2
)

// uses are a counter's uses and their size when they were last stored.
type uses struct {
	limiter.Uses
	size int
}

func newCounters(seed maphash.Seed, maxCounters int) counters {
	return counters{seed: seed, max: maxCounters, index: map[uint32]uint32{}, made: 1, uses: map[uint32]*uses{}}
}

// inShard returns the bits of a key's hash that are used within a shard. Other bits select the
// shard.
func inShard(hash uint64) uint32 { return uint32(hash >> 32) }

func (s *counters) at(n uint32) *counter { return &s.blocks[n/perBlock][n%perBlock] }

func (s *counters) keyOf(c *counter) []byte { return s.keys[c.key:][:c.length] }

// find returns the number of a key's counter, or 0 if there is none.
func (s *counters) find(hash uint32, key []byte) uint32 {
	n := s.index[hash]
	for n != 0 && !bytes.Equal(s.keyOf(s.at(n)), key) {
		n = s.at(n).next
	}
	return n
}

// add adds an unused counter for a key that has none. Only keep inserts the counter into order.
func (s *counters) add(hash uint32, key []byte) (n uint32) {
	if n = s.free; n != 0 {
		s.free = s.at(n).next
	} else {
		if n = s.made; int(n/perBlock) == len(s.blocks) {
			s.blocks = append(s.blocks, new([perBlock]counter))
		}
		s.made++
	}
	if len(s.keys)+len(key) > cap(s.keys) {
		s.pack(len(key))
	}
	*s.at(n) = counter{key: uint32(len(s.keys)), length: uint32(len(key)), next: s.index[hash], position: added}
	s.keys = append(s.keys, key...)
	s.live += len(key)
	s.index[hash] = n
	return n
}

// pack copies the keys, without gaps, into new memory, which also has room for the number of bytes
// in more, and for a quarter of the total as a reserve.
func (s *counters) pack(more int) {
	packed := make([]byte, 0, (s.live+more)*5/4)
	for n := uint32(1); n < s.made; n++ {
		if c := s.at(n); c.position != dropped {
			key := s.keyOf(c)
			c.key = uint32(len(packed))
			packed = append(packed, key...)
		}
	}
	s.keys = packed
}

// keep moves a counter to its position in order, or drops it if it has expired. If the shard is
// full, keep drops other counters, and returns how many of them had not expired.
func (s *counters) keep(n uint32, expiry, now int64) (evictions int) {
	c := s.at(n)
	switch {
	case c.position == dropped:
		return 0 // dropped for another hit of the request, on the same counter or to make room
	case expiry <= now:
		s.drop(n)
		return 0
	case c.position != added && c.expiry != expiry:
		c.expiry = expiry
		heap.Fix((*byExpiry)(s), int(c.position))
	}
	if of := s.uses[n]; of != nil {
		s.usesSize -= of.size
		of.size = someUses + of.Len()
		s.usesSize += of.size
	}
	more := 0
	if c.position == added {
		more = 1
	}
	for len(s.order)+s.usesSize+more > s.max && len(s.order) > 0 {
		if first := s.order[0]; s.at(first).expiry > now {
			evictions++
		}
		s.drop(s.order[0])
	}
	if c.position == added {
		c.expiry = expiry
		heap.Push((*byExpiry)(s), n)
	}
	return evictions
}

// someUses is the approximate size of empty Uses, in counters. Each hold adds 1.
const someUses = 4

// usesOf returns the uses of counter n, the counter of h. It creates the uses if there are none.
func (s *counters) usesOf(n uint32, h *limiter.Hit) limiter.Uses {
	if s.uses[n] == nil {
		s.uses[n] = &uses{Uses: h.NewUses()}
	}
	return s.uses[n].Uses
}

// drop removes a counter and frees its number.
func (s *counters) drop(n uint32) {
	c := s.at(n)
	if of := s.uses[n]; of != nil {
		s.usesSize -= of.size
		delete(s.uses, n)
	}
	hash := inShard(maphash.Bytes(s.seed, s.keyOf(c)))
	if first := s.index[hash]; first != n {
		before := s.at(first)
		for before.next != n {
			before = s.at(before.next)
		}
		before.next = c.next
	} else if c.next != 0 {
		s.index[hash] = c.next
	} else {
		delete(s.index, hash)
	}
	if c.position >= 0 {
		heap.Remove((*byExpiry)(s), int(c.position))
	}
	s.live -= int(c.length)
	c.next, c.position, s.free = s.free, dropped, n
}

// clear drops expired counters, up to the number in most, and frees memory if few counters are
// left. A call of clear invalidates the numbers of all counters.
func (s *counters) clear(now int64, most int) {
	for ; most > 0 && len(s.order) > 0 && s.at(s.order[0]).expiry <= now; most-- {
		s.drop(s.order[0])
	}
	if s.made < 2*perBlock || len(s.order) > int(s.made/4) {
		return
	}
	old := *s
	*s = newCounters(old.seed, old.max)
	s.usesSize = old.usesSize
	for i, n := range old.order { // in the same order, which remains a heap
		c := old.at(n)
		key := old.keyOf(c)
		m := s.add(inShard(maphash.Bytes(s.seed, key)), key)
		s.at(m).state, s.at(m).expiry, s.at(m).position = c.state, c.expiry, int32(i)
		s.order = append(s.order, m)
		if of := old.uses[n]; of != nil {
			s.uses[m] = of
		}
	}
}

// byExpiry orders counters by expiry. It implements heap.Interface.
type byExpiry counters

func (o *byExpiry) at(i int) *counter { return (*counters)(o).at(o.order[i]) }

func (o *byExpiry) Len() int           { return len(o.order) }
func (o *byExpiry) Less(i, j int) bool { return o.at(i).expiry < o.at(j).expiry }

func (o *byExpiry) Swap(i, j int) {
	o.order[i], o.order[j] = o.order[j], o.order[i]
	o.at(i).position, o.at(j).position = int32(i), int32(j)
}

func (o *byExpiry) Push(n any) {
	o.order = append(o.order, n.(uint32))
	o.at(o.Len() - 1).position = int32(o.Len() - 1)
}

// Pop removes the last counter. It returns nil, because drop, which calls heap.Remove, knows the counter.
func (o *byExpiry) Pop() any {
	o.order = o.order[:o.Len()-1]
	return nil
}
