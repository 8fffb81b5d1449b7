package simulate

import (
	"math"
	"math/bits"

	"weir/internal/limiter"
)

// table keeps the counters of one limit, of which there may be many millions: one cell
// for each client. Cells are in open addressing with linear probing, in parts that grow
// one by one, so that growing needs little room beside them.
//
// A client is known by 48 bits of the hash of its key. Among ten million clients two
// are counted as one with a probability of one in six.
type table struct {
	limit  *limiter.Limit
	codec  codec
	parts  [1 << partBits]*part
	n      int
	large  pool[large]
	demand *demand // nil unless amounts are suggested
	marked bool    // clients have marks, see place.mark
}

// part has the clients whose fingerprints begin alike, nil if there are none.
type part struct {
	cells []cell
	n     int
	// Of the same clients, nil unless amounts are suggested.
	peaks []uint16
	hulls []word // client.hull, nil unless the limit is a token bucket
	// Of the same clients, 2 bits for each, nil unless rules are compared.
	marks []byte
}

// cell is a client: its fingerprint without that of the part, 0 if the cell is free, and its
// state with its marks.
type cell struct{ fingerprint, state word }

// word is 40 bits.
type word [5]byte

func (w word) bits() uint64 {
	return uint64(w[0]) | uint64(w[1])<<8 | uint64(w[2])<<16 | uint64(w[3])<<24 | uint64(w[4])<<32
}

func wordOf(b uint64) word {
	return word{byte(b), byte(b >> 8), byte(b >> 16), byte(b >> 24), byte(b >> 32)}
}

// What is marked in a word beside a state of stateBits.
const (
	stateBits = 38

	isLarge    = 1 << stateBits // the rest is a number in the pool
	markDenied = 2 << stateBits // at least one request was denied

	codeMask = isLarge - 1 // the rest
)

// client is what is known of a client.
type client struct {
	state limiter.State
	undenied
}

// undenied is what would be known of the client if it was never denied, see demand. It is
// not used without a demand.
type undenied struct {
	alone limiter.State // of windows and of what is in flight
	hull  hull          // of a token bucket
	peak  uint64        // the amount that the client needs
}

// large is a client whose state has no room in a cell, or of which more is known than the part has room for.
type large struct {
	state    limiter.State
	undenied *undenied // nil if it is in the part, or not used
}

const (
	partBits        = 8
	fingerprintBits = partBits + 40
	firstCells      = 8 // all parts have a multiple of it
)

// fingerprint returns the bits of a hash by which a client is known. The last 40 are not 0.
func fingerprint(hash uint64) uint64 {
	fp := hash >> (64 - fingerprintBits)
	if fp<<(64-40) == 0 {
		fp++
	}
	return fp
}

func newTable(l *limiter.Limit, suggest, compare bool) *table {
	t := &table{limit: l, codec: codecOf(l), marked: compare}
	if suggest {
		t.demand = newDemand(l)
	}
	return t
}

// place is where a client is in a table. It is valid until a client is added to the part.
type place struct {
	part *part
	cell int
}

// deny marks a client as denied, and reports whether it was not.
func (at place) deny() bool {
	w := &at.part.cells[at.cell].state
	b := w.bits()
	*w = wordOf(b | markDenied)
	return b&markDenied == 0
}

// mark adds to what is known of a client's denials, and returns what was.
func (at place) mark(as denials) (was denials) {
	four, shift := &at.part.marks[at.cell/4], at.cell%4*2
	was = denials(*four>>shift) & (differently | otherwise)
	*four |= byte(as) << shift
	return was
}

// known returns the place of a client, if there is one.
func (t *table) known(fp uint64) (at place, found bool) {
	p := t.parts[fp>>40]
	if p == nil {
		return place{}, false
	}
	i, found := p.find(wordOf(fp))
	return place{p, i}, found
}

// find returns the place of a client, which is made if there is none.
func (t *table) find(fp uint64) place {
	at := &t.parts[fp>>40]
	if *at == nil {
		*at = t.newPart(firstCells)
	}
	p := *at
	i, found := p.find(wordOf(fp))
	if found {
		return place{p, i}
	}
	t.n++
	if p.n++; p.n > len(p.cells)*15/16 {
		t.grow(p)
		i, _ = p.find(wordOf(fp))
	}
	p.cells[i].fingerprint = wordOf(fp)
	return place{p, i}
}

// again returns the place of a client that was at a place before others were added.
func (t *table) again(at place, fp uint64) place {
	if at.part.cells[at.cell].fingerprint == wordOf(fp) {
		return at
	}
	return t.find(fp)
}

// find returns where a fingerprint is, or would be.
func (p *part) find(fp word) (i int, found bool) {
	high, _ := bits.Mul64(fp.bits()<<(64-40), uint64(len(p.cells)))
	for i = int(high); p.cells[i].fingerprint != (word{}); {
		if p.cells[i].fingerprint == fp {
			return i, true
		}
		if i++; i == len(p.cells) {
			i = 0
		}
	}
	return i, false
}

func (t *table) newPart(cells int) *part {
	p := &part{cells: make([]cell, cells)}
	if t.demand != nil {
		p.peaks = make([]uint16, cells)
		if t.limit.Algorithm == limiter.TokenBucket {
			p.hulls = make([]word, cells)
		}
	}
	if t.marked {
		p.marks = make([]byte, cells/4)
	}
	return p
}

