package memory

import (
	"bytes"
	"testing"
)

func TestBlocks(t *testing.T) {
	const items = 5*perBlock + 10
	b := blocks[byte]{width: 3}
	item := func(i uint32) []byte { return []byte{byte(i), byte(i >> 8), 7} }
	expect := func() {
		t.Helper()
		for i := range b.n {
			if !bytes.Equal(b.row(i), item(i)) {
				t.Fatalf("item %d of %d is %v, want %v", i, b.n, b.row(i), item(i))
			}
		}
		if want := (b.n + perBlock - 1) / perBlock; len(b.list) != int(want) {
			t.Fatalf("%d items in %d blocks, want %d", b.n, len(b.list), want)
		}
	}
	for range 2 { // the second time in what the first one left
		for b.n < items {
			i := b.n
			copy(b.grow(), item(i))
			expect()
		}
		for b.n > 1 {
			b.shrink()
			expect()
		}
	}
	b.shrink()
	if b.list != nil || b.spare != nil {
		t.Error("an empty list holds blocks")
	}
}

// A list that has shrunk keeps one block more than it needs, at most.
func TestBlocksGiveBack(t *testing.T) {
	b := blocks[uint64]{width: 1}
	for range 20 * perBlock {
		b.grow()
	}
	for b.n > perBlock {
		b.shrink()
	}
	for _, block := range b.list[:cap(b.list)][1:] {
		if block != nil {
			t.Fatal("a block that is not used is held")
		}
	}
	if b.spare == nil {
		t.Error("no block is spare")
	}
}

// To go back and forth over the edge of a block costs nothing.
func TestBlocksAtAnEdge(t *testing.T) {
	b := blocks[uint64]{width: 1}
	for range 2 * perBlock {
		b.grow()
	}
	allocs := testing.AllocsPerRun(100, func() {
		b.grow()
		b.shrink()
	})
	if allocs != 0 {
		t.Errorf("%v allocations, want none", allocs)
	}
}
