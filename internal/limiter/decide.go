package limiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// Store keeps counters and decides requests on them.
type Store interface {
	// Decide does for the counters of hits what the function Decide says, in one
	// atomic step: no other request, of this process or another one on the same
	// counters, is decided in between. It fills out, which is as long as hits,
	// and reports whether the request is denied.
	//
	// ctx bounds how long the caller waits, not what happens: a request that the store has
	// taken on is decided and written even if its caller has gone. One whose caller had gone
	// before is not, see Left. After an error, which wraps ErrUnavailable if the store could
	// not be asked or did not answer in time, out is void and the request may or may not
	// have been counted.
	//
	// hits must not be empty, and holds no unlimited limit. The store keeps
	// neither hits nor out after it returned.
	Decide(ctx context.Context, hits []Hit, out []Decision) (denied bool, err error)
}

// CounterStore is a Store whose counters operators look at and reset.
type CounterStore interface {
	Store
	// Peek returns what the counters of hits hold, in the order of hits. Of a hit only Limit,
	// Key and Hold matter; the Hold of a limit by Concurrency may be any. It asks where the
	// counters are, even if a process remembers something of them, changes nothing and begins
	// no ban. The counters need not be read at one moment. ctx and the error are as in Decide.
	Peek(ctx context.Context, hits []Hit) ([]Counter, error)
	// Reset makes the counters of hits unused, without bans and holds, each by itself.
	// When it returns, this process denies nothing by what it remembered of them. Of a
	// hit only Limit and Key matter. After an error, which wraps ErrUnavailable, some may
	// be reset and others not.
	Reset(ctx context.Context, hits []Hit) error
}

// ErrUnavailable means that a store could not decide: it is down, too slow, or
// refuses to work. What exactly is in the error that wraps it.
var ErrUnavailable = errors.New("store unavailable")

// Left returns why nobody waits for a request any more, as an error that wraps
// ErrUnavailable, or nil if it must be decided: somebody waits, or it has a hit that is
// written whatever becomes of it.
//
// A store asks just before it takes a request on, when no other can come between. So
// what gives a hold back, because the caller of a request has left, never comes before
// what takes it: that hold would stay taken for its whole period.
func Left(ctx context.Context, hits []Hit) error {
	if ctx.Err() == nil || slices.ContainsFunc(hits, func(h Hit) bool { return h.Unconditional() }) {
		return nil
	}
	return fmt.Errorf("%w: the caller is gone: %w", ErrUnavailable, context.Cause(ctx))
}

// Decide decides the hits of one request, all or nothing. It is the specification of every
// store. It is pure: the time is an argument, in microseconds since the epoch.
//
// states[i] is the state of the counter of hits[i]; hits of one counter share one pointer.
// Decide changes the states that are written, and those that are from after now, fills out,
// which is as long as hits, and reports whether the request is denied.
//
// Every hit is checked against a state that includes the earlier hits of the same request.
// If the request is admitted, all hits that fit are written; if it is denied, none is, except
// refunds and those charged always, and the bans that its hits begin, see Spec.DenyFor.
//
// holds[i] are the holds of the counter of hits[i] if that names one: the state follows
// from them, and they are changed with it. If a hold is already taken, taking it again or
// asking for it changes nothing. Neither does releasing one that is not taken. All three
// are admitted. Where holds is nil, each hit takes one more.
func Decide(hits []Hit, states []*State, holds []*Holds, now int64, out []Decision) (denied bool) {
	var buf [few]State
	after := slices.Grow(buf[:0], len(hits))[:len(hits)]
	denied = Count(hits, states, holds, now, out, after)
	Describe(hits, after, now, out)
	return denied
}

