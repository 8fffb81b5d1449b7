package redis

import (
	"slices"
	"sync/atomic"
	"time"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/queue"
)

// memo remembers the counters of requests that Redis denied, so a used-up counter costs no call
// while the denial applies, for at most memoAge. Redis would give the same answers, because other
// servers only make a counter fuller and a denied request charges nothing. Answers may differ for
// at most memoAge after another server refunded units or deleted a counter. Refunds of this server
// take effect immediately.
//
// It remembers states of counters, not denials: a request is denied if limiter.Decide denies it by
// the remembered states, so a raised limit applies immediately. The decisions on its other counters
// show the last known states. A counter that this server has not seen recently is shown as unused,
// so that a client over its limit cannot reach Redis by varying another value. A request that would
// begin or shorten a ban goes to Redis.
type memo struct {
	now     func() time.Time
	start   time.Time             // origin of the other times, earlier than all of them
	calls   atomic.Int64          // number of the last call or reset
	newest  atomic.Int64          // start of the last call that denied a request, in nanoseconds after start, 0 if there was none
	since   atomic.Int64          // number of the first call after the last reset; states of earlier calls are ignored
	seen    *limiter.Recent[seen] // nil to remember nothing
	charged bool                  // see Options.DenyCharged
}

// memoAge limits the time for which a remembered state denies. Clocks do not drift noticeably in
// this time.
const memoAge = time.Second

// seen is the state of a counter after a call. The state is zero if a refund left it unknown.
type seen struct {
	state   limiter.State
	call    int64         // number of the call
	at      int64         // time of the decision, in microseconds since the epoch
	began   time.Duration // start of the call, measured from memo.start; 0 after a refund
	request int32         // index of the request in the call
	denies  bool          // the request, or a recent earlier one on the counter, was denied
}

// newMemo returns a memo with about the given bytes for counters of denied requests, and half as
// many for other counters. If bytes is not positive, the memo remembers nothing and so denies
// nothing.
func newMemo(bytes int, charged bool, now func() time.Time) *memo {
	m := &memo{now: now, start: now().Add(-memoAge), charged: charged}
	if bytes > 0 {
		m.seen = limiter.NewRecent[seen](bytes + bytes/2)
	}
	return m
}

// isFresh reports whether a state from a call that began at began may deny at now. It returns
// false if the clock has stepped back in between.
func isFresh(began, now time.Duration) bool { return now >= began && now-began <= memoAge }

