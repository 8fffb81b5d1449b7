package simulate

import (
	"math/bits"

	"weir/internal/limiter"
)

// table keeps the counters of one limit, of which there may be many millions: one cell
// for each client. Cells are in open addressing with linear probing, in parts that grow
// one by one, so that growing needs little room beside them.
//
// A client is told apart by 48 bits of the hash of its key. Among ten million clients two
// are counted as one with a probability of one in six.
type table struct {
	limit  *limiter.Limit
	codec  codec
	parts  []part
	shift  uint // of a fingerprint, for its part
	n      int
	big    pool[limiter.State] // states that have no room in a cell
	demand *demand             // nil unless amounts are suggested
}

// part is some cells of a table.
type part struct {
	cells []cell
	peaks []peak // of the same clients, nil unless amounts are suggested
	n     int
}

// cell is a client: its fingerprint, and its state with its marks.
type cell struct {
	low   uint32
	high  uint16
	state word
}

// word is 48 bits.
type word [3]uint16

func (w word) bits() uint64 { return uint64(w[0]) | uint64(w[1])<<16 | uint64(w[2])<<32 }

func wordOf(b uint64) word { return word{uint16(b), uint16(b >> 16), uint16(b >> 32)} }

// What is marked in a word beside a state of stateBits.
const (
	stateBits = 45

	isBig   = 1 << stateBits // the rest is a place in a pool
	denied  = 2 << stateBits // at least one request was
	changed = 4 << stateBits // at least one was decided in another way than by the old rules
)

const (
	fingerprintBits = 48
	partBits        = 8    // of tables with many clients
	splitAt         = 4096 // clients of a table with one part
	firstCells      = 8
)

// fingerprint returns what tells a client apart, never 0, which is a free cell.
func fingerprint(hash uint64) uint64 { return max(hash>>(64-fingerprintBits), 1) }

func (c *cell) fingerprint() uint64 { return uint64(c.low) | uint64(c.high)<<32 }

func newTable(l *limiter.Limit, suggest bool) *table {
	t := &table{limit: l, codec: codecOf(l), parts: make([]part, 1), shift: fingerprintBits}
	if suggest {
		t.demand = newDemand(l)
	}
	return t
}

// home is where the search for a fingerprint begins.
func (t *table) home(fp uint64, cells int) int {
	high, _ := bits.Mul64(fp<<(64-t.shift), uint64(cells))
	return int(high)
}

// place is where a client is in a table, until the table has one more.
type place struct{ part, cell int }

// find returns the place of a client, which is made if there is none.
func (t *table) find(fp uint64) place {
	at := place{part: int(fp >> t.shift)}
	p := &t.parts[at.part]
	if len(p.cells) > 0 {
		for at.cell = t.home(fp, len(p.cells)); p.cells[at.cell].taken(); at.cell = p.after(at.cell) {
			if p.cells[at.cell].fingerprint() == fp {
				return at
			}
		}
	}
	t.n++
	if p.n++; p.n > len(p.cells)/8*7 {
		t.grow(p)
		at.part = int(fp >> t.shift)
		p = &t.parts[at.part]
		at.cell = t.free(p, fp)
	}
	p.cells[at.cell] = cell{low: uint32(fp), high: uint16(fp >> 32)}
	return at
}

// again returns the place of a client that was at a place when another came.
func (t *table) again(at place, fp uint64) place {
	if at.part < len(t.parts) && at.cell < len(t.parts[at.part].cells) && t.parts[at.part].cells[at.cell].fingerprint() == fp {
		return at
	}
	return t.find(fp)
}

func (c *cell) taken() bool { return c.low != 0 || c.high != 0 }

// after is the number of the cell after cell i, where the search goes on.
func (p *part) after(i int) int {
	if i++; i < len(p.cells) {
		return i
	}
	return 0
}

// free returns a free cell for a fingerprint that has none.
func (t *table) free(p *part, fp uint64) int {
	i := t.home(fp, len(p.cells))
	for p.cells[i].taken() {
		i = p.after(i)
	}
	return i
}

// grow makes room in a part by a sixteenth, or makes many parts of one.
func (t *table) grow(p *part) {
	if t.shift == fingerprintBits && t.n > splitAt {
		t.split()
		return
	}
	old := *p
	p.make(max(firstCells, len(old.cells)*17/16/8*8+8), t.demand != nil)
	t.move(&old)
}

func (p *part) make(cells int, peaks bool) {
	p.cells = make([]cell, cells)
	if peaks {
		p.peaks = make([]peak, cells)
	}
}

func (t *table) split() {
	old := t.parts[0]
	t.parts, t.shift = make([]part, 1<<partBits), fingerprintBits-partBits
	for i := range t.parts {
		t.parts[i].make(2*splitAt>>partBits, t.demand != nil)
	}
	for i := range old.cells {
		if fp := old.cells[i].fingerprint(); fp != 0 {
			t.parts[fp>>t.shift].n++
		}
	}
	for i := range t.parts { // hashes may be uneven
		if p := &t.parts[i]; p.n+1 > len(p.cells)/8*7 {
			p.make(2*p.n+firstCells, t.demand != nil)
		}
	}
	t.move(&old)
}