// grow makes room in a part by a sixteenth.
func (t *table) grow(p *part) {
	grown := t.newPart(len(p.cells)*17/16/8*8 + 8)
	for i := range p.cells {
		c := &p.cells[i]
		if c.fingerprint == (word{}) {
			continue
		}
		j, _ := grown.find(c.fingerprint)
		grown.cells[j] = *c
		if p.peaks != nil {
			grown.peaks[j] = p.peaks[i]
		}
		if p.hulls != nil {
			grown.hulls[j] = p.hulls[i]
		}
		if p.marks != nil {
			place{grown, j}.mark(place{p, i}.mark(0))
		}
	}
	grown.n = p.n
	*p = *grown
}

// each calls do with each client.
func (t *table) each(do func(at place)) {
	for _, p := range t.parts {
		if p == nil {
			continue
		}
		for i := range p.cells {
			if p.cells[i].fingerprint != (word{}) {
				do(place{p, i})
			}
		}
	}
}

// get returns what is known of a client.
func (t *table) get(at place) client { return t.read(at, &t.codec) }

// read is get for what was written by a codec.
func (t *table) read(at place, by *codec) (c client) {
	b := at.part.cells[at.cell].state.bits()
	if b&isLarge != 0 {
		l := t.large.at(b & codeMask)
		c.state = l.state
		if l.undenied != nil {
			c.undenied = *l.undenied
			return c
		}
	} else {
		c.state = by.decode(b & codeMask)
	}
	if t.demand == nil {
		return c
	}
	c.peak = uint64(at.part.peaks[at.cell])
	if at.part.hulls == nil {
		c.alone = c.state
	} else if s := by.decode(at.part.hulls[at.cell].bits()); !unused(s) {
		c.hull = hull{sum: float64(s.Used), points: []point{{at: s.At}}}
	}
	return c
}

// put keeps what is known of a client at a time.
func (t *table) put(at place, c *client, now int64) {
	if latest := max(c.state.At, c.alone.At, c.hull.latest()); t.codec.outgrown(latest) {
		t.sweep(now, latest)
	}
	t.write(at, c)
}

// write is put with the codec as it is.
func (t *table) write(at place, c *client) {
	w := &at.part.cells[at.cell].state
	old := w.bits()
	outside := t.demand != nil && !t.writeApart(at, c) // of the part
	state, small := t.codec.encode(c.state)
	switch small = small && !outside; {
	case small && old&isLarge != 0:
		t.large.free(old & codeMask)
	case !small && old&isLarge != 0:
		state = old & codeMask
	case !small:
		state = t.large.add(large{})
	}
	if !small {
		l := t.large.at(state)
		l.state = c.state
		switch {
		case !outside:
			l.undenied = nil
		case l.undenied == nil:
			l.undenied = new(c.undenied)
		default:
			*l.undenied = c.undenied
		}
		state |= isLarge
	}
	*w = wordOf(state | old&markDenied)
}

// writeApart reports whether the part has room for what would be if the client was never
// denied, and writes it there if so.
func (t *table) writeApart(at place, c *client) bool {
	if c.peak > math.MaxUint16 {
		return false
	}
	if at.part.hulls == nil && c.alone != c.state && (!unused(c.alone) || !unused(c.state)) {
		return false
	}
	if at.part.hulls != nil {
		var s limiter.State
		if h := &c.hull; len(h.points) == 1 && h.sum <= math.MaxUint16 { // costs are whole
			s = limiter.State{At: h.points[0].at, Used: int64(h.sum)}
		} else if len(h.points) > 0 {
			return false
		}
		hull, fits := t.codec.encode(s)
		if !fits {
			return false
		}
		at.part.hulls[at.cell] = wordOf(hull)
	}
	at.part.peaks[at.cell] = uint16(c.peak)
	return true
}

// sweep forgets what no longer counts, and sets the base of the codec to half the range of
// its times before the latest one.
func (t *table) sweep(now, latest int64) {
	from := t.codec
	t.codec.base = latest - t.codec.unit<<(t.codec.at-1)
	t.each(func(at place) {
		c := t.read(at, &from)
		if t.limit.Expiry(c.state) <= now {
			c.state = limiter.State{}
		}
		if t.demand != nil {
			t.demand.sweep(&c.undenied, now)
		}
		t.write(at, &c)
	})
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
		return codec{unit: 1, at: 14, used: 12, prev: 12}
	case l.Algorithm == limiter.FixedWindow && l.Anchor != limiter.FirstHit:
		return codec{unit: 1, at: 20, used: 18}
	default:
		// Two periods, so that what counts is never too old. Short ones have more, for few
		// sweeps, and more than 49 days less, for the units to have room.
		at := min(max(25, bits.Len64(uint64(2*l.Period().Milliseconds()))), 33)
		return codec{unit: 1000, at: uint(at), used: uint(stateBits - at)}
	}
}

// outgrown reports whether the time of a state is too far after base. The first time is base.
func (c *codec) outgrown(at int64) bool {
	if !c.begun {
		c.base, c.begun = at, true
	}
	return (at-c.base)/c.unit >= 1<<c.at-1
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
