package memory

import "slices"

// blocks is a list that grows and shrinks at its end. It consists of blocks, so
// that growing copies and throws away nothing but a short first block, and what
// the list has shrunk by goes back to the collector.
type blocks[T any] struct {
	width int    // elements of an item, which lie side by side
	n     uint32 // items
	list  [][]T
	spare []T // the block emptied last, for a list that goes back and forth over its edge
}

const (
	perBlock = 256 // items
	short    = 16  // elements of a first block that an empty list keeps, for the next item
)

// at returns item i of a list of width 1.
func (b *blocks[T]) at(i uint32) *T { return &b.list[i/perBlock][i%perBlock] }

// row returns the elements of item i.
func (b *blocks[T]) row(i uint32) []T {
	return b.list[i/perBlock][int(i%perBlock)*b.width:][:b.width]
}

// grow adds an item and returns its elements, which may hold anything. Pointers
// to other items are void from then on: the first block may have moved.
func (b *blocks[T]) grow() []T {
	if b.n%perBlock == 0 {
		b.list = append(b.list, b.newBlock())
	}
	last := &b.list[len(b.list)-1]
	size := len(*last)
	*last = slices.Grow(*last, b.width)[:size+b.width]
	b.n++
	return (*last)[size:]
}

// newBlock returns an empty block. The first one grows with its items, for a list
// that stays short.
func (b *blocks[T]) newBlock() (block []T) {
	block, b.spare = b.spare, nil
	if block == nil && b.n > 0 {
		block = make([]T, 0, perBlock*b.width)
	}
	return block
}

// shrink takes the last item away.
func (b *blocks[T]) shrink() {
	b.n--
	end := len(b.list) - 1
	last := &b.list[end]
	*last = (*last)[:len(*last)-b.width]
	switch {
	case b.n == 0 && cap(*last) > short:
		b.list, b.spare = nil, nil
	case b.n%perBlock == 0:
		b.spare, *last, b.list = *last, nil, b.list[:end]
	}
}
