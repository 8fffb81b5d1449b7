package memstore

import (
	"bytes"

	"weir/internal/limiter"
)

// asked is what a request asks for with one of its hits.
type asked struct {
	shard   *shard
	counter *counter       // nil if there is none yet
	state   *limiter.State // of the counter, or what it will be
	hash    uint32         // of the key
	again   bool           // an earlier hit asks for the same new counter
}

// find finds the counters of hits and appends their states, unused ones where
// there is no counter yet. Hits of one counter share one state.
func find(hits []limiter.Hit, asks []asked, states []*limiter.State) []*limiter.State {
	var unused []limiter.State
	for i := range hits {
		a := &asks[i]
		if a.counter = a.shard.find(a.hash, hits[i].Key); a.counter != nil {
			a.state = &a.counter.state
		} else if first := firstOf(hits, asks, i); first < i {
			a.state, a.again = asks[first].state, true
		} else {
			if unused == nil {
				unused = make([]limiter.State, len(hits)-i)
			}
			a.state, unused = &unused[0], unused[1:]
		}
		states = append(states, a.state)
	}
	return states
}

// firstOf returns the first hit with the key of hit i.
func firstOf(hits []limiter.Hit, asks []asked, i int) (first int) {
	for asks[first].hash != asks[i].hash || !bytes.Equal(hits[first].Key, hits[i].Key) {
		first++
	}
	return first
}

// keep files the counters of hits as they are after the decision, adds those that
// are new, and drops those that are no longer used. It tells how many others had
// to make room.
func keep(hits []limiter.Hit, asks []asked, now int64) (evictions int) {
	// First what was found: counters move when others are added or dropped.
	moves := false
	for i := range asks {
		a := &asks[i]
		if a.counter == nil {
			moves = true
			continue
		}
		expiry := hits[i].Limit.Expiry(*a.state)
		a.shard.refile(a.counter.place, expiry)
		moves = moves || expiry <= now
	}
	if !moves {
		return 0
	}
	for i := range asks {
		a := &asks[i]
		if a.counter != nil || a.again {
			continue
		}
		expiry := hits[i].Limit.Expiry(*a.state)
		if expiry > now && a.shard.add(a.hash, hits[i].Key, *a.state, expiry, now) {
			evictions++
		}
	}
	for i := range asks {
		asks[i].shard.clear(now, 1) // those no longer used expire before all others
	}
	return evictions
}
