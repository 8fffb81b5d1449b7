package memstore

// A shard keeps its counters in the order of their expiry as a heap whose nodes
// have four children each, which lie side by side in memory.

// due says when a counter expires.
type due struct {
	expiry  int64  // when the counter's state no longer matters, in microseconds since the epoch
	table   uint32 // of the shard
	counter uint32 // of the table
}

const children = 4

// nearest returns the counter that expires first. There must be one.
func (s *shard) nearest() due { return *s.order.at(0) }

// file adds a counter to the order.
func (s *shard) file(d due) {
	s.order.grow()
	s.settle(s.order.n-1, d)
}

// refile gives the counter at place another expiry.
func (s *shard) refile(place uint32, expiry int64) {
	if d := *s.order.at(place); d.expiry != expiry {
		d.expiry = expiry
		s.settle(place, d)
	}
}

// unfile takes the counter at place out of the order.
func (s *shard) unfile(place uint32) {
	last := *s.order.at(s.order.n - 1)
	s.order.shrink()
	if place < s.order.n {
		s.settle(place, last)
	}
}

// settle puts d at place, or where it belongs above or below it.
func (s *shard) settle(place uint32, d due) {
	for place > 0 {
		parent := (place - 1) / children
		if s.order.at(parent).expiry <= d.expiry {
			break
		}
		s.put(place, *s.order.at(parent))
		place = parent
	}
	for {
		child, found := s.firstChild(place)
		if !found || s.order.at(child).expiry >= d.expiry {
			break
		}
		s.put(place, *s.order.at(child))
		place = child
	}
	s.put(place, d)
}

// firstChild returns the child of place that expires first.
func (s *shard) firstChild(place uint32) (first uint32, found bool) {
	first = children*place + 1
	end := min(first+children, s.order.n)
	for child := first + 1; child < end; child++ {
		if s.order.at(child).expiry < s.order.at(first).expiry {
			first = child
		}
	}
	return first, first < end
}

// put puts d at place, and tells its counter.
func (s *shard) put(place uint32, d due) {
	*s.order.at(place) = d
	s.tables[d.table].counters.at(d.counter).place = place
}
