// Package sketch finds the most frequent keys with a bounded number of counters.
package sketch

// Sketch counts keys by Space-Saving (Metwally, Agrawal, El Abbadi: Efficient Computation of
// Frequent and Top-k Elements in Data Streams, 2005). When all counters are in use, a new key
// takes over the counter with the least count and continues from that count, which is therefore
// its maximum error.
//
// Each key belongs to a group, and a group with many keys does not displace the keys of others: a
// new key takes over a counter of the group with the most counters. So each of l groups can keep
// size/l counters, and the error of a counter in a group with n counts is at most n·l/size. The
// actual error is usually far smaller, and is kept with each counter.
//
// A Sketch is not safe for concurrent use.
type Sketch[V any] struct {
	// Counters has the counters of the known keys, in no particular order.
	Counters []Counter[V]
	// Groups has the groups with counters.
	Groups map[uint64]*Group
	// Floor is the maximum count of a group without counters.
	Floor uint64

	size  int
	index map[uint64]int // indexes in Counters, by key
	next  int            // index where the last search for the least counter ended
}

// Counter counts a key.
type Counter[V any] struct {
	Key, Group uint64
	Count      uint64 // an upper bound
	Error      uint64 // largest amount by which Count may be too large
	// Value belongs to the caller. When a key takes over a counter, Value is still the previous key's.
	Value V
}

// Group has the sum of a group's counts, including keys without a counter.
type Group struct {
	Count uint64 // an upper bound
	Error uint64 // largest amount by which Count may be too large
	Floor uint64 // maximum count of a key without a counter
	keys  int    // number of counters
}

// New returns a sketch with size counters. It allocates a counter when it is first used.
func New[V any](size int) *Sketch[V] {
	return &Sketch[V]{size: size, Groups: map[uint64]*Group{}, index: map[uint64]int{}}
}

// Find returns the counter of a key, or nil if the key has none. The counter is valid until the next Add.
func (s *Sketch[V]) Find(key uint64) *Counter[V] {
	if i, known := s.index[key]; known {
		return &s.Counters[i]
	}
	return nil
}

// Add counts a key once, and returns its counter, which is valid until the next Add. known reports
// whether the key had a counter already.
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

// take removes the least counter of the group with the most counters, and returns its index. If
// several groups have the most, it prefers the group of the new key. In a flood of new keys many
// counters equal the floor of their group, which is the minimum, so the search ends early.
func (s *Sketch[V]) take(group uint64, g *Group) int {
	from := group
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
	if g.keys--; g.keys == 0 && from != group {
		s.Floor = max(s.Floor, g.Count)
		delete(s.Groups, from)
	}
	return least
}
