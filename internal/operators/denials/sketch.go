package denials

import (
	"bytes"

	"weir/internal/limiter"
)

// sketch counts the denials of keys in a bounded number of counters, by Space-Saving
// (Metwally, Agrawal, El Abbadi: Efficient Computation of Frequent and Top-k Elements in
// Data Streams, 2005): a new key takes the counter with the least denials and goes on
// from there, so it counts as denied too often, by that number at most.
//
// A limit with many keys must not hide those of others: while all counters are taken, a
// key takes one of the limit that has the most counters. So each of l limits has
// size/l counters at least, and with n denials of a limit, none of its counters is
// wrong by more than n·l/size: its size/l largest ones add up to n at most, and none of
// them is ever smaller than one that is taken. The real error is usually far smaller,
// and is kept with each counter.
//
// Sketches are merged as in Agarwal et al.: Mergeable Summaries, 2012: what one does not
// list is taken to be as large as it can be there. The errors add up.
type sketch struct {
	tags     []byte   // the lowest byte of each hash, where a search is fast
	hashes   []uint64 // of counters
	counters []counter
	groups   []group
	next     int // where the search for a counter to take goes on
	// floor is the largest number of denials that a limit without group may have.
	floor uint64
}

// How many counters a sketch has while it counts, and how many are kept of it. While no more
// keys are denied than it has counters, a denial costs half.
const (
	size     = 128
	keptSize = 64
)

// counter counts the denials of a key.
type counter struct {
	group       int    // in groups
	count       uint64 // at most so many denials
	err         uint64 // of which at most so many are of other keys
	first, last int64  // in seconds since the epoch
	// text is as of excerpt. It is empty of a key that took a counter and was not denied
	// again: most keys of a flood never are, and to spell them would cost more than to
	// count them. Such a key is not shown.
	text []byte
}

// group counts the denials of a limit, in shadow mode or not.
type group struct {
	hash   uint64
	limit  *limiter.Limit // of the rules at the last denial
	shadow bool
	count  uint64 // at most so many denials
	err    uint64 // of which at most so many are of other limits
	floor  uint64 // the largest number of denials that a key without counter may have
	keys   int    // counters
}

// textSize bounds the text of a counter.
const textSize = 256

// add counts a denial, and returns the counter of its key.
func (s *sketch) add(groupHash, hash uint64, d *Denial, now int64) *counter {
	if i := s.lookup(hash, len(s.hashes)); i >= 0 {
		c := &s.counters[i]
		c.count++
		c.last = now
		if len(c.text) == 0 {
			c.spell(d)
		}
		g := &s.groups[c.group]
		g.count++
		if g.limit != d.Limit {
			g.limit = d.Limit
		}
		return c
	}
	g, i := s.find(groupHash), -1
	isFull := len(s.counters) == size
	if isFull {
		g, i = s.take(g)
	}
	if g < 0 {
		g = len(s.groups)
		asked := group{hash: groupHash, shadow: d.Shadow}
		s.groups = append(s.groups, asked.begin(s.floor))
	}
	if i < 0 {
		i = s.grow()
	}
	to := &s.groups[g]
	to.limit = d.Limit
	to.count++
	to.keys++
	s.tags[i], s.hashes[i] = byte(hash), hash
	c := &s.counters[i]
	c.group, c.count, c.err, c.first, c.last = g, to.floor+1, to.floor, now, now
	if c.text = c.text[:0]; !isFull {
		c.spell(d)
	}
	return c
}

// spell sets the text of a counter.
func (c *counter) spell(d *Denial) {
	if cap(c.text) < textSize {
		c.text = make([]byte, 0, textSize)
	}
	c.text = d.Append(c.text[:0], textSize)
}

// lookup returns the place of a hash among the first n, or -1.
func (s *sketch) lookup(hash uint64, n int) int {
	for from := 0; ; from++ {
		i := bytes.IndexByte(s.tags[from:n], byte(hash))
		if i < 0 {
			return -1
		}
		if from += i; s.hashes[from] == hash {
			return from
		}
	}
}

// grow adds a counter, with the memory for its text that an earlier one left, and
// returns its place.
func (s *sketch) grow() int {
	n := len(s.counters)
	s.tags, s.hashes = append(s.tags, 0), append(s.hashes, 0)
	if n == cap(s.counters) {
		s.counters = append(s.counters, counter{})
	}
	s.counters = s.counters[:n+1]
	return n
}

// find returns the place of a group, or -1.
func (s *sketch) find(hash uint64) int {
	for i := range s.groups {
		if s.groups[i].hash == hash {
			return i
		}
	}
	return -1
}

// take takes a counter from the group that has the most, the least one, and returns its
// place. If no group has more than the group asks, or -1, it is one of its own. It
// returns the place of that group, too, which may change.
func (s *sketch) take(asks int) (group, counter int) {
	from := max(asks, 0)
	for i := range s.groups {
		if s.groups[i].keys > s.groups[from].keys {
			from = i
		}
	}
	g := &s.groups[from]
	counter = s.least(from)
	g.floor = s.counters[counter].count
	if g.keys--; g.keys == 0 && from != asks {
		s.floor = max(s.floor, g.count)
		if s.removeGroup(from); asks == len(s.groups) {
			asks = from
		}
	}
	return asks, counter
}

