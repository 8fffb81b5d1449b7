package memory

import (
	"bytes"
	"container/heap"
	"hash/maphash"
	"sync"

	"weir/internal/limiter"
)

// shard is a part of the counters, under one lock.
type shard struct {
	mu sync.Mutex
	counters

	_ [64]byte // keeps shards in cache lines of their own
}

// counters are those of a shard, by number from 1. However many there are, the garbage
// collector has little to follow: they refer to each other and to their keys by number.
type counters struct {
	seed   maphash.Seed
	max    int
	index  map[uint32]uint32    // by hash, the first counter of a chain; the rest is in next
	blocks []*[perBlock]counter // of counters made; number 0 is none
	made   uint32               // how many numbers there are, used or free
	free   uint32               // first of a chain
	order  []uint32             // those kept, as a heap: soonest to expire first
	keys   []byte               // of all counters, with gaps where some were dropped
	live   int                  // bytes of keys without the gaps
	holds  map[uint32]*holds    // of the few counters that have some
	held   int                  // what these weigh, in counters
}

const perBlock = 16

// counter is the state of one key.
type counter struct {
	state  limiter.State
	expiry int64  // when the state no longer matters, in microseconds since the epoch
	key    uint32 // where it starts: a shard's keys have less than 4 GiB
	length uint32 // of the key
	next   uint32 // of the same hash or, in the chain of free numbers, the next of those
	place  int32  // in order, or one of these
}

const (
	added   = -1 // by the request that is being decided
	dropped = -2
)

// holds are those of one counter, and what they weighed when they were last kept.
type holds struct {
	*limiter.Holds
	weight int
}

func newCounters(seed maphash.Seed, maxCounters int) counters {
	return counters{seed: seed, max: maxCounters, index: map[uint32]uint32{}, made: 1, holds: map[uint32]*holds{}}
}

// inShard is the part of a key's hash by which a shard finds it; which shard it is
// follows from other bits.
func inShard(hash uint64) uint32 { return uint32(hash >> 32) }

func (s *counters) at(n uint32) *counter { return &s.blocks[n/perBlock][n%perBlock] }

func (s *counters) keyOf(c *counter) []byte { return s.keys[c.key:][:c.length] }

// find returns the counter of a key, 0 if there is none. Equal hashes are no proof: the
// keys must be equal.
func (s *counters) find(hash uint32, key []byte) uint32 {
	n := s.index[hash]
	for n != 0 && !bytes.Equal(s.keyOf(s.at(n)), key) {
		n = s.at(n).next
	}
	return n
}

// add adds an unused counter for a key that has none. It is not in the order yet.
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
	*s.at(n) = counter{key: uint32(len(s.keys)), length: uint32(len(key)), next: s.index[hash], place: added}
	s.keys = append(s.keys, key...)
	s.live += len(key)
	s.index[hash] = n
	return n
}

// pack copies the keys without gaps to where there is room for so many bytes more, and
// for a quarter more than that.
func (s *counters) pack(more int) {
	packed := make([]byte, 0, (s.live+more)*5/4)
	for n := uint32(1); n < s.made; n++ {
		if c := s.at(n); c.place != dropped {
			key := s.keyOf(c)
			c.key = uint32(len(packed))
			packed = append(packed, key...)
		}
	}
	s.keys = packed
}

// keep files a counter by its expiry, and drops it if that is over. It returns how many
// counters that had not expired were dropped to make room.
func (s *counters) keep(n uint32, expiry, now int64) (evictions int) {
	c := s.at(n)
	switch {
	case c.place == dropped:
		return 0 // by another hit of the request, of the same counter or to make room
	case expiry <= now:
		s.drop(n)
		return 0
	case c.place != added && c.expiry != expiry:
		c.expiry = expiry
		heap.Fix((*byExpiry)(s), int(c.place))
	}
	if of := s.holds[n]; of != nil {
		s.held -= of.weight
		of.weight = someHolds + of.Len()
		s.held += of.weight
	}
	more := 0
	if c.place == added {
		more = 1
	}
	for len(s.order)+s.held+more > s.max && len(s.order) > 0 {
		if first := s.order[0]; s.at(first).expiry > now {
			evictions++
		}
		s.drop(s.order[0])
	}
	if c.place == added {
		c.expiry = expiry
		heap.Push((*byExpiry)(s), n)
	}
	return evictions
}

// someHolds is what a counter that has holds weighs more, in counters, beside one for
// each hold: that is about the memory they take.
const someHolds = 4

// holdsOf returns the holds of a counter of l.
func (s *counters) holdsOf(n uint32, l *limiter.Limit) *limiter.Holds {
	if s.holds[n] == nil {
		s.holds[n] = &holds{Holds: limiter.NewHolds(l)}
	}
	return s.holds[n].Holds
}

// drop drops a counter.
func (s *counters) drop(n uint32) {
	c := s.at(n)
	if of := s.holds[n]; of != nil {
		s.held -= of.weight
		delete(s.holds, n)
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
	if c.place >= 0 {
		heap.Remove((*byExpiry)(s), int(c.place))
	}
	s.live -= int(c.length)
	c.next, c.place, s.free = s.free, dropped, n
}

// clear drops up to most expired counters, and gives memory back when few are left.
// Numbers of counters are void from then on.
func (s *counters) clear(now int64, most int) {
	for ; most > 0 && len(s.order) > 0 && s.at(s.order[0]).expiry <= now; most-- {
		s.drop(s.order[0])
	}
	if s.made < 2*perBlock || len(s.order) > int(s.made/4) {
		return
	}
	old := *s
	*s = newCounters(old.seed, old.max)
	s.held = old.held
	for i, n := range old.order { // a heap in this order, too
		c := old.at(n)
		key := old.keyOf(c)
		m := s.add(inShard(maphash.Bytes(s.seed, key)), key)
		s.at(m).state, s.at(m).expiry, s.at(m).place = c.state, c.expiry, int32(i)
		s.order = append(s.order, m)
		if of := old.holds[n]; of != nil {
			s.holds[m] = of
		}
	}
}

// byExpiry is the order of counters, for container/heap.
type byExpiry counters

func (o *byExpiry) at(place int) *counter { return (*counters)(o).at(o.order[place]) }

func (o *byExpiry) Len() int           { return len(o.order) }
func (o *byExpiry) Less(i, j int) bool { return o.at(i).expiry < o.at(j).expiry }

func (o *byExpiry) Swap(i, j int) {
	o.order[i], o.order[j] = o.order[j], o.order[i]
	o.at(i).place, o.at(j).place = int32(i), int32(j)
}

func (o *byExpiry) Push(n any) {
	o.order = append(o.order, n.(uint32))
	o.at(o.Len() - 1).place = int32(o.Len() - 1)
}

// Pop returns nothing, since drop knows what it removes.
func (o *byExpiry) Pop() any {
	o.order = o.order[:o.Len()-1]
	return nil
}
