package memory

import "weir/internal/limiter"

// asked is what a request asks for with one of its hits.
type asked struct {
	shard   *shard
	counter *counter       // nil if there is none yet
	state   *limiter.State // of the counter, or what it will be
	expiry  int64          // of the counter, if it lends its state to this hit
	hash    uint32         // of the key
	lends   bool           // the counter lends its state to this hit
	again   bool           // an earlier hit asks for the same new counter
}

// request is one request while it is decided.
type request struct {
	hits    []limiter.Hit
	out     []limiter.Decision
	asks    []asked          // of each hit
	after   []limiter.State  // of each hit's counter, once it is decided
	holds   []*limiter.Holds // of each hit's counter; nil if no hit names one
	touched uint64           // the shards of the counters, as a mask
}

// find finds the counters of the hits and appends their states, unused ones where
// there is no counter yet. Hits of one counter share one state.
func (r *request) find(states []*limiter.State) []*limiter.State {
	var unused []limiter.State
	counters := limiter.CountersOf(r.hits)
	for i := range r.asks {
		a := &r.asks[i]
		if a.counter = a.shard.find(a.hash, r.hits[i].Key); a.counter != nil {
			if a.lends = a.counter.is&lent == 0; a.lends {
				a.expiry = a.shard.lend(a.counter)
			}
			a.state = &a.counter.state
		} else if first := counters.First(i); first < i {
			a.state, a.again = r.asks[first].state, true
		} else {
			if unused == nil {
				unused = make([]limiter.State, len(r.hits)-i)
			}
			a.state, unused = &unused[0], unused[1:]
		}
		states = append(states, a.state)
	}
	return states
}

// keep files the counters of the hits as they are after the decision, adds those that
// are new, and drops those that are no longer used. It returns how many others had
// to make room.
func (r *request) keep(now int64) (evictions int) {
	// First what was found: counters move when others are added or dropped.
	moves := false
	for i := range r.asks {
		a := &r.asks[i]
		if a.counter == nil {
			moves = true
			continue
		}
		if a.lends {
			a.shard.takeBack(a.counter, a.expiry)
		}
		v := r.value(i, now)
		a.shard.asked(a.counter, v, now)
		moves = moves || v.expiry <= now
	}
	if !moves {
		return 0
	}
	for i := range r.asks {
		a := &r.asks[i]
		if a.counter != nil || a.again {
			continue
		}
		v := r.value(i, now)
		if v.expiry > now && a.shard.add(a.hash, r.hits[i].Key, *a.state, v, now) {
			evictions++
		}
	}
	for i := range r.asks {
		r.asks[i].shard.clear(now, 1) // those no longer used expire before all others
	}
	return evictions
}

// value returns what the counter of hit i is kept for.
func (r *request) value(i int, now int64) value {
	limit, state := r.hits[i].Limit, r.after[i]
	v := value{limit.Expiry(state), limit.DeniesUntil(state, now)}
	if v.until > 0 && r.holds != nil && r.holds[i] != nil {
		v.until = r.holds[i].FirstEnd()
	}
	return v
}
