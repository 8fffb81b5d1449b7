package memory

// A shard keeps the counters of each class in the order in which they are due, as
// a heap whose nodes have four children each, which lie side by side in memory.

// due says when a counter must be looked at: when it expires or, if it denies,
// when that ends.
type due struct {
	at      int64  // in microseconds since the epoch
	table   uint32 // of the shard
	counter uint32 // of the table
}

// order is the order of one class.
type order struct {
	blocks[due]
	hand uint32 // where the next counter to give up is looked for, if they deny
}

const children = 4

// file adds a counter to a class.
func (s *shard) file(class uint8, d due) {
	o := &s.orders[class]
	o.grow()
	s.tables[d.table].counters.at(d.counter).class = class
	s.settle(o, o.n-1, d)
	s.present |= 1 << class
}

// refile gives a counter another class or time.
func (s *shard) refile(c *counter, class uint8, at int64) {
	o := &s.orders[c.class]
	d := *o.at(c.place)
	switch {
	case c.class != class:
		s.unfile(c)
		d.at = at
		s.file(class, d)
	case d.at != at:
		d.at = at
		s.settle(o, c.place, d)
	}
}

// unfile takes a counter out of its class.
func (s *shard) unfile(c *counter) {
	o := &s.orders[c.class]
	last := *o.at(o.n - 1)
	o.shrink()
	if c.place < o.n {
		s.settle(o, c.place, last)
	} else if o.n == 0 {
		s.present &^= 1 << c.class
	}
}

// settle puts d at place, or where it belongs above or below it.
func (s *shard) settle(o *order, place uint32, d due) {
	for place > 0 {
		parent := (place - 1) / children
		if o.at(parent).at <= d.at {
			break
		}
		s.put(o, place, *o.at(parent))
		place = parent
	}
	for {
		child, found := o.firstChild(place)
		if !found || o.at(child).at >= d.at {
			break
		}
		s.put(o, place, *o.at(child))
		place = child
	}
	s.put(o, place, d)
	s.due = min(s.due, d.at)
}

// firstChild returns the child of place that is due first.
func (o *order) firstChild(place uint32) (first uint32, found bool) {
	first = children*place + 1
	end := min(first+children, o.n)
	return o.firstOf(first, end), first < end
}

// firstOf returns which of some places is due first: the first of equal ones.
func (o *order) firstOf(first, end uint32) uint32 {
	for place := first + 1; place < end; place++ {
		if o.at(place).at < o.at(first).at {
			first = place
		}
	}
	return first
}

// put puts d at place, and notes the place in its counter.
func (s *shard) put(o *order, place uint32, d due) {
	*o.at(place) = d
	s.tables[d.table].counters.at(d.counter).place = place
}

// looked is how many counters that deny are looked at for one to give up.
const looked = 4

// turn returns the counter to give up of those that deny: of a few whose turn it
// is, the one that is due first. There must be one. It is not the first of all,
// or else, once there are counters of a long period in all places, each further
// one would push out one of a shorter period.
func (o *order) turn() due {
	if o.hand >= o.n {
		o.hand = 0
	}
	first := o.firstOf(o.hand, min(o.hand+looked, o.n))
	o.hand += looked
	return *o.at(first)
}
