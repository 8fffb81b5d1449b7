package limiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// Store stores counters and decides requests on them.
type Store interface {
	// Decide applies the function Decide to the counters of hits in one atomic step: no other
	// request, of this process or another one on the same counters, is decided in between. It
	// fills out, which has the length of hits, and reports whether the request is denied.
	//
	// ctx bounds how long the caller waits, not the effect: a request that the store has
	// accepted is decided and written even if its caller leaves. A request whose caller left
	// earlier is dropped; see Left. An error wraps ErrUnavailable if the store could not be
	// asked or did not answer in time. After an error, out is undefined, and the request may or
	// may not have been counted.
	//
	// hits must not be empty or contain an unlimited limit. The store keeps neither hits nor
	// out after it returns.
	Decide(ctx context.Context, hits []Hit, out []Decision) (denied bool, err error)
}

// CounterStore is a Store whose counters operators read and reset.
type CounterStore interface {
	Store
	// Peek returns the counters of hits, in the order of hits. Only the Limit, Key and Hold of a
	// hit matter; for a Concurrency limit, any Hold will do. Peek changes nothing and begins no
	// ban. It reads the store itself, even if this process remembers some counters. The counters
	// need not be read at the same moment. ctx and the error are as in Decide.
	Peek(ctx context.Context, hits []Hit) ([]Counter, error)
	// Reset makes the counters of hits unused, without bans and holds, one by one. When it
	// returns, this process no longer denies requests by remembered states of these counters.
	// Only the Limit and Key of a hit matter. After an error, which wraps ErrUnavailable, some
	// counters may be reset and others not.
	Reset(ctx context.Context, hits []Hit) error
}

// ErrUnavailable means that a store could not decide: it is down, too slow, or refuses to work.
// The error that wraps it gives the reason.
var ErrUnavailable = errors.New("store unavailable")

// Left returns an error that wraps ErrUnavailable if the caller of a request has left. It
// returns nil if the caller still waits, or if the request has a hit that is written even if the
// request is denied.
//
// A store calls it just before it accepts a request, when no other request can come between. So
// if a caller leaves and the release of its hold is sent, that release never arrives before the
// hold is taken. Otherwise the hold would stay taken for its full period.
func Left(ctx context.Context, hits []Hit) error {
	if ctx.Err() == nil || slices.ContainsFunc(hits, func(h Hit) bool { return h.Unconditional() }) {
		return nil
	}
	return fmt.Errorf("%w: the caller is gone: %w", ErrUnavailable, context.Cause(ctx))
}

// Decide decides the hits of one request, all or nothing. It is the specification of every
// store. It reads no clock; the time is an argument, in microseconds since the epoch.
//
// states[i] is the state of the counter of hits[i]; hits on one counter share one pointer.
// Decide changes the states that it writes, and corrects states that are later than now. It
// fills out, which has the length of hits, and reports whether the request is denied.
//
// Every hit is checked against a state that includes the earlier hits of the same request. If
// the request is admitted, all hits that fit are written. If it is denied, none is, except
// refunds, hits that are always charged, and the bans that its hits begin, see Spec.DenyFor.
//
// If hits[i] has uses, uses[i] are the uses of its counter: the state is derived from them, and
// they change with it. Taking or asking for a hold that is taken changes nothing, nor does
// releasing a hold that is not taken. All three are admitted. If uses is nil, each hit takes one
// more hold, and logged units leave together with the newest one.
func Decide(hits []Hit, states []*State, uses []Uses, now int64, out []Decision) (denied bool) {
	var buf [few]State
	after := slices.Grow(buf[:0], len(hits))[:len(hits)]
	denied = Count(hits, states, uses, now, out, after)
	Describe(hits, after, now, out)
	return denied
}

