// Package sketch finds the keys that are counted most in a bounded number of counters.
package sketch

// Sketch counts keys by Space-Saving (Metwally, Agrawal, El Abbadi: Efficient Computation of
// Frequent and Top-k Elements in Data Streams, 2005): when all counters are taken, a new key
// takes the one with the least count and goes on from there, so it is counted too often, by
// that count at most.
//
// Each key belongs to a group, and a group with many keys does not hide those of others: a new
// key takes a counter of the group that has the most. So each of l groups has size/l counters
// at least, and where a group is counted n times, none of its counters is wrong by more than
// n·l/size. The real error is usually far smaller, and is kept with each counter.
//
// It is not safe for concurrent use.
type Sketch[V any] struct {
	// Counters are those of the keys that are known, in no order.
	Counters []Counter[V]
	// Groups are those that have counters.
	Groups map[uint64]*Group
	// Floor is the largest count that a group without counters may have.
	Floor uint64

	size  int
	index map[uint64]int // places in Counters, by key
	next  int            // where the search for the least counter goes on
}

// Counter counts a key.
type Counter[V any] struct {
	Key, Group uint64
	Count      uint64 // at most
	Error      uint64 // by how much Count may be too large
	// Value is the caller's. Of a key that took a counter it is that of the key before.
	Value V
}

// Group counts the keys of a group, and those that have no counter.
type Group struct {
	Count uint64 // at most
	Error uint64 // by how much Count may be too large
	Floor uint64 // the largest count that a key without counter may have
	keys  int    // counters
}

// New returns a sketch of so many counters, which take memory when they are used.
func New[V any](size int) *Sketch[V] {
	return &Sketch[V]{size: size, Groups: map[uint64]*Group{}, index: map[uint64]int{}}
}

// Find returns the counter of a key, nil if it has none. It is valid until the next Add.
func (s *Sketch[V]) Find(key uint64) *Counter[V] {
	if i, known := s.index[key]; known {
		return &s.Counters[i]
	}
	return nil
}

// Add counts a key once, and returns its counter, which is valid until the next Add, and
// whether it had one.
func (s *Sketch[V]) Add(group, key uint64) (c *Counter[V], known bool) {
	if c = s.Find(key); c != nil {
		c.Count++
		s.Groups[c.Group].Count++
		return c, true
	}
	g := s.Groups[group]
	if g == nil {
		g = &Group{Count: s.Floor, Error: s.Floor, Floor: s.Floor}
		s.Groups[group] = g
	}
	i := len(s.Counters)
	if i == s.size {
		i = s.take(group, g)
	} else {
		s.Counters = append(s.Counters, Counter[V]{})
	}
	g.Count++
	g.keys++
	s.index[key] = i
	c = &s.Counters[i]
	c.Key, c.Group, c.Count, c.Error = key, group, g.Floor+1, g.Floor
	return c, false
}

// take takes the least counter of the group with the most, which is the group that asks if no
// other has more, and returns its place. No counter has less than the floor of its group: in a
// flood of new keys many have that, and the search ends early.
func (s *Sketch[V]) take(asks uint64, g *Group) int {
	from := asks
	for id, other := range s.Groups {
		if other.keys > g.keys {
			from, g = id, other
		}
	}
	least := -1
	for range s.Counters {
		s.next = (s.next + 1) % len(s.Counters)
		c := &s.Counters[s.next]
		if c.Group != from || least >= 0 && c.Count >= s.Counters[least].Count {
			continue
		}
		if least = s.next; c.Count == g.Floor {
			break
		}
	}
	c := &s.Counters[least]
	delete(s.index, c.Key)
	g.Floor = c.Count
	if g.keys--; g.keys == 0 && from != asks {
		s.Floor = max(s.Floor, g.Count)
		delete(s.Groups, from)
	}
	return least
}
