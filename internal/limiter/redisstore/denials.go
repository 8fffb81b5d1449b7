package redisstore

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/limiter"
)

// denials remembers the counters of requests that Redis denied, so that a
// counter known to be over costs no call: for as long as the denial holds, but
// at most for maxMemory. It is exact as far as this process can know. Use by
// others only makes a counter fuller, and a denied request takes nothing, so
// that nobody notices whether Redis was asked. What would be noticed lasts for
// maxMemory at most: units given back by another process, and a counter that
// somebody deleted. What this process gives back is known at once.
//
// What is remembered is the states, not the denials: a request is denied if
// limiter.Decide denies it on them. So a limit that was raised, an override or a
// smaller cost is denied only if it does not fit. The other decisions of the answer
// tell what this process saw last of their counters, admitted requests included: a
// counter that it has not seen lately is told as unused, so that nobody who is over
// reaches Redis by varying a value.
type denials struct {
	now    func() time.Time
	start  time.Time // from which lasts is counted
	seed   maphash.Seed
	calls  atomic.Int64
	used   atomic.Int64 // counters remembered, of all shards
	lasts  atomic.Int64 // the Duration from start after which all of them are outdated
	shards [denialShards]denialShard
	max    int // bytes of a shard
	// lately is what was seen last of any counter. It denies nothing: it is for what
	// a denied request is told of its other counters.
	lately *limiter.Recent[sighting]
}

// sighting is a counter as a call left it, as good as unused if nobody has seen it
// since something was given back.
type sighting struct {
	state limiter.State
	order int64 // of the requests on the counter
}

const (
	maxMemory    = time.Second
	denialShards = 16
	// denialBytes is about what a remembered counter takes beside its key.
	denialBytes = 128
)

type denialShard struct {
	mu       sync.Mutex
	counters map[string]seen
	bytes    int
	// loosened is the highest seen.loosened of what was forgotten. What a call saw
	// before that is not remembered of a counter that is not known: it may be one
	// of those to which something was given back since.
	loosened int64
}

// remember remembers a counter, known or not.
func (d *denials) remember(shard *denialShard, key []byte, s seen) {
	end := int64(s.asked.Sub(d.start) + maxMemory)
	for lasts := d.lasts.Load(); lasts < end && !d.lasts.CompareAndSwap(lasts, end); {
		lasts = d.lasts.Load()
	}
	if _, known := shard.counters[string(key)]; !known {
		d.makeRoom(shard, len(key)+denialBytes)
	}
	shard.counters[string(key)] = s
}

// forget forgets a counter.
func (d *denials) forget(shard *denialShard, key string) {
	shard.loosened = max(shard.loosened, shard.counters[key].loosened)
	delete(shard.counters, key)
	shard.bytes -= len(key) + denialBytes
	d.used.Add(-1)
}

// seen is a counter as a call saw it.
type seen struct {
	state limiter.State
	at    int64     // when, in microseconds since the epoch by the clock of the decision
	asked time.Time // when the call began, by this process' clock, which is not later
	order int64     // of the requests on the counter
	// loosened is the order of the last request that gave something back, 0 if
	// none is known: what others saw before that is wrong.
	loosened int64
	// unknown tells that state is not what is in the counter: nobody has seen it
	// since something was given back.
	unknown bool
}

// localClock is the clock of what is remembered: that of the decisions, if the
// store has one, or this process'.
func localClock(now func() time.Time) func() time.Time {
	if now == nil {
		return time.Now
	}
	return now
}

// newDenials remembers in about so many bytes, and in half as many what was seen
// lately. Without bytes there is no memory: nil, which denies nothing.
func newDenials(bytes int, now func() time.Time) *denials {
	if bytes <= 0 {
		return nil
	}
	d := &denials{now: now, start: now(), seed: maphash.MakeSeed(), max: bytes / denialShards, lately: limiter.NewRecent[sighting](bytes / 2)}
	for i := range d.shards {
		d.shards[i].counters = map[string]seen{}
	}
	return d
}

// deny decides hits if they are known to be denied, and tells whether they are.
// A request that writes something even so is for Redis.
func (d *denials) deny(hits []limiter.Hit, out []limiter.Decision) bool {
	if d == nil || d.used.Load() == 0 {
		return false
	}
	local := d.now()
	if d.allOutdated(local) {
		d.forgetAll(local)
		return false
	}
	if !d.decide(hits, local, out) {
		return false
	}
	for i := range out {
		out[i].Remembered = out[i].Over
	}
	return true
}

// recalled is the state of a hit's counter.
type recalled struct {
	state limiter.State
	known bool // well enough to be denied on it
}

// decide decides hits on what was seen of their counters, and tells whether they
// are known to be denied. Few hits, which are the usual, take no memory: the
// arrays stay on the stack as long as no slice holds a pointer into them.
func (d *denials) decide(hits []limiter.Hit, local time.Time, out []limiter.Decision) (denied bool) {
	const few = 16
	n := len(hits)
	if n > few {
		of := make([]recalled, n)
		now, ok := d.recall(hits, local, of)
		if !ok {
			return false
		}
		counters, states := limiter.CountersOf(hits), make([]*limiter.State, n)
		for i := range states {
			states[i] = &of[counters.First(i)].state
		}
		return limiter.Decide(hits, states, now, out) && restsOn(of, hits, out)
	}
	var of [few]recalled
	now, ok := d.recall(hits, local, of[:n])
	if !ok {
		return false
	}
	counters, states := limiter.CountersOf(hits), [few]*limiter.State{}
	for i := range n {
		states[i] = &of[counters.First(i)].state
	}
	return limiter.Decide(hits, states[:n], now, out) && restsOn(of[:n], hits, out)
}

