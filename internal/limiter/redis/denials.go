package redis

import (
	"slices"
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
	start time.Time // other times count from it; earlier than anything that was seen
	calls atomic.Int64
	// newest is when the last call began whose counters may deny; 0 if there was none.
	newest atomic.Int64
	// since is the call number of the last reset of counters. The states of earlier calls are
	// outdated.
	since   atomic.Int64
	seen    *limiter.Recent[seen]
	charged bool // see Options.DenyCharged
}

// denialAge is for how long a counter may deny. In so short a time no clock goes wrong by
// more than a counter's own resolution.
const denialAge = time.Second

// seen is the state of a counter after a call. It is zero if something was given back
// since, and the counter was not seen after that.
type seen struct {
	state  limiter.State
	call   int64         // number of the call
	at     int64         // time of the decision, in microseconds since the epoch
	asked  time.Duration // when the call began, or earlier
	place  int32         // of the request in the call
	denies bool          // the counter is one of a denied request
}

// newDenials returns a memory of about so many bytes, and half as many for counters of
// admitted requests. Without bytes it returns nil, which denies nothing.
func newDenials(bytes int, now func() time.Time) *denials {
	if bytes <= 0 {
		return nil
	}
	return &denials{now: now, start: now().Add(-denialAge), seen: limiter.NewRecent[seen](bytes + bytes/2)}
}

// isFresh reports whether what a call has seen may deny at now. The clock may have stepped.
func isFresh(asked, now time.Duration) bool { return now >= asked && now-asked <= denialAge }

// deny decides hits if they are known to be denied, and reports whether they are: the
// remembered counters deny them, whatever the state of the others is, and no ban changes.
// A request that writes something even if it is denied is for Redis.
func (d *denials) deny(hits []limiter.Hit, out []limiter.Decision) bool {
	if d == nil || d.newest.Load() == 0 {
		return false
	}
	local := d.now().Sub(d.start)
	if local-time.Duration(d.newest.Load()) > denialAge {
		return false
	}
	var knownBuf [16]bool
	var beforeBuf [16]limiter.State
	known, before, now := knownBuf[:0], beforeBuf[:0], int64(0)
	for i := range hits {
		h := &hits[i]
		if h.Unconditional() || h.Hold != nil { // what it writes is not known, or who holds what
			return false
		}
		s := d.last(h.Key)
		known, before = append(known, s.denies && isFresh(s.asked, local)), append(before, s.state)
		if known[i] {
			// Of counters in several places the clocks may differ. With the latest no
			// denial is held on to for too long.
			now = max(now, s.at+(local-s.asked).Microseconds())
		}
	}
	if !slices.Contains(known, true) {
		return false
	}
	states, of := slices.Clone(before), make([]*limiter.State, len(hits))
	for i, first := range limiter.Firsts(hits, nil) {
		of[i] = &states[first]
	}
	if !limiter.Decide(hits, of, nil, now, out) {
		return false
	}
	var v limiter.Verdict
	for i := range out {
		if states[i].Until != before[i].Until {
			return false
		}
		v.Add(hits[i].EffectiveMode(), out[i].Over && known[i])
		out[i].Remembered = out[i].Over
	}
	return v.Denied()
}

// decideUsedUp decides the hits on fixed windows that are known to be used up, returns the
// indexes of the other hits, and reports whether it decided any hit. It decides none if a hit
// depends on others: because it is not charged always, or shares its counter.
func (d *denials) decideUsedUp(hits []limiter.Hit, out []limiter.Decision) (others []int, some bool) {
	if d == nil || !d.charged || d.newest.Load() == 0 {
		return nil, false
	}
	local := d.now().Sub(d.start)
	for i, first := range limiter.Firsts(hits, nil) {
		if !hits[i].Unconditional() || first != i {
			return nil, false
		}
		if !d.isUsedUp(&hits[i], &out[i], local) {
			others = append(others, i)
		}
	}
	return others, len(others) < len(hits)
}

// isUsedUp decides a hit, and reports whether Redis would decide alike, now and later, even if
// it never learns of the hit: a fixed window without a unit left admits nothing until it ends.
func (d *denials) isUsedUp(h *limiter.Hit, out *limiter.Decision, local time.Duration) bool {
	s := d.last(h.Key)
	isFixed := slices.Contains([]limiter.Algorithm{limiter.FixedWindow, limiter.FirstHit, limiter.ByCalendar}, h.Limit.Algorithm)
	if !h.Always || !isFixed || !s.denies || !isFresh(s.asked, local) {
		return false
	}
	state, alone := s.state, make([]limiter.Decision, 1)
	limiter.Decide([]limiter.Hit{*h}, []*limiter.State{&state}, nil, s.at+(local-s.asked).Microseconds(), alone)
	*out = alone[0]
	out.Remembered = true
	return out.Over && out.Used-h.CountedCost() >= int64(h.Limit.Size()) && state.Until == s.state.Until
}

// last returns what was seen last of a counter since it was reset.
func (d *denials) last(key []byte) seen {
	if s := d.seen.Get(key); s.call >= d.since.Load() {
		return s
	}
	return seen{}
}

// reset forgets what calls have seen that began before now: counters were reset, and
// whatever such a call still says of them may be from before that.
func (d *denials) reset() {
	if d != nil {
		raise(&d.since, d.calls.Add(1))
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

// isNews reports whether Redis decided the request of t after last, and after the last reset.
// Calls are in the order of their numbers, requests in their order within the call.
func (d *denials) isNews(t ticket, last *seen) bool {
	call := t.batch.number
	return call >= d.since.Load() && (call > last.call || call == last.call && int32(t.place) >= last.place)
}

// note notes the states of the counters of hits, which are a request or a part of one, after
// its call. Callers may come here in another order than Redis decided. If the request is
// denied, its counters may deny from then on, else those that may already. Holds are not noted:
// anybody may give one back at any time.
func (d *denials) note(t ticket, hits []limiter.Hit, states []limiter.State, denied bool) {
	if d == nil {
		return
	}
	b := t.batch
	asked, denies := b.asked.Sub(d.start), false
	for i := range hits {
		if hits[i].Hold != nil {
			continue
		}
		d.seen.Touch(hits[i].Key, func(last *seen) {
			if d.isNews(t, last) {
				*last = seen{states[i], b.number, b.reply.now, asked, int32(t.place), denied || last.denies && isFresh(last.asked, asked)}
				denies = denies || last.denies
			}
		})
	}
	if denies {
		raise(&d.newest, int64(asked))
	}
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
			s := seen{call: b.number, place: int32(place)}
			if states, err := t.outcomes(make([]limiter.Decision, len(hits)), nil); err == nil {
				s.state = states[i]
			}
			d.seen.Touch([]byte(b.counters[h.counter].key), func(last *seen) {
				if d.isNews(t, last) {
					*last = s
				}
			})
		}
	}
}