// shrink leaves so many counters at most.
func (s *sketch) shrink(most int) {
	for len(s.counters) > most {
		_, i := s.take(-1)
		end := len(s.counters) - 1
		s.counters[i], s.counters[end] = s.counters[end], s.counters[i] // with the memory for the text
		s.tags[i], s.hashes[i] = s.tags[end], s.hashes[end]
		s.counters, s.tags, s.hashes = s.counters[:end], s.tags[:end], s.hashes[:end]
	}
}

// least returns a counter of a group that has the least denials. None has less than the
// floor of the group: in a flood of new keys many are there, and the search ends early.
func (s *sketch) least(group int) (least int) {
	least = -1
	floor := s.groups[group].floor
	for range s.counters {
		if s.next++; s.next >= len(s.counters) {
			s.next = 0
		}
		c := &s.counters[s.next]
		if c.group != group || least >= 0 && c.count >= s.counters[least].count {
			continue
		}
		if least = s.next; c.count == floor {
			break
		}
	}
	return least
}

// removeGroup removes a group without counters. The last one takes its place.
func (s *sketch) removeGroup(i int) {
	end := len(s.groups) - 1
	s.groups[i] = s.groups[end]
	s.groups[end] = group{}
	s.groups = s.groups[:end]
	for j := range s.counters {
		if s.counters[j].group == end {
			s.counters[j].group = i
		}
	}
}

// reset forgets all but memory.
func (s *sketch) reset() {
	clear(s.groups)
	s.tags, s.hashes, s.counters, s.groups, s.floor = s.tags[:0], s.hashes[:0], s.counters[:0], s.groups[:0], 0
}

// merge adds what o counted at another time, and leaves so many counters at most.
func (s *sketch) merge(o *sketch, most int) {
	there := make([]int, len(o.groups)) // where those of o are in s
	for i := range o.groups {
		if there[i] = s.find(o.groups[i].hash); there[i] < 0 {
			there[i] = len(s.groups)
			s.groups = append(s.groups, o.groups[i].begin(s.floor))
		}
	}
	theirs := make([]group, len(s.groups)) // what o says of those of s
	for i := range theirs {
		theirs[i] = group{count: o.floor, err: o.floor, floor: o.floor}
	}
	for i, g := range there {
		theirs[g] = o.groups[i]
	}
	mine := len(s.counters)
	for j := range o.counters {
		from := &o.counters[j]
		if s.lookup(o.hashes[j], mine) >= 0 {
			continue
		}
		g := &s.groups[there[from.group]]
		g.keys++
		at := s.grow()
		s.tags[at], s.hashes[at] = o.tags[j], o.hashes[j]
		c := &s.counters[at]
		c.group, c.count, c.err = there[from.group], from.count+g.floor, from.err+g.floor
		c.first, c.last, c.text = from.first, from.last, keep(c.text, from.text)
	}
	for i := range s.counters[:mine] {
		c := &s.counters[i]
		if j := o.lookup(s.hashes[i], len(o.hashes)); j >= 0 {
			from := &o.counters[j]
			c.count, c.err = c.count+from.count, c.err+from.err
			c.first, c.last = min(c.first, from.first), max(c.last, from.last)
			if len(c.text) == 0 {
				c.text = keep(c.text, from.text)
			}
		} else {
			floor := theirs[c.group].floor
			c.count, c.err = c.count+floor, c.err+floor
		}
	}
	for i := range s.groups {
		g, more := &s.groups[i], &theirs[i]
		g.count, g.err, g.floor = g.count+more.count, g.err+more.err, g.floor+more.floor
		if more.limit != nil {
			g.limit = more.limit
		}
	}
	s.floor += o.floor
	s.shrink(most)
}

// clip gives back the memory that merge took to hold more counters than are left.
func (s *sketch) clip() {
	if cap(s.counters) > keptSize {
		s.tags, s.hashes, s.counters, s.groups = clipped(s.tags), clipped(s.hashes), clipped(s.counters), clipped(s.groups)
	}
}

func clipped[T any](s []T) []T { return append(make([]T, 0, keptSize), s...) }

// join adds what o counted at the same time, of other keys.
func (s *sketch) join(o *sketch) {
	there := make([]int, len(o.groups))
	theirs := make([]bool, len(s.groups), len(s.groups)+len(o.groups))
	for i := range o.groups {
		from := &o.groups[i]
		g := s.find(from.hash)
		if g < 0 {
			g = len(s.groups)
			s.groups, theirs = append(s.groups, from.begin(s.floor)), append(theirs, false)
		}
		to := &s.groups[g]
		to.count, to.err, to.floor, to.keys = to.count+from.count, to.err+from.err, max(to.floor, from.floor), to.keys+from.keys
		there[i], theirs[g] = g, true
	}
	for i := range s.groups {
		if g := &s.groups[i]; !theirs[i] {
			g.count, g.err, g.floor = g.count+o.floor, g.err+o.floor, max(g.floor, o.floor)
		}
	}
	for j, c := range o.counters {
		c.group = there[c.group]
		s.tags, s.hashes, s.counters = append(s.tags, o.tags[j]), append(s.hashes, o.hashes[j]), append(s.counters, c)
	}
	s.floor += o.floor
}

// begin returns g without counters, of whose denials nothing is known but that they are
// no more than floor.
func (g *group) begin(floor uint64) group {
	return group{hash: g.hash, limit: g.limit, shadow: g.shadow, count: floor, err: floor, floor: floor}
}

// keep copies text into the memory of old, or into new one that is hardly larger.
func keep(old, text []byte) []byte {
	if cap(old) < len(text) {
		const step = 32
		old = make([]byte, 0, (len(text)+step-1)/step*step)
	}
	return append(old[:0], text...)
}
