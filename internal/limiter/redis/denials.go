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
// at most for denialAge. It is exact as far as this process can know. Other
// servers only make a counter fuller, and a denied request takes nothing. So the
// answer is the one that Redis would give. What differs does so for denialAge at
// most: units given back by another process, and a counter that was deleted.
// What this process gives back is known at once.
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
	now   func() time.Time
	start time.Time // newest counts from it; earlier than anything that was seen
	seed  maphash.Seed
	calls atomic.Int64
	// newest is when the last of what is remembered was seen, as a Duration from start; 0 if
	// nothing is.
	newest atomic.Int64
	// since is the order from which on what a request saw holds: before it, counters
	// were reset.
	since  atomic.Int64
	shards [denialShards]denialShard
	max    int // bytes of a shard
	// recent holds the last known state of any counter. It denies nothing: it is for
	// the other counters of a denied request.
	recent  *limiter.Recent[recentState]
	recalls sync.Pool // of *recall
}

const (
	// denialAge is for how long a counter is remembered. In so short a time no clock goes
	// wrong by more than a counter's own resolution.
	denialAge    = time.Second
	denialShards = 16
	// denialBytes is about what a remembered counter takes beside its key.
	denialBytes = 120
)

type denialShard struct {
	mu       sync.Mutex
	counters map[string]remembered
	bytes    int
	// credited is the order of the last request that gave something back. No earlier
	// state of a counter is remembered anew.
	credited int64
}

// remembered is the state of a counter after a call.
type remembered struct {
	recentState
	at    int64     // time of the decision, in microseconds since the epoch
	asked time.Time // when the call began, by denials.now, or earlier
}

// recentState is the state of a counter after a call. It is zero if something was
// given back since, and the counter was not seen after that.
type recentState struct {
	state limiter.State
	order int64 // of the request, see orderOf
}

// newDenials returns a memory of about so many bytes, and half as many for recent. Without
// bytes it returns nil, which denies nothing. now is the clock of the decisions, if the store
// has one; nil is that of this process.
func newDenials(bytes int, now func() time.Time) *denials {
	if bytes <= 0 {
		return nil
	}
	now = localClock(now)
	d := &denials{now: now, start: now().Add(-denialAge), seed: maphash.MakeSeed(), max: bytes / denialShards, recent: limiter.NewRecent[recentState](bytes / 2)}
	d.recalls.New = func() any { return new(recall) }
	for i := range d.shards {
		d.shards[i].counters = map[string]remembered{}
	}
	return d
}

// localClock returns now, or the clock of this process if that is nil.
func localClock(now func() time.Time) func() time.Time {
	if now == nil {
		return time.Now
	}
	return now
}

// recall is what is known of the counters of a request.
type recall struct {
	known  []bool          // well enough to be denied on it
	before []limiter.State // the decision
	states []limiter.State
	of     []*limiter.State // of each hit, that of its counter
}

// deny decides hits if they are known to be denied, and reports whether they are: the
// remembered counters deny them, whatever the state of the others is, and no ban changes.
// A request that writes something even if it is denied is for Redis.
func (d *denials) deny(hits []limiter.Hit, out []limiter.Decision) bool {
	if d == nil || d.newest.Load() == 0 {
		return false
	}
	local := d.now()
	if d.allOutdated(local) {
		return false
	}
	r := d.recalls.Get().(*recall)
	defer d.recalls.Put(r)
	r.known, r.before, r.of = r.known[:0], r.before[:0], r.of[:0]
	now, any := int64(0), false
	for i := range hits {
		h := &hits[i]
		if h.Unconditional() || h.Hold != nil { // what it writes is not known, or who holds what
			return false
		}
		s, known := d.lookup(h.Key, local)
		if known {
			// Of counters in several places the clocks may differ. With the latest no
			// denial is held on to for too long.
			now, any = max(now, s.at+local.Sub(s.asked).Microseconds()), true
		}
		r.known, r.before = append(r.known, known), append(r.before, s.state)
	}
	if !any {
		return false
	}
	for i := range hits {
		if !r.known[i] {
			if seen := d.recent.Get(hits[i].Key); seen.order >= d.since.Load() {
				r.before[i] = seen.state
			}
		}
	}
	r.states = append(r.states[:0], r.before...)
	counters := limiter.CountersOf(hits)
	for i := range hits {
		r.of = append(r.of, &r.states[counters.First(i)])
	}
	if !limiter.Decide(hits, r.of, nil, now, out) {
		return false
	}
	var v limiter.Verdict
	for i := range out {
		if r.states[i].Until != r.before[i].Until {
			return false
		}
		v.Add(hits[i].EffectiveMode(), out[i].Over && r.known[i])
		out[i].Remembered = out[i].Over
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
		shard.forget(string(key))
		return remembered{}, false
	}
	return s, ok
}

