package limiter

import (
	"context"
	"errors"
	"slices"
)

// Store keeps counters and decides requests on them.
type Store interface {
	// Decide does for the counters of hits what the function Decide says, in one
	// atomic step: no other request, of this process or another one on the same
	// counters, is decided in between. It fills out, which is as long as hits,
	// and reports whether the request is denied.
	//
	// ctx bounds how long the caller waits, not what happens: a request that the
	// store has taken on is decided and written even if its caller has gone.
	// After an error, which wraps ErrUnavailable if the store could not be asked
	// or did not answer in time, out is void and the request may or may not have
	// been counted.
	//
	// hits must not be empty, and holds no unlimited limit. The store keeps
	// neither hits nor out after it returned.
	Decide(ctx context.Context, hits []Hit, out []Decision) (denied bool, err error)
}

// ErrUnavailable means that a store could not decide: it is down, too slow, or
// refuses to work. What exactly is in the error that wraps it.
var ErrUnavailable = errors.New("store unavailable")

// Decide decides the hits of one request, all or nothing. It is the
// specification of every store: pure, and told the time.
//
// states[i] is the state of the counter of hits[i]; hits of one counter share
// one pointer. now is in microseconds since the epoch. Decide changes the
// states that are written, and those that are from after now, fills out, which is
// as long as hits, and reports whether the request is denied.
//
// Every hit is checked against a state that includes the earlier hits of the
// same request. If the request is admitted, all hits that fit are written; if
// it is denied, none is, except refunds and those charged always.
func Decide(hits []Hit, states []*State, now int64, out []Decision) (denied bool) {
	var buf [few]State
	after := slices.Grow(buf[:0], len(hits))[:len(hits)]
	denied = Count(hits, states, now, out, after)
	Describe(hits, after, now, out)
	return denied
}

// Count is Decide without what Describe fills in: all that changes states, and so
// all that a store must do under its locks. It copies the states as they are then
// to after, which is as long as hits.
func Count(hits []Hit, states []*State, now int64, out []Decision, after []State) (denied bool) {
	before := after // for now
	for i := range hits {
		h, s := &hits[i], states[i]
		rolled := h.Limit.counting.roll(*s, now)
		if rolled.At < s.At {
			*s = h.Limit.counting.back(*s, now)
		}
		before[i] = *s
		wanted := max(h.CountedCost(), h.least())
		out[i].Over = !h.Refund && !h.Limit.counting.fits(rolled, now, wanted)
		if h.Cost > 0 && (!out[i].Over || h.Always) {
			*s = h.write(rolled)
		}
	}
	if denied = Settle(hits, out); denied {
		for i := len(hits) - 1; i >= 0; i-- {
			*states[i] = before[i]
		}
		for i := range hits {
			if h, s := &hits[i], states[i]; h.Cost > 0 && h.Unconditional() {
				*s = h.write(h.Limit.counting.roll(*s, now))
			}
		}
	}
	for i, s := range states {
		after[i] = *s
	}
	return denied
}

// write takes or gives the cost of h. s is rolled.
func (h *Hit) write(s State) State {
	if h.Refund {
		return h.Limit.counting.give(s, h.CountedCost())
	}
	return h.Limit.counting.take(s, h.CountedCost())
}

// Verdict is what its hits mean for a request, told by those that were added.
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
