package memstore

import (
	"bytes"

	"weir/internal/limiter"
)

// table keeps counters of keys of about one length: the counters 0 to n-1,
// without a gap, and the key of each at the same place. When one is removed, the
// last one moves to its place.
//
// Its lists hold no pointers: however many counters there are, the garbage
// collector has only the blocks to follow.
type table struct {
	counters blocks[counter]
	keys     blocks[byte]   // with room for the longest key of the table
	buckets  blocks[uint32] // as many as counters, see index.go
}

// counter is the state of one key. It is found by its hash and filed by its expiry.
type counter struct {
	state  limiter.State
	hash   uint32 // of the key
	next   uint32 // counter of the same bucket, or none
	place  uint32 // in the order of expiry of the shard
	length uint32 // of the key, in bytes
}

// Keys of one table have equally many steps of bytes.
const keyStep = 8

func keySteps(key []byte) int { return (len(key) + keyStep - 1) / keyStep }

func newTable(steps int) *table {
	return &table{
		counters: blocks[counter]{width: 1},
		keys:     blocks[byte]{width: steps * keyStep},
		buckets:  blocks[uint32]{width: 1},
	}
}

// find returns the counter of key, nil if there is none. Equal hashes are no
// proof: the keys must be equal.
func (t *table) find(hash uint32, key []byte) *counter {
	if t.counters.n == 0 {
		return nil
	}
	for i := *t.bucket(hash); i != none; {
		c := t.counters.at(i)
		if c.hash == hash && bytes.Equal(t.keys.row(i)[:c.length], key) {
			return c
		}
		i = c.next
	}
	return nil
}

// add adds a counter for a key that has none.
func (t *table) add(hash uint32, key []byte, state limiter.State) (i uint32) {
	i = t.counters.n
	t.counters.grow()[0] = counter{state: state, hash: hash, length: uint32(len(key))}
	copy(t.keys.grow(), key)
	t.addBucket()
	t.link(i)
	return i
}

// remove removes counter i and tells whether there still is one of that number,
// which is the one that was last.
func (t *table) remove(i uint32) (moved bool) {
	t.unlink(i)
	last := t.counters.n - 1
	if i != last {
		*t.linkTo(last) = i
		*t.counters.at(i) = *t.counters.at(last)
		copy(t.keys.row(i), t.keys.row(last))
	}
	t.removeBucket()
	t.counters.shrink()
	t.keys.shrink()
	return i != last
}
