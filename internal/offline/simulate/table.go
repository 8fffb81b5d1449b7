package simulate

import (
	"cmp"
	"maps"
	"slices"

	"weir/internal/limiter"
)

// table keeps the counters of one limit, of which there may be many millions. What is known of most clients has
// room in a word; that of the others, who come often, is kept whole.
type table struct {
	limit  *limiter.Limit
	demand *demand           // nil unless amounts are suggested
	unit   int64             // of State.At, in that of the limit's states
	widths [parts]uint       // of the parts of a word, in bits
	words  map[uint64]uint64 // by the hashes of their keys; without pointers, so that there is nothing to scan
	large  map[uint64]*client
}

// client is what is known of a client.
type client struct {
	state  limiter.State
	denied bool // at least once
	undenied
}

// undenied is what would be known of the client if it was never denied, see demand. It is
// not used without a demand.
type undenied struct {
	alone limiter.State // of windows and of what is in flight
	hull  hull          // of a token bucket
	peak  uint64        // the amount that the client needs
}

// The parts of a word, from its highest bits on, and two marks in the lowest.
const (
	partAt   = iota // State.At
	partUsed        // State.Used
	partPrev        // State.Prev
	partSum         // hull.sum
	partPeak        // undenied.peak
	parts

	isLarge   = 1
	wasDenied = 2
	markBits  = 2
)

// newTable returns a table without clients. The numbers of windows have 32 bits, and milliseconds 42: both last
// until the year 2100.
func newTable(l *limiter.Limit, suggest bool) *table {
	t := &table{limit: l, unit: 1, words: map[uint64]uint64{}, large: map[uint64]*client{}}
	if suggest {
		t.demand = newDemand(l)
	}
	switch {
	case l.Algorithm == limiter.SlidingWindow && suggest:
		t.widths = [parts]uint{32, 10, 10, 0, 10}
	case l.Algorithm == limiter.SlidingWindow:
		t.widths = [parts]uint{32, 15, 15, 0, 0}
	case l.Algorithm == limiter.FixedWindow || l.Algorithm == limiter.ByCalendar:
		t.widths = [parts]uint{32, 15, 0, 0, 15}
	case l.Algorithm == limiter.TokenBucket && suggest:
		t.unit, t.widths = 1000, [parts]uint{42, 5, 5, 5, 5}
	case l.Algorithm == limiter.TokenBucket:
		t.unit, t.widths = 1000, [parts]uint{42, 10, 10, 0, 0}
	default:
		t.unit, t.widths = 1000, [parts]uint{42, 10, 0, 0, 10}
	}
	return t
}

// get returns in c what is known of a client, by the hash of its key.
func (t *table) get(hash uint64, c *client) {
	word := t.words[hash]
	if word&isLarge != 0 {
		*c = *t.large[hash]
		return
	}
	*c = t.unpack(word)
}

// put keeps what is known of a client.
func (t *table) put(hash uint64, c *client) {
	word, ok := t.pack(c)
	if ok {
		delete(t.large, hash)
	} else if word = isLarge; t.large[hash] != nil {
		*t.large[hash] = *c
	} else {
		t.large[hash] = new(*c)
	}
	if c.denied {
		word |= wasDenied
	}
	t.words[hash] = word
}

// pack returns what is known of a client as a word, and false if some of it has no room there.
func (t *table) pack(c *client) (word uint64, ok bool) {
	state, alone, at := used(c.state), used(c.alone), c.state.At
	if len(c.hull.points) > 0 {
		at = c.hull.points[0].at
	}
	for i, n := range [parts]int64{at / t.unit, state.Used, state.Prev, int64(c.hull.sum), int64(c.peak)} {
		word = word<<t.widths[i] | uint64(n)&(1<<t.widths[i]-1)
	}
	word <<= markBits
	back := t.unpack(word)
	return word, back.state == state && back.peak == c.peak && back.hull.sum == c.hull.sum && slices.Equal(back.hull.points, c.hull.points) &&
		(back.alone == alone || t.demand == nil || t.limit.Algorithm == limiter.TokenBucket)
}

func (t *table) unpack(word uint64) (c client) {
	c.denied = word&wasDenied != 0
	word >>= markBits
	var p [parts]int64
	for i := parts - 1; i >= 0; i-- {
		p[i] = int64(word & (1<<t.widths[i] - 1))
		word >>= t.widths[i]
	}
	at := p[partAt] * t.unit
	c.state, c.peak = used(limiter.State{At: at, Used: p[partUsed], Prev: p[partPrev]}), uint64(p[partPeak])
	if c.alone = c.state; p[partSum] > 0 {
		c.hull = hull{sum: float64(p[partSum]), points: []point{{at: at}}}
	}
	return c
}

// used returns a state without its time if nothing is used, which is as good as none.
func used(s limiter.State) limiter.State {
	if s.Used == 0 && s.Prev == 0 {
		s.At = 0
	}
	return s
}

// amounts returns for each share of clients the smallest amount at which no more than that
// share would have been denied.
func (t *table) amounts(shares []float64) (amounts []uint64) {
	clients := map[uint64]int{} // by their peaks
	for hash, word := range t.words {
		peak := word >> markBits & (1<<t.widths[partPeak] - 1)
		if word&isLarge != 0 {
			peak = t.large[hash].peak
		}
		clients[peak]++
	}
	peaks := slices.SortedFunc(maps.Keys(clients), func(a, b uint64) int { return cmp.Compare(b, a) })
	for _, share := range shares {
		left, amount := int(share*float64(len(t.words))), uint64(0) // clients that may be denied
		for _, peak := range peaks {
			if left -= clients[peak]; left < 0 {
				amount = peak
				break
			}
		}
		amounts = append(amounts, amount)
	}
	return amounts
}