// move moves the cells of a part to where they are now.
func (t *table) move(old *part) {
	for i := range old.cells {
		fp := old.cells[i].fingerprint()
		if fp == 0 {
			continue
		}
		p := &t.parts[fp>>t.shift]
		j := t.free(p, fp)
		p.cells[j] = old.cells[i]
		if t.demand != nil {
			p.peaks[j] = old.peaks[i]
		}
	}
}

// state returns the state of a cell.
func (t *table) state(w word) limiter.State {
	b := w.bits()
	if b&isBig != 0 {
		return *t.big.at(b & (isBig - 1))
	}
	return t.codec.decode(b & (isBig - 1))
}

// put sets the state of a cell at a time.
func (t *table) put(w *word, s limiter.State, now int64) {
	if t.codec.outgrown(s) {
		t.sweep(now, s)
	}
	old := w.bits()
	marks := old & (denied | changed)
	code, small := t.codec.encode(s)
	switch {
	case small && old&isBig != 0:
		t.big.free(old & (isBig - 1))
	case !small && old&isBig != 0:
		*t.big.at(old & (isBig - 1)) = s
		return
	case !small:
		code = t.big.add(s) | isBig
	}
	*w = wordOf(code | marks)
}

// sweep forgets what no longer counts, and lets times begin half their range before that
// of s.
func (t *table) sweep(now int64, s limiter.State) {
	from := t.codec
	t.codec.base = s.At - t.codec.unit<<(t.codec.at-1)
	for i := range t.parts {
		p := &t.parts[i]
		for j := range p.cells {
			t.rebase(&p.cells[j].state, &from, now)
			if t.demand != nil {
				t.demand.rebase(t, &p.peaks[j], &from, now)
			}
		}
	}
}

// rebase writes a state anew that was written by another codec.
func (t *table) rebase(w *word, from *codec, now int64) {
	b := w.bits()
	code := b & (isBig - 1)
	if b&isBig == 0 && code == 0 {
		return
	}
	var s limiter.State
	if b&isBig != 0 {
		s = *t.big.at(code)
	} else {
		s = from.decode(code)
	}
	if t.limit.Expiry(s) <= now {
		s = limiter.State{}
	}
	if b&isBig == 0 {
		*w = wordOf(b & (denied | changed))
	}
	t.put(w, s, now)
}

// codec writes states in stateBits.
type codec struct {
	base           int64 // of At
	unit           int64 // of At
	at, used, prev uint  // bits
	begun          bool  // base is set
}

// codecOf returns how the states of most clients of a limit have room: times count in
// milliseconds, or in windows where there are such.
func codecOf(l *limiter.Limit) codec {
	switch {
	case l.Algorithm == limiter.SlidingWindow:
		return codec{unit: 1, at: 21, used: 12, prev: 12}
	case l.Algorithm == limiter.FixedWindow && l.Anchor != limiter.FirstHit:
		return codec{unit: 1, at: 26, used: 19}
	default:
		return codec{unit: 1000, at: 28, used: 17}
	}
}

// outgrown reports whether the time of a state is too far from base.
func (c *codec) outgrown(s limiter.State) bool {
	if unused(s) {
		return false
	}
	if !c.begun {
		c.base, c.begun = s.At, true
	}
	return (s.At-c.base)/c.unit >= 1<<c.at-1
}

// unused reports whether a state is as good as none.
func unused(s limiter.State) bool { return s.Used == 0 && s.Prev == 0 && s.Until == 0 }

// encode returns false for a state that has no room. 0 is an unused one.
func (c *codec) encode(s limiter.State) (code uint64, ok bool) {
	if unused(s) {
		return 0, true
	}
	at := s.At - c.base
	if s.Until != 0 || at < 0 || at%c.unit != 0 || at/c.unit >= 1<<c.at-1 || s.Used >= 1<<c.used || s.Prev >= 1<<c.prev {
		return 0, false
	}
	return uint64(at/c.unit+1)<<(c.used+c.prev) | uint64(s.Used)<<c.prev | uint64(s.Prev), true
}

func (c *codec) decode(code uint64) limiter.State {
	if code == 0 {
		return limiter.State{}
	}
	return limiter.State{
		At:   int64(code>>(c.used+c.prev)-1)*c.unit + c.base,
		Used: int64(code >> c.prev & (1<<c.used - 1)),
		Prev: int64(code & (1<<c.prev - 1)),
	}
}

// pool keeps items by number, in blocks that do not move.
type pool[T any] struct {
	blocks [][]T
	next   uint64
	unused []uint64
}

const perBlock = 512

func (p *pool[T]) at(i uint64) *T { return &p.blocks[i/perBlock][i%perBlock] }

func (p *pool[T]) add(item T) uint64 {
	if n := len(p.unused); n > 0 {
		i := p.unused[n-1]
		p.unused = p.unused[:n-1]
		*p.at(i) = item
		return i
	}
	if p.next%perBlock == 0 {
		p.blocks = append(p.blocks, make([]T, perBlock))
	}
	i := p.next
	p.next++
	*p.at(i) = item
	return i
}

func (p *pool[T]) free(i uint64) {
	var none T
	*p.at(i) = none
	p.unused = append(p.unused, i)
}
