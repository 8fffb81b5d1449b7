package limiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// Store keeps counters and decides requests with them.
type Store interface {
	// Decide applies the function Decide to the counters of hits in one atomic step: no other
	// request on the same counters, from this process or another one, is decided in between. Decide
	// fills out, which has the length of hits, and reports whether the request is denied.
	//
	// ctx bounds how long the caller waits, not the effect. A request that the store has accepted
	// is decided and written even if its caller leaves. A request whose caller left earlier is
	// dropped; see Left. An error wraps ErrUnavailable if the store could not be asked or did not
	// answer in time. After an error, out is undefined, and the request may or may not have been
	// counted.
	//
	// hits must not be empty or contain an unlimited limit. The store keeps neither hits nor out
	// after Decide returns.
	Decide(ctx context.Context, hits []Hit, out []Decision) (denied bool, err error)
}

// CounterStore is a Store whose counters operators read and reset.
type CounterStore interface {
	Store
	// Peek returns the counters of hits, in the order of hits. Only the Limit, Key and Hold of a
	// hit matter. For a Concurrency limit, any Hold will do. Peek changes nothing and begins no
	// ban. It reads the store itself, even if this process remembers some counters. The counters
	// need not be read at the same moment. ctx and the error are as in Decide.
	Peek(ctx context.Context, hits []Hit) ([]Counter, error)
	// Reset removes the use, bans and holds of the counters of hits, one counter after the other.
	// When it returns, this process no longer denies requests by remembered states of these
	// counters. Only the Limit and Key of a hit matter. After an error, which wraps ErrUnavailable,
	// some counters may be reset and others not.
	Reset(ctx context.Context, hits []Hit) error
}

// ErrUnavailable means that a store could not decide: it is down, too slow, or refuses to work. The
// error that wraps ErrUnavailable gives the reason.
var ErrUnavailable = errors.New("store unavailable")

// Left returns an error that wraps ErrUnavailable if the caller of a request has left. It
// returns nil if the caller still waits, or if the request has a hit that is written even if the
// request is denied.
//
// A store calls Left just before it accepts a request, when no other request can come between. So
// if a caller leaves and then sends the release of its hold, the hold is never taken after that
// release. Otherwise the hold would stay taken for its full period.
func Left(ctx context.Context, hits []Hit) error {
	if ctx.Err() == nil || slices.ContainsFunc(hits, func(h Hit) bool { return h.Unconditional() }) {
		return nil
	}
	return fmt.Errorf("%w: the caller is gone: %w", ErrUnavailable, context.Cause(ctx))
}

// Decide decides the hits of one request, all or nothing. It is the specification of every
// store. It reads no clock; the time is an argument, in microseconds since the epoch.
//
// states[i] is the state of the counter of hits[i]; hits on one counter share one pointer. Decide
// changes the states of the hits that it writes, and corrects states that are later than now. It
// fills out, which has the length of hits, and reports whether the request is denied.
//
// Every hit is checked against a state that includes the earlier hits of the same request. If the
// request is admitted, all hits that fit are written. If the request is denied, only refunds, hits
// that are always charged and new bans are written, see Spec.DenyFor.
//
// kept[i] has the stored data of hits[i] other than the state. If the counter has uses, its state
// is derived from the uses, and Decide changes both. A hit that takes or peeks at a hold that is
// already taken is not over and changes nothing. The same applies to the release of a hold that is
// not taken. If kept is nil, each hit takes a different hold, all units of a sliding log expire
// together with the newest unit, and no reservation is recorded or settled.
func Decide(hits []Hit, states []*State, kept []Kept, now int64, out []Decision) (denied bool) {
	var buf [few]State
	after := slices.Grow(buf[:0], len(hits))[:len(hits)]
	denied = Count(hits, states, kept, now, out, after)
	Describe(hits, after, now, out)
	return denied
}

