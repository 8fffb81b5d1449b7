package plan

import (
	"encoding/binary"
	"hash/maphash"
	"iter"
	"maps"
)

// texts stores texts by ID without pointers, because the garbage collector would visit a million strings in
// each cycle, at a cost of a fifth of the CPU time of decisions. The zero value is empty.
type texts struct {
	seed    maphash.Seed
	index   map[uint64]uint32 // offset of an ID's last record, by the ID's hash or, if that is taken, the next free number
	records []byte            // IDs, each followed by its text, joined by appendText; the text is empty if it was removed
	unused  int               // bytes of records that were replaced or removed
	n       int               // number of texts
}

// record returns the record at an offset, and the next offset. The caller must not change id and text.
func (t *texts) record(at int) (id, text []byte, next int) {
	read := func() []byte {
		size, n := binary.Uvarint(t.records[at:])
		begin := at + n
		at = begin + int(size)
		return t.records[begin:at]
	}
	id, text = read(), read()
	return id, text, at
}

// place returns the key in index that an ID has, or that it would get.
func (t *texts) place(id []byte) uint64 {
	for place := maphash.Bytes(t.seed, id); ; place++ {
		at, used := t.index[place]
		if !used {
			return place
		}
		if known, _, _ := t.record(int(at)); string(known) == string(id) {
			return place
		}
	}
}

// find returns the text of an ID, which is empty if the ID has none.
func (t *texts) find(id []byte) []byte {
	if t.n == 0 {
		return nil
	}
	if at, used := t.index[t.place(id)]; used {
		_, text, _ := t.record(int(at))
		return text
	}
	return nil
}

// put sets the text of an ID, or removes the ID if text is empty.
func (t *texts) put(id, text string) {
	if t.index == nil {
		*t = texts{seed: maphash.MakeSeed(), index: map[uint64]uint32{}}
	}
	place := t.place([]byte(id))
	if at, used := t.index[place]; used {
		_, old, next := t.record(int(at))
		if t.unused += next - int(at); len(old) > 0 {
			t.n--
		}
	}
	at := len(t.records)
	t.index[place] = uint32(at) // a part of the texts has less than 4 GiB
	t.records = appendText(appendText(t.records, id), text)
	if text == "" {
		t.unused += len(t.records) - at
	} else {
		t.n++
	}
	if t.unused > len(t.records)/2+1<<10 {
		packed := texts{}
		for id, text := range t.all() {
			packed.put(id, text)
		}
		*t = packed
	}
}

// all returns an iterator over a snapshot of the IDs and their texts.
func (t *texts) all() iter.Seq2[string, string] {
	now := texts{seed: t.seed, index: maps.Clone(t.index), records: t.records} // records are only appended
	return func(yield func(id, text string) bool) {
		for at := 0; at < len(now.records); {
			id, text, next := now.record(at)
			if len(text) > 0 && int(now.index[now.place(id)]) == at && !yield(string(id), string(text)) {
				return
			}
			at = next
		}
	}
}