// deny reports whether the remembered counters alone deny the request, regardless of the states of
// its other counters, and if so fills in out. It returns false if the denial would start or change
// a ban, or if a hit is charged even if its request is denied, or has uses.
func (m *memo) deny(hits []limiter.Hit, out []limiter.Decision) bool {
	if m.newest.Load() == 0 {
		return false
	}
	local := m.now().Sub(m.start)
	if local-time.Duration(m.newest.Load()) > memoAge {
		return false
	}
	var knownBuf [16]bool
	var beforeBuf [16]limiter.State
	known, before, now := knownBuf[:0], beforeBuf[:0], int64(0)
	for i := range hits {
		h := &hits[i]
		if h.Unconditional() || h.HasUses() { // Redis must charge it, or only Redis knows the uses
			return false
		}
		s := m.last(h.Key)
		known, before = append(known, s.denies && isFresh(s.began, local)), append(before, s.state)
		if known[i] {
			// The clocks of several locations may differ. With the latest of the times, no
			// denial applies for too long.
			now = max(now, s.at+(local-s.began).Microseconds())
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
		v.Add(hits[i].EffectiveMode(), hits[i].Group, out[i].Over && known[i])
		out[i].Remembered = out[i].Over
	}
	return v.Denied()
}

// decideUsedUp decides the hits on fixed windows that are known to be used up. It returns the
// indexes of the other hits, and whether it decided any hit. It decides none if hits depend on
// each other: if one of them is not always charged, or if two are on the same counter.
func (m *memo) decideUsedUp(hits []limiter.Hit, out []limiter.Decision) (others []int, some bool) {
	if !m.charged || m.newest.Load() == 0 {
		return nil, false
	}
	local := m.now().Sub(m.start)
	for i, first := range limiter.Firsts(hits, nil) {
		if !hits[i].Unconditional() || first != i {
			return nil, false
		}
		if !m.isUsedUp(&hits[i], &out[i], local) {
			others = append(others, i)
		}
	}
	return others, len(others) < len(hits)
}

// isUsedUp decides a hit and reports whether Redis need not count it. Counting it would not change
// any decision: a used-up fixed window admits nothing until it ends.
func (m *memo) isUsedUp(h *limiter.Hit, out *limiter.Decision, local time.Duration) bool {
	s := m.last(h.Key)
	isFixed := slices.Contains([]limiter.Algorithm{limiter.FixedWindow, limiter.FirstHit, limiter.ByCalendar}, h.Limit.Algorithm)
	if !h.Always || !isFixed || !s.denies || !isFresh(s.began, local) {
		return false
	}
	state, alone := s.state, make([]limiter.Decision, 1)
	limiter.Decide([]limiter.Hit{*h}, []*limiter.State{&state}, nil, s.at+(local-s.began).Microseconds(), alone)
	*out = alone[0]
	out.Remembered = true
	return out.Over && out.Used-h.CountedCost() >= int64(h.Limit.Size()) && state.Until == s.state.Until
}

// last returns the last state of a counter from a call after the last reset, or a zero value.
func (m *memo) last(key []byte) seen {
	if s := m.seen.Get(key); s.call >= m.since.Load() {
		return s
	}
	return seen{}
}

// reset forgets the states of all calls that have begun, because counters were reset. Calls in
// flight may still return states from before the reset.
func (m *memo) reset() { raise(&m.since, m.calls.Add(1)) }

// raise sets a to n if n is larger.
func raise(a *atomic.Int64, n int64) {
	for last := a.Load(); last < n && !a.CompareAndSwap(last, n); {
		last = a.Load()
	}
}

// isNews reports whether the request of t was decided later than *last, and after the last reset.
// Redis decides calls in the order of their numbers, and requests in their order in the call.
func (m *memo) isNews(t queue.Ticket, last *seen) bool {
	call := t.Call.Number
	return call >= m.since.Load() && (call > last.call || call == last.call && int32(t.Request) >= last.request)
}

// note remembers the states of the counters of a request, or of a part of a request, after its
// call. Calls of note need not be in the order in which Redis decided the requests. After note, the
// counters of a denied request may deny other requests. Counters with uses are not remembered,
// because any server may release a hold, and a state does not tell when each use of a log expires.
func (m *memo) note(t queue.Ticket, hits []limiter.Hit, states []limiter.State, denied bool) {
	if m.seen == nil {
		return
	}
	began, denies := t.Call.Began.Sub(m.start), false
	for i := range hits {
		if hits[i].HasUses() {
			continue
		}
		m.seen.Touch(hits[i].Key, func(last *seen) {
			if m.isNews(t, last) {
				*last = seen{states[i], t.Call.Number, t.Call.Reply.Now, began, int32(t.Request), denied || last.denies && isFresh(last.began, began)}
				denies = denies || last.denies
			}
		})
	}
	if denies {
		raise(&m.newest, int64(began))
	}
}

// noteCredits replaces the states of counters that a call has lowered, before any caller learns
// of the call. If the call failed, the states are forgotten, because Redis may have lowered the
// counters.
func (m *memo) noteCredits(c *queue.Call) {
	if m.seen == nil {
		return
	}
	c.Batch.Credits(func(request, hits, hit int, key string) {
		t, s := queue.Ticket{Call: c, Request: request}, seen{call: c.Number, request: int32(request)}
		if states, err := t.Outcomes(make([]limiter.Decision, hits), nil); err == nil {
			s.state = states[hit]
		}
		m.seen.Touch([]byte(key), func(last *seen) {
			if m.isNews(t, last) {
				*last = s
			}
		})
	})
}
