package memstore

import (
	"bytes"
	"hash/maphash"

	"weir/internal/limiter"
)

// request is a request that is being decided. Its memory is used again.
type request struct {
	hits    []limiter.Hit
	asks    []asked          // by hit
	states  []*limiter.State // by hit
	touched uint64           // mask of the shards asked
}

// asked is what a request asks for with one hit.
type asked struct {
	shard   *shard
	hash    uint32
	counter *counter      // nil if there is none yet
	state   limiter.State // of the counter that there is not yet
	again   bool          // an earlier hit asks for the same new counter
}

// start tells which shards have the counters of hits. They may then be locked.
func (r *request) start(s *Store, hits []limiter.Hit) {
	r.hits = hits
	mask := uint64(len(s.shards) - 1)
	for i := range hits {
		hash := maphash.Bytes(s.seed, hits[i].Key)
		r.touched |= 1 << (hash & mask)
		r.asks = append(r.asks, asked{shard: &s.shards[hash&mask], hash: uint32(hash >> 32)})
	}
}

// find finds the counters and their states. Hits of one counter share one state.
func (r *request) find() {
	for i := range r.asks {
		a := &r.asks[i]
		if a.counter = a.shard.find(a.hash, r.hits[i].Key); a.counter != nil {
			r.states = append(r.states, &a.counter.state)
			continue
		}
		first := r.firstOf(i)
		a.again = first != i
		r.states = append(r.states, &r.asks[first].state)
	}
}

// firstOf returns the first hit on the counter of hit i.
func (r *request) firstOf(i int) (first int) {
	for r.asks[first].hash != r.asks[i].hash || !bytes.Equal(r.hits[first].Key, r.hits[i].Key) {
		first++
	}
	return first
}

// keep files the counters as they are after the decision, adds those that are
// new, and drops those that are no longer used, with a few that have expired. It
// tells how many others had to make room.
func (r *request) keep(now int64) (evictions int) {
	// First what was found: counters move when others are added or dropped.
	for i := range r.asks {
		if a := &r.asks[i]; a.counter != nil {
			a.shard.refile(a.counter.place, r.hits[i].Limit.Expiry(a.counter.state))
		}
	}
	for i := range r.asks {
		a := &r.asks[i]
		if a.counter != nil || a.again {
			continue
		}
		expiry := r.hits[i].Limit.Expiry(a.state)
		if expiry > now && a.shard.add(a.hash, r.hits[i].Key, a.state, expiry, now) {
			evictions++
		}
	}
	for i := range r.asks {
		r.asks[i].shard.clear(now, clearedPerHit)
	}
	return evictions
}

// finish forgets the hits and counters.
func (r *request) finish() {
	clear(r.asks)
	clear(r.states)
	*r = request{asks: r.asks[:0], states: r.states[:0]}
}