// Count is Decide without the fields of Describe. It makes all changes of states, so that a
// store need not hold its locks for Describe. It copies the resulting states to after, which has
// the length of hits.
func Count(hits []Hit, states []*State, uses []Uses, now int64, out []Decision, after []State) (denied bool) {
	before := after // shares the memory of after, which is filled last
	for i, of := range uses {
		if of != nil {
			*states[i] = hits[i].Limit.State(*states[i], of, 0, now)
		}
	}
	for i := range hits {
		h, s, held := &hits[i], states[i], holdsAt(uses, i)
		out[i].Already = false
		if held != nil {
			out[i].Already = held.has(h.Hold) != h.Refund
		}
		rolled := h.Limit.roll(*s, now)
		until := cmp.Or(rolled.Until, s.Until)
		if rolled.At < s.At {
			*s = rolled // even if the request is denied; otherwise no time would pass for the state
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
			h, held := &hits[i], holdsAt(uses, i)
			if *states[i] = before[i]; held != nil && h.changes(&out[i]) {
				held.toggle(h.Hold, now) // any time will do, because refunds are written again below
			}
		}
		for i := range hits {
			h, s, held := &hits[i], states[i], holdsAt(uses, i)
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
	for i, of := range uses { // only now, so that no use has to be restored
		if log, _ := of.(*Log); log != nil && hits[i].Cost > 0 && out[i].Charged {
			log.write(&hits[i], now)
		}
	}
	for i, s := range states {
		if after[i] = *s; uses != nil && uses[i] != nil {
			needed := int64(0)
			if out[i].Over {
				needed = demandsOf(hits, nil)[i].needed
			}
			after[i] = hits[i].Limit.State(*s, uses[i], needed, now)
			*s = after[i]
		}
	}
	return denied
}

// Uses are the uses of one counter that its state only sums up: Holds or a Log. They are not
// safe for concurrent use.
type Uses interface {
	// State removes uses that have left and returns the state of the counter at now, with the
	// time at which the needed units will fit the limit. Uses that are later than now, because
	// the clock stepped back, count as uses at now.
	State(l *Limit, needed, now int64) State
	// Len returns the approximate memory in holds at the last call of State.
	Len() int
}

// HasUses reports whether the counter of h has Uses.
func (h *Hit) HasUses() bool { return h.Hold != nil || h.Limit.Algorithm == SlidingLog }

// NewUses returns the Uses of an unused counter of h, which must have some.
func (h *Hit) NewUses() Uses {
	if h.Hold != nil {
		return newHolds(h.Limit)
	}
	return new(Log)
}

// State returns the state of a counter of l at now, given its stored state and its uses. needed
// is as in Uses.
func (l *Limit) State(s State, uses Uses, needed, now int64) State {
	current := uses.State(l, needed, now)
	current.Until = s.Until
	return current
}

// holdsAt returns the holds in uses[i], or nil if there are none.
func holdsAt(uses []Uses, i int) *Holds {
	if uses == nil {
		return nil
	}
	held, _ := uses[i].(*Holds)
	return held
}

// changes reports whether h is written if its request is not denied.
func (h *Hit) changes(d *Decision) bool {
	return h.Cost > 0 && !d.Already && (!d.Over || h.Always)
}

// write adds or refunds the cost of h, and takes or releases its hold. s must be rolled.
func (h *Hit) write(s State, held *Holds, now int64) State {
	if held != nil {
		held.toggle(h.Hold, now)
	}
	if h.Refund {
		return h.Limit.counting.add(s, -h.CountedCost())
	}
	return h.Limit.counting.add(s, h.CountedCost())
}

// Verdict sums up the hits of a request that were added to it.
type Verdict struct {
	Vetoed             bool // an enforced limit is exceeded, so that no other limit matters
	quotas, quotasOver int
}

// Add adds a hit, given its mode and whether it is over its limit.
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

// Denied reports whether the request is denied: if an enforced limit is exceeded, or if there
// are quota limits and all of them are.
func (v *Verdict) Denied() bool {
	return v.Vetoed || v.quotas > 0 && v.quotas == v.quotasOver
}

// Settle reports whether the request is denied, given Over of all hits, and sets Charged.
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
