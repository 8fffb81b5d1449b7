package redis

import (
	"bytes"
	"hash/maphash"
)

// index finds strings in texts that it has added to them, without memory for each.
type index struct {
	slots []int32 // the number of a string plus one, 0 if free; a power of two, at most half full
	seed  maphash.Seed
}

// newIndex has room for so many strings, before it must grow.
func newIndex(strings int) index {
	slots := 16
	for slots < 2*strings {
		slots *= 2
	}
	return index{make([]int32, slots), maphash.MakeSeed()}
}

// find returns the number of s, and whether it is known. It adds it otherwise.
func (x *index) find(t *texts, s []byte) (n int32, known bool) {
	free := x.slot(t, s)
	if n := x.slots[free]; n > 0 {
		return n - 1, true
	}
	t.add(s)
	if 2*t.len() > len(x.slots) {
		x.slots = make([]int32, 2*len(x.slots))
		for i := range t.len() {
			x.slots[x.slot(t, t.at(i))] = int32(i + 1)
		}
	} else {
		x.slots[free] = int32(t.len())
	}
	return int32(t.len() - 1), false
}

// slot returns where the number of s is, or would be.
func (x *index) slot(t *texts, s []byte) int {
	mask := len(x.slots) - 1
	i := int(maphash.Bytes(x.seed, s)) & mask
	for x.slots[i] > 0 && !bytes.Equal(t.at(int(x.slots[i]-1)), s) {
		i = (i + 1) & mask
	}
	return i
}
