package redis

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/limiter"
)

// denials remembers the counters of requests that Redis denied, so that a
// counter known to be over costs no call: for as long as the denial holds, but
// at most for maxAge. It is exact as far as this process can know. Use by
// others only makes a counter fuller, and a denied request takes nothing, so
// that nobody notices whether Redis was asked. What would be noticed lasts for
// maxAge at most: units given back by another process, and a counter that
// was deleted. What this process gives back is known at once.
//
// What is remembered is the states, not the denials: a request is denied if
// limiter.Decide denies it on them. So a limit that was raised, an override or a
// smaller cost is denied only if it does not fit. The other decisions of the answer
// show the last known state of their counters, of admitted requests too. A counter
// that this process has not seen lately shows as unused, so that a client that is
// over does not reach Redis by varying a value.
//
// Redis must know of bans that begin, or are shortened. So a request that does either on
// these states is for Redis.
type denials struct {
	now    func() time.Time
	start  time.Time // newest counts from it
	seed   maphash.Seed
	calls  atomic.Int64
	used   atomic.Int64 // counters remembered, of all shards
	newest atomic.Int64 // from start until all of them are outdated, as a Duration
	// since is the order from which on what a request saw holds: before it, counters
	// were reset.
	since  atomic.Int64
	shards [denialShards]denialShard
	max    int           // bytes of a shard
	maxAge time.Duration // of what is remembered
	// recent holds the last known state of any counter. It denies nothing: it is for
	// the other counters of a denied request.
	recent *limiter.Recent[recentState]
}

// recentState is the state of a counter after a call. It is zero if something was
// given back since, and the counter was not seen after that.
type recentState struct {
	state limiter.State
	order int64 // of the request, see orderOf
}

const (
	// minAge is for how long everything is remembered. For so long no clock goes wrong by
	// more than a counter's own resolution.
	minAge       = time.Second
	denialShards = 16
	// denialBytes is about what a remembered counter takes beside its key.
	denialBytes = 128
)

type denialShard struct {
	mu       sync.Mutex
	counters map[string]remembered
	bytes    int
	// credited is the highest remembered.credited of what was forgotten. Of a counter
	// that is not known, no earlier state is remembered: something may have been
	// given back to it since.
	credited int64
}

// remembered is the state of a counter after a call.
type remembered struct {
	state limiter.State
	at    int64     // time of the decision, in microseconds since the epoch
	asked time.Time // when the call began, by denials.now, or earlier
	order int64     // of the request, see orderOf
	// credited is the order of the last request that gave something back, 0 if
	// none is known. An earlier state is not remembered.
	credited int64
	lasts    time.Duration // until it is outdated
	// unknown is set if something was given back and state is not that after it.
	unknown bool
}

// localClock returns the clock of denials: that of the decisions, if the store has
// one, else this process' own.
func localClock(now func() time.Time) func() time.Time {
	if now == nil {
		return time.Now
	}
	return now
}

// newDenials returns a memory of about so many bytes for at most maxAge, and half as
// many for recent. Without bytes it returns nil, which denies nothing.
func newDenials(bytes int, maxAge time.Duration, now func() time.Time) *denials {
	if bytes <= 0 {
		return nil
	}
	d := &denials{now: now, start: now(), seed: maphash.MakeSeed(), max: bytes / denialShards, maxAge: max(maxAge, minAge), recent: limiter.NewRecent[recentState](bytes / 2)}
	for i := range d.shards {
		d.shards[i].counters = map[string]remembered{}
	}
	return d
}

// deny decides hits if they are known to be denied, and reports whether they are.
// A request that writes something even if it is denied is for Redis.
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
	until int64 // of the state before the decision
	known bool  // well enough to be denied on it
}

// decide decides hits on the known states of their counters, and reports whether
// they are known to be denied. Few hits, which are usual, allocate nothing: the
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
		return limiter.Decide(hits, states, now, out) && deniedByKnown(of, hits, out)
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
	return limiter.Decide(hits, states[:n], now, out) && deniedByKnown(of[:n], hits, out)
}