// recall recalls the counters of hits. now is the time of the decision in
// microseconds since the epoch; ok is false if none of them was seen, or if a hit
// is for Redis whatever is known.
func (d *denials) recall(hits []limiter.Hit, local time.Time, of []recalled) (now int64, ok bool) {
	for i := range hits {
		h := &hits[i]
		if h.Unconditional() {
			return 0, false
		}
		s, known := d.seen(h.Key, local)
		if !known {
			continue
		}
		// Of counters in several places the clocks may differ. With the latest no
		// denial is held on to for too long.
		now, ok = max(now, s.at+local.Sub(s.asked).Microseconds()), true
		of[i] = recalled{s.state, true}
	}
	if ok {
		d.recallOthers(hits, of)
	}
	return now, ok
}

// recallOthers recalls what was seen lately of the counters that are not known.
func (d *denials) recallOthers(hits []limiter.Hit, of []recalled) {
	for i := range of {
		if !of[i].known {
			of[i].state = d.lately.Get(hits[i].Key).state
		}
	}
}

// restsOn tells whether hits are denied for the counters that are known, whatever
// is in the others.
func restsOn(of []recalled, hits []limiter.Hit, out []limiter.Decision) bool {
	var v limiter.Verdict
	for i := range hits {
		v.Add(hits[i].EffectiveMode(), out[i].Over && of[i].known)
	}
	return v.Denied()
}

// seen finds a counter that was seen in the last maxMemory.
func (d *denials) seen(key []byte, local time.Time) (seen, bool) {
	shard := d.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	s, ok := shard.counters[string(key)]
	if ok && s.outdated(local) {
		d.forget(shard, string(key))
		return s, false
	}
	return s, ok && !s.unknown
}

// outdated tells whether s was seen too long ago, or after now.
func (s seen) outdated(now time.Time) bool {
	age := now.Sub(s.asked)
	return age < 0 || age > maxMemory
}

// allOutdated tells whether all that is remembered was seen too long ago.
func (d *denials) allOutdated(now time.Time) bool {
	return int64(now.Sub(d.start)) > d.lasts.Load()
}

// forgetAll forgets what is outdated all at once: the first request after that
// does it, so that those that follow need not look for anything. Where something
// was given back need not be kept: what was seen before that is outdated, too.
func (d *denials) forgetAll(now time.Time) {
	for i := range d.shards {
		shard := &d.shards[i]
		shard.mu.Lock()
		if d.allOutdated(now) { // unless somebody remembered something just now
			d.used.Add(-int64(len(shard.counters)))
			shard.counters, shard.bytes = map[string]seen{}, 0
		}
		shard.mu.Unlock()
	}
}

// number numbers a call, in the order in which calls about one counter are made.
func (d *denials) number() int64 {
	if d == nil {
		return 0
	}
	return d.calls.Add(1)
}

// orderOf is the order of a request among those of all calls.
func orderOf(b *batch, place int) int64 { return b.number<<32 | int64(place) }

// note takes note of what the call of b did to the counters of hits, which are a
// request or a part of one, at a place in it: it remembers them if the request is
// denied, and follows those that it knew already. What it saw lately it keeps anyway.
func (d *denials) note(b *batch, place int, hits []limiter.Hit, states []limiter.State, denied bool) {
	if d == nil {
		return
	}
	order := orderOf(b, place)
	for i := range hits {
		d.sight(hits[i].Key, sighting{states[i], order})
	}
	if !denied && d.used.Load() == 0 {
		return
	}
	for i := range hits {
		key := hits[i].Key
		shard := d.shard(key)
		shard.mu.Lock()
		known, ok := shard.counters[string(key)]
		newest := order >= known.order // the callers of two requests may come here in another order
		if !ok {
			newest = order >= shard.loosened
		}
		if follows := ok && !known.unknown; newest && (denied || follows) {
			d.remember(shard, key, seen{state: states[i], at: b.reply.now, asked: b.asked, order: order, loosened: known.loosened})
		}
		shard.mu.Unlock()
	}
}

// sight keeps what was seen of a counter, unless something later is known.
func (d *denials) sight(key []byte, s sighting) {
	d.lately.Touch(key, func(last *sighting) {
		if s.order >= last.order {
			*last = s
		}
	})
}

// loosen forgets the counters to which the call of b gave something back,
// whoever waits for it, and even if it failed: it may have been done.
func (d *denials) loosen(b *batch) {
	if d == nil {
		return
	}
	for _, l := range b.loosened {
		shard, order := d.shard(l.key), orderOf(b, l.place)
		d.sight(l.key, sighting{order: order})
		shard.mu.Lock()
		if known, ok := shard.counters[string(l.key)]; !ok || known.order < order {
			d.remember(shard, l.key, seen{asked: b.asked, order: order, loosened: order, unknown: true})
		}
		shard.mu.Unlock()
	}
}

// makeRoom makes room for one more counter of so many bytes. It forgets some
// that are outdated, if it meets them soon, and others while there is no room.
func (d *denials) makeRoom(shard *denialShard, bytes int) {
	const tries = 8
	tried, now := 0, d.now()
	for key, s := range shard.counters { // in random order
		full := shard.bytes+bytes > d.max
		if tried++; tried > tries && !full {
			break
		}
		if full || s.outdated(now) {
			d.forget(shard, key)
		}
	}
	shard.bytes += bytes
	d.used.Add(1)
}

func (d *denials) shard(key []byte) *denialShard {
	return &d.shards[maphash.Bytes(d.seed, key)%denialShards]
}