// Count is Decide without Describe. It makes all changes of states, so a store need not hold its
// locks during Describe. It copies the resulting states to after, which has the length of hits.
func Count(hits []Hit, states []*State, kept []Kept, now int64, out []Decision, after []State) (denied bool) {
	before := after // shares the memory of after, which is filled last
	for i, of := range kept {
		if of.Uses != nil {
			*states[i] = hits[i].Limit.State(*states[i], of.Uses, 0, now)
		}
	}
	for i := range hits {
		h, s, of := &hits[i], states[i], keptAt(kept, i)
		held := of.holds()
		out[i].Already, out[i].Reserved = false, 0
		if held != nil {
			out[i].Already = held.has(h.Hold) != h.Refund
		}
		if h.settles() {
			if of.Record != nil && !h.Limit.Record().roll(*of.Record, now).unused() {
				taken := *of.Record
				*of.Record, of.Record, out[i].Reserved = State{}, &taken, taken.Used
				kept[i] = of
			}
			out[i].Already = out[i].Reserved == 0
		}
		rolled := h.Limit.roll(*s, now)
		until := cmp.Or(rolled.Until, s.Until)
		if rolled.At < s.At {
			*s = rolled // even if the request is denied; otherwise the state would stay later than now
		}
		s.Until = until
		before[i] = *s
		wanted := max(h.CountedCost(), h.least())
		out[i].Over = !h.Refund && !out[i].Already && h.Limit.wait(rolled, now, wanted) != 0
		if h.changes(&out[i]) {
			*s = h.write(rolled.leaveBan(until, now), of, now)
		}
	}
	if denied = Conclude(hits, out); denied {
		for i := len(hits) - 1; i >= 0; i-- {
			h, held := &hits[i], keptAt(kept, i).holds()
			if *states[i] = before[i]; held != nil && h.changes(&out[i]) {
				held.toggle(h.Hold, now) // the new time of a restored hold does not matter, because its release is written again below
			}
		}
		for i := range hits {
			h, s, of := &hits[i], states[i], keptAt(kept, i)
			if h.isPeek() || !h.Unconditional() {
				continue
			}
			if held := of.holds(); held != nil {
				out[i].Already = held.has(h.Hold) != h.Refund
			}
			if !out[i].Already {
				*s = h.write(h.Limit.roll(*s, now).leaveBan(s.Until, now), of, now)
			}
		}
		for i := range hits {
			h, s := &hits[i], states[i]
			if out[i].Over && h.Limit.DenyFor > 0 && h.EffectiveMode() == Enforced && h.Limit.roll(*s, now).Until == 0 {
				s.Until = now + h.Limit.DenyFor.Microseconds()
			}
		}
	}
	finish(hits, states, kept, now, out, after)
	return denied
}

// finish writes the logs and records of the charged hits, and copies the states to after. Count
// calls it last, when out is final, so that a denied request never has to be removed from a log.
func finish(hits []Hit, states []*State, kept []Kept, now int64, out []Decision, after []State) {
	for i, of := range kept {
		h := &hits[i]
		if log, _ := of.Uses.(*Log); log != nil && h.Cost > 0 && out[i].Charged {
			log.write(h, now)
		}
		if of.Record != nil && !h.Refund && out[i].Charged {
			*of.Record = State{At: states[i].At, Used: h.CountedCost()}
		}
	}
	var asked []demand // nil until a hit with uses is over
	for i, s := range states {
		if after[i] = *s; kept != nil && kept[i].Uses != nil {
			needed := int64(0)
			if out[i].Over {
				if asked == nil {
					asked = demandsOf(hits, nil)
				}
				needed = asked[i].needed
			}
			after[i] = hits[i].Limit.State(*s, kept[i].Uses, needed, now)
			*s = after[i]
		}
	}
}

// Kept is the stored data of a hit other than the state of its counter.
type Kept struct {
	Uses Uses // uses of the counter, or nil if it has none, see Hit.HasUses
	// Record is the record of the hit's Reservation, or nil. A settlement clears the record, and
	// makes Record point to a copy of the old record.
	Record *State
}

// keptAt returns kept[i], or an empty Kept if kept is nil.
func keptAt(kept []Kept, i int) Kept {
	if kept == nil {
		return Kept{}
	}
	return kept[i]
}