// recall sets the states of the counters of hits. now is the time of the decision in
// microseconds since the epoch. ok is false if no counter is known, or if a hit must
// go to Redis in any case: what it writes is not known, or who holds what.
func (d *denials) recall(hits []limiter.Hit, local time.Time, of []recalled) (now int64, ok bool) {
	for i := range hits {
		h := &hits[i]
		if h.Unconditional() || h.Hold != nil {
			return 0, false
		}
		s, known := d.lookup(h.Key, local)
		if !known {
			continue
		}
		// Of counters in several places the clocks may differ. With the latest no
		// denial is held on to for too long.
		now, ok = max(now, s.at+s.passed(local).Microseconds()), true
		of[i] = recalled{s.state, s.state.Until, true}
	}
	if ok {
		d.recallOthers(hits, of)
	}
	return now, ok
}

// recallOthers sets the states of the counters that are not known, as last seen.
func (d *denials) recallOthers(hits []limiter.Hit, of []recalled) {
	for i := range of {
		if !of[i].known {
			if seen := d.recent.Get(hits[i].Key); seen.order >= d.since.Load() {
				of[i].state, of[i].until = seen.state, seen.state.Until
			}
		}
	}
}

// deniedByKnown reports whether the known counters deny hits, whatever the state of
// the others is, and no ban changes.
func deniedByKnown(of []recalled, hits []limiter.Hit, out []limiter.Decision) bool {
	var v limiter.Verdict
	for i := range hits {
		if of[i].state.Until != of[i].until {
			return false
		}
		v.Add(hits[i].EffectiveMode(), out[i].Over && of[i].known)
	}
	return v.Denied()
}

// lookup returns a counter that is remembered and not outdated.
func (d *denials) lookup(key []byte, local time.Time) (remembered, bool) {
	shard := d.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	s, ok := shard.counters[string(key)]
	if ok && (s.outdated(local) || s.order < d.since.Load()) {
		d.forget(shard, string(key))
		return s, false
	}
	return s, ok && !s.unknown
}

// outdated reports whether s was seen too long ago, or after now.
func (s remembered) outdated(now time.Time) bool {
	age := s.age(now)
	return age < 0 || age > s.lasts
}

// age is the time since s was seen. Of the two clocks of a process the one that went
// further counts: one stands still while the machine sleeps, the other may be set back.
func (s remembered) age(now time.Time) time.Duration {
	return max(now.Sub(s.asked), now.Round(0).Sub(s.asked.Round(0)))
}

// passed is the time that has passed for Redis since s was seen, or a little more:
// clocks differ by a thousandth at most, twice what time servers may correct. So a
// denial ends too early rather than too late, and then Redis is asked.
func (s remembered) passed(now time.Time) time.Duration {
	age := s.age(now)
	return age + max(0, age-minAge)/1000
}

// lasts is for how long a state of a counter of l is of use: after a period and a ban,
// most limits admit again.
func (d *denials) lasts(l *limiter.Limit) time.Duration {
	return max(minAge, min(d.maxAge, max(l.Period(), l.DenyFor)))
}

// allOutdated reports whether all that is remembered was seen too long ago.
func (d *denials) allOutdated(now time.Time) bool {
	return int64(now.Sub(d.start)) > d.newest.Load()
}

// forgetAll forgets all counters when all are outdated. The first request after that
// does it, so that the next ones have nothing to look for. The order of credits is
// forgotten, too: what was seen before them is outdated.
func (d *denials) forgetAll(now time.Time) {
	for i := range d.shards {
		shard := &d.shards[i]
		shard.mu.Lock()
		if d.allOutdated(now) { // unless a counter was remembered just now
			d.used.Add(-int64(len(shard.counters)))
			shard.counters, shard.bytes = map[string]remembered{}, 0
		}
		shard.mu.Unlock()
	}
}