// Count is Decide without what Describe fills in: all that changes states, and so
// all that a store must do under its locks. It copies the states as they are then
// to after, which is as long as hits.
func Count(hits []Hit, states []*State, holds []*Holds, now int64, out []Decision, after []State) (denied bool) {
	before := after // for now
	for i := range hits {
		h, s, held := &hits[i], states[i], holdsAt(holds, i)
		out[i].Already = false
		if held != nil {
			*s = held.State(now)
			out[i].Already = held.has(h.Hold) != h.Refund
		}
		rolled := h.Limit.roll(*s, now)
		until := cmp.Or(rolled.Until, s.Until)
		if rolled.At < s.At {
			*s = rolled // also if the request is denied: else time would not pass for it
		}
		s.Until = until
		before[i] = *s
		wanted := max(h.CountedCost(), h.least())
		out[i].Over = !h.Refund && !out[i].Already && h.Limit.wait(rolled, now, wanted) != 0
		if h.changes(&out[i]) {
			*s = h.write(rolled.leaveBan(until, now), held, now)
		}
	}
	if denied = Settle(hits, out); denied {
		for i := len(hits) - 1; i >= 0; i-- {
			h, held := &hits[i], holdsAt(holds, i)
			if *states[i] = before[i]; held != nil && h.changes(&out[i]) {
				held.toggle(h.Hold, now) // the time does not matter: a refund is written again below
			}
		}
		for i := range hits {
			h, s, held := &hits[i], states[i], holdsAt(holds, i)
			if h.Cost == 0 || !h.Unconditional() {
				continue
			}
			if held != nil {
				out[i].Already = held.has(h.Hold) != h.Refund
			}
			if !out[i].Already {
				*s = h.write(h.Limit.roll(*s, now).leaveBan(s.Until, now), held, now)
			}
		}
		for i := range hits {
			h, s := &hits[i], states[i]
			if out[i].Over && h.Limit.DenyFor > 0 && h.EffectiveMode() == Enforced && h.Limit.roll(*s, now).Until == 0 {
				s.Until = now + h.Limit.DenyFor.Microseconds()
			}
		}
	}
	for i, s := range states {
		if held := holdsAt(holds, i); held != nil {
			*s = held.State(now)
		}
		after[i] = *s
	}
	return denied
}

// holdsAt returns holds[i], nil if the caller has none.
func holdsAt(holds []*Holds, i int) *Holds {
	if holds == nil {
		return nil
	}
	return holds[i]
}

// changes reports whether h is written as long as its request is not known to be denied.
func (h *Hit) changes(d *Decision) bool {
	return h.Cost > 0 && !d.Already && (!d.Over || h.Always)
}

// write takes or gives the cost of h, and its hold. s is rolled.
func (h *Hit) write(s State, held *Holds, now int64) State {
	if held != nil {
		held.toggle(h.Hold, now)
	}
	if h.Refund {
		return h.Limit.counting.add(s, -h.CountedCost())
	}
	return h.Limit.counting.add(s, h.CountedCost())
}

// Verdict is what its hits mean for a request, of those that were added.
type Verdict struct {
	Vetoed             bool // an enforced limit is over, which no other limit can outweigh
	quotas, quotasOver int
}

// Add adds a hit that has a mode and is over or not.
func (v *Verdict) Add(mode Mode, over bool) {
	switch mode {
	case Enforced:
		v.Vetoed = v.Vetoed || over
	case Quota:
		v.quotas++
		if over {
			v.quotasOver++
		}
	}
}

// Denied reports whether the request is denied: if an enforced limit is over, or if
// it has quota limits and all of them are.
func (v *Verdict) Denied() bool {
	return v.Vetoed || v.quotas > 0 && v.quotas == v.quotasOver
}

// Settle draws the conclusion from which hits are over: whether the request is
// denied, and which hits are therefore charged.
func Settle(hits []Hit, out []Decision) (denied bool) {
	var v Verdict
	for i := range hits {
		v.Add(hits[i].EffectiveMode(), out[i].Over)
	}
	denied = v.Denied()
	for i := range hits {
		h := &hits[i]
		out[i].Charged = h.Unconditional() || h.Cost > 0 && !out[i].Over && !denied
	}
	return denied
}