// outdated reports whether s was seen too long ago, or after now.
func (s *remembered) outdated(now time.Time) bool {
	age := now.Sub(s.asked)
	return age < 0 || age > denialAge
}

// allOutdated reports whether all that is remembered was seen too long ago.
func (d *denials) allOutdated(now time.Time) bool {
	return now.Sub(d.start)-time.Duration(d.newest.Load()) > denialAge
}

// reset forgets what calls have seen that began before now: counters were reset, and
// whatever such a call still says of them may be from before that.
func (d *denials) reset() {
	if d != nil {
		raise(&d.since, d.calls.Add(1)<<32)
	}
}

// raise sets a to n, unless it is more already.
func raise(a *atomic.Int64, n int64) {
	for last := a.Load(); last < n && !a.CompareAndSwap(last, n); {
		last = a.Load()
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
func orderOf(t ticket) int64 { return t.batch.number<<32 | int64(t.place) }

// note notes the states of the counters of hits, which are a request or a part of one, after
// its call. If the request is denied, all its
// counters are remembered, else those that are known already. Holds are not: anybody may
// give one back at any time.
func (d *denials) note(t ticket, hits []limiter.Hit, states []limiter.State, denied bool) {
	if d == nil {
		return
	}
	b, order := t.batch, orderOf(t)
	if order < d.since.Load() {
		return
	}
	remembers := denied || !d.allOutdated(b.asked)
	for i := range hits {
		if hits[i].Hold != nil {
			continue
		}
		s := recentState{states[i], order}
		d.noteRecent(hits[i].Key, s)
		if remembers {
			d.remember(hits[i].Key, remembered{s, b.reply.now, b.asked}, denied)
		}
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

// noteCredits notes that the call of b gave something back to counters, before any caller
// learns of it, and even if the call failed, since Redis may have done it: what was known of
// them is forgotten.
func (d *denials) noteCredits(b *batch) {
	if d == nil {
		return
	}
	for place := range b.ends {
		t, hits := ticket{b, place}, b.hitsOf(place)
		for i, h := range hits {
			if !b.credits(h) {
				continue
			}
			var state limiter.State
			if states, err := t.outcomes(make([]limiter.Decision, len(hits)), nil); err == nil {
				state = states[i]
			}
			d.noteCredit(b.counters[h.counter].key, recentState{state, orderOf(t)})
		}
	}
}

// noteCredit notes that something was given back to a counter.
func (d *denials) noteCredit(key string, s recentState) {
	d.noteRecent([]byte(key), s)
	shard := d.shard([]byte(key))
	shard.mu.Lock()
	defer shard.mu.Unlock()
	shard.credited = max(shard.credited, s.order)
	if last, ok := shard.counters[key]; ok && last.order < s.order {
		shard.forget(key)
	}
}

// remember remembers a counter, or only what is new of it if it is not anew. Callers may
// come here in another order than Redis decided.
func (d *denials) remember(key []byte, s remembered, anew bool) {
	shard := d.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	last, known := shard.counters[string(key)]
	if known && s.order < last.order || !known && (!anew || s.order < shard.credited) {
		return
	}
	raise(&d.newest, int64(s.asked.Sub(d.start)))
	if !known {
		d.makeRoom(shard, len(key)+denialBytes)
	}
	shard.counters[string(key)] = s
}

// forget forgets a counter. The shard is locked.
func (s *denialShard) forget(key string) {
	delete(s.counters, key)
	s.bytes -= len(key) + denialBytes
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
			shard.forget(key)
		}
	}
	shard.bytes += bytes
}

func (d *denials) shard(key []byte) *denialShard {
	return &d.shards[maphash.Bytes(d.seed, key)%denialShards]
}