// holds returns the holds in k.Uses, or nil if there are none.
func (k Kept) holds() *Holds {
	held, _ := k.Uses.(*Holds)
	return held
}

// Uses are the individual uses of one counter, either Holds or a Log. The counter's state only
// summarizes them. Uses are not safe for concurrent calls.
type Uses interface {
	// State removes expired uses and returns the state of the counter at now. The Prev of a Log's
	// state is the time at which the needed units will fit l, or 0 if they fit now or never. Uses
	// that are later than now, because the clock stepped back, count as uses at now.
	State(l *Limit, needed, now int64) State
	// Len returns the approximate size in memory at the last call of State. A hold has size 1.
	Len() int
}

// HasUses reports whether the counter of h has Uses.
func (h *Hit) HasUses() bool { return h.Hold != nil || h.Limit.Algorithm == SlidingLog }

// NewUses returns the Uses of an unused counter of h. HasUses must be true.
func (h *Hit) NewUses() Uses {
	if h.Hold != nil {
		return newHolds(h.Limit)
	}
	return new(Log)
}

// State returns the state of a counter of l at now, given its stored state and its uses. needed is
// passed to uses.State.
func (l *Limit) State(s State, uses Uses, needed, now int64) State {
	current := uses.State(l, needed, now)
	current.Until = s.Until
	return current
}

// changes reports whether h is written if its request is not denied.
func (h *Hit) changes(d *Decision) bool {
	return !h.isPeek() && !d.Already && (!d.Over || h.Always)
}

// write adds or refunds the cost of h, takes or releases its hold, or settles its reservation. s
// must be rolled.
func (h *Hit) write(s State, kept Kept, now int64) State {
	if held := kept.holds(); held != nil {
		held.toggle(h.Hold, now)
	}
	if h.settles() {
		return h.Limit.settle(s, *kept.Record, h.CountedCost(), now)
	}
	if h.Refund {
		return h.Limit.counting.add(s, -h.CountedCost())
	}
	return h.Limit.counting.add(s, h.CountedCost())
}

// MaxGroup is the maximum of Hit.Group.
const MaxGroup = 127

// Verdict summarizes the hits of one request. Each hit is added by Add.
type Verdict struct {
	Vetoed bool // an enforced limit is exceeded, so no other limit matters
	quotas bool // a hit is in a quota group
	room   bool // a quota that is a group of its own is not exceeded
	// groups is the set of all quota groups, and over is the set of groups with an exceeded quota.
	groups, over [MaxGroup/64 + 1]uint64
}

// Add adds a hit, given its mode, its quota group and whether it is over its limit.
func (v *Verdict) Add(mode Mode, group uint8, over bool) {
	switch {
	case mode == Enforced:
		v.Vetoed = v.Vetoed || over
	case mode == Quota || group > 0:
		over = over && mode == Quota
		word, bit := group/64, uint64(1)<<(group%64)
		v.groups[word] |= bit
		if over {
			v.over[word] |= bit
		}
		v.quotas, v.room = true, v.room || group == 0 && !over
	}
}

// HasRoom reports whether a quota group has hits and none of them is over. group must not be 0.
func (v *Verdict) HasRoom(group uint8) bool {
	return (v.groups[group/64]&^v.over[group/64])>>(group%64)&1 == 1
}

// Denied reports whether the request is denied: if an enforced limit is exceeded, or if there are
// quota groups and each has an exceeded quota.
func (v *Verdict) Denied() bool {
	return v.Vetoed || v.quotas && !v.room && v.groups == v.over
}

// Conclude reports whether the request is denied, given Over in each decision. It also sets Charged.
func Conclude(hits []Hit, out []Decision) (denied bool) {
	var v Verdict
	for i := range hits {
		v.Add(hits[i].EffectiveMode(), hits[i].Group, out[i].Over)
	}
	denied = v.Denied()
	for i := range hits {
		h := &hits[i]
		out[i].Charged = h.Unconditional() || h.Cost > 0 && !out[i].Over && !denied
	}
	return denied
}
