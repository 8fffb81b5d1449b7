package memory

import (
	"bytes"

	"weir/internal/limiter"
)

// table keeps counters of keys of about one length: the counters 0 to n-1,
// without a gap, and the key of each at the same place. When one is removed, the
// last one moves to its place.
type table struct {
	counters blocks[counter]
	keys     blocks[byte]   // of the counters, each with room for the longest
	buckets  blocks[uint32] // of the index, as many as counters
}

// counter is the state of one key. It is found by its hash and filed by its class.
type counter struct {
	// state holds the expiry in the place of Until, unless it is lent (see ban.go).
	state limiter.State
	hash  uint32 // of the key
	next  uint32 // counter of the same bucket, or none
	place uint32 // in the order of its class
	short uint8  // by how many bytes the key is shorter than the longest of the table
	uses  uint8  // how often it was asked for, 255 at most
	class uint8
	is    uint8 // banned or lent, see ban.go
}

// keyStep is by how many bytes the keys of one table may differ in length.
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
		if c.hash == hash && bytes.Equal(t.key(i), key) {
			return c
		}
		i = c.next
	}
	return nil
}

// key returns the key of counter i.
func (t *table) key(i uint32) []byte {
	return t.keys.row(i)[:t.keys.width-int(t.counters.at(i).short)]
}

// add adds a counter for a key that has none.
func (t *table) add(hash uint32, key []byte, state limiter.State) (i uint32) {
	i = t.counters.n
	t.counters.grow()[0] = counter{state: state, hash: hash, short: uint8(t.keys.width - len(key))}
	copy(t.keys.grow(), key)
	t.addBucket()
	t.link(i)
	return i
}

// remove removes counter i and reports whether another one, the last, is number i
// now.
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
