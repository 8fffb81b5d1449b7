package memory

import "weir/internal/limiter"

// What the holds of a counter weigh, in counters, by the memory that they take: of a
// counter that has any, and of each of them.
const (
	someHolds = 4
	oneHold   = 1
)

// holds are the holds of one counter, and what they weighed when a request kept them.
type holds struct {
	*limiter.Holds
	weight uint32
}

// holdsOf returns the holds of the counters of hits that name one, nil if none does.
func (r *request) holdsOf() (list []*limiter.Holds) {
	for i := range r.hits {
		h := &r.hits[i]
		if h.Hold == nil {
			continue
		}
		if list == nil {
			list = make([]*limiter.Holds, len(r.hits))
		}
		s := r.asks[i].shard
		if s.holds == nil {
			s.holds = make(map[string]*holds)
		}
		of := s.holds[string(h.Key)]
		if of == nil {
			of = &holds{Holds: limiter.NewHolds(h.Limit)}
			s.holds[string(h.Key)] = of
		}
		list[i] = of.Holds
	}
	return list
}

// keepHolds weighs the holds of the hits' counters and forgets those of counters that
// have none. It returns how many counters had to make room.
func (r *request) keepHolds(now int64) (evictions int) {
	for i := range r.hits {
		s, of := r.asks[i].shard, (*holds)(nil)
		if r.hits[i].Hold != nil {
			of = s.holds[string(r.hits[i].Key)]
		}
		switch {
		case of == nil: // names none, or was dropped to make room
		case of.Len() == 0:
			s.forgetHolds(r.hits[i].Key)
		default:
			weight := someHolds + oneHold*uint32(of.Len())
			s.held, of.weight = s.held+weight-of.weight, weight
			for s.n > 0 && s.size() > s.max {
				if s.makeRoom(now) {
					evictions++
				}
			}
		}
	}
	return evictions
}

// forgetHolds forgets the holds of a counter, if it has any.
func (s *shard) forgetHolds(key []byte) {
	if of := s.holds[string(key)]; of != nil {
		s.held -= of.weight
		delete(s.holds, string(key))
	}
}

// size is how many counters there are, with what their holds weigh.
func (s *shard) size() uint32 { return s.n + s.held }