// reset forgets what calls have seen that began before now: counters were reset, and
// whatever such a call still says of them may be from before that.
func (d *denials) reset() {
	if d == nil {
		return
	}
	since := d.calls.Add(1) << 32
	for last := d.since.Load(); last < since && !d.since.CompareAndSwap(last, since); {
		last = d.since.Load()
	}
}

// number returns the number of a call, in the order of the calls about one counter.
func (d *denials) number() int64 {
	if d == nil {
		return 0
	}
	return d.calls.Add(1)
}

// orderOf returns the order of the request at place of b, among the requests of all
// calls.
func orderOf(b *batch, place int) int64 { return b.number<<32 | int64(place) }

// note notes the states of the counters of hits after the call of b. hits are the
// request at place of b, or the part of one. If the request is denied, all its
// counters are remembered, else those that are known already.
func (d *denials) note(b *batch, place int, hits []limiter.Hit, states []limiter.State, denied bool) {
	if d == nil {
		return
	}
	order := orderOf(b, place)
	if order < d.since.Load() {
		return
	}
	for i := range hits {
		if hits[i].Hold != nil {
			continue
		}
		d.noteRecent(hits[i].Key, recentState{states[i], order})
	}
	if !denied && d.used.Load() == 0 {
		return
	}
	for i := range hits {
		if hits[i].Hold != nil {
			continue // a hold may be given back at any time, by anybody
		}
		key := hits[i].Key
		shard := d.shard(key)
		shard.mu.Lock()
		last, ok := shard.counters[string(key)]
		newest := order >= last.order // callers may come here in another order than Redis decided
		if !ok {
			newest = order >= shard.credited
		}
		if known := ok && !last.unknown; newest && (denied || known) {
			d.remember(shard, key, remembered{state: states[i], at: b.reply.now, asked: b.asked, order: order, credited: last.credited, lasts: d.lasts(hits[i].Limit)})
		}
		shard.mu.Unlock()
	}
}

// noteRecent keeps the state of a counter in recent, unless a later one is there.
func (d *denials) noteRecent(key []byte, s recentState) {
	d.recent.Touch(key, func(last *recentState) {
		if s.order >= last.order {
			*last = s
		}
	})
}

// noteCredits notes the counters to which the call of b gave something back, before
// any caller learns of it. It does so even if the call failed, since Redis may have
// done it: then the state is unknown until a caller notes it.
func (d *denials) noteCredits(b *batch) {
	if d == nil {
		return
	}
	for _, c := range b.credited {
		order := orderOf(b, c.place)
		s := remembered{asked: b.asked, order: order, credited: order, lasts: minAge, unknown: true}
		if b.err == nil {
			out := make([]limiter.Decision, len(b.hitsOf(c.place)))
			if states, err := b.reply.outcomes(c.place, out, nil); err == nil {
				s.state, s.at, s.unknown = states[c.hit], b.reply.now, false
			}
		}
		d.noteRecent(c.key, recentState{s.state, order})
		shard := d.shard(c.key)
		shard.mu.Lock()
		d.remember(shard, c.key, s)
		shard.mu.Unlock()
	}
}

// remember remembers a counter, known or not.
func (d *denials) remember(shard *denialShard, key []byte, s remembered) {
	end := int64(s.asked.Sub(d.start) + s.lasts)
	for newest := d.newest.Load(); newest < end && !d.newest.CompareAndSwap(newest, end); {
		newest = d.newest.Load()
	}
	if _, ok := shard.counters[string(key)]; !ok {
		d.makeRoom(shard, len(key)+denialBytes)
	}
	shard.counters[string(key)] = s
}

// forget forgets a counter, but not that something was given back to it.
func (d *denials) forget(shard *denialShard, key string) {
	shard.credited = max(shard.credited, shard.counters[key].credited)
	delete(shard.counters, key)
	shard.bytes -= len(key) + denialBytes
	d.used.Add(-1)
}

// makeRoom makes room for one more counter of so many bytes. It forgets outdated
// ones, of which it looks for a few only, and others while there is no room.
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
