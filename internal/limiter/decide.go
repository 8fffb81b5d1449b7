package limiter

import (
	"bytes"
	"math"
	"time"
)

// Decide decides the hits of one request, all or nothing. It is the
// specification of every store: pure, and told the time.
//
// states[i] is the state of the counter of hits[i]; hits of one counter share
// one pointer. now is in microseconds since the epoch. Decide changes the
// states that are written, fills out, which is as long as hits, and tells
// whether the request is denied.
//
// Every hit is checked against a state that includes the earlier hits of the
// same request. If the request is admitted, all hits that fit are written; if
// it is denied, none is, except refunds and those charged always.
func Decide(hits []Hit, states []*State, now int64, out []Decision) (denied bool) {
	var scratch [16]State
	before := scratch[:0]
	for i := range hits {
		h, s := &hits[i], states[i]
		before = append(before, *s)
		rolled := h.Limit.meter.roll(*s, now)
		out[i].Over = !h.Refund && !h.Limit.meter.fits(rolled, now, h.wanted())
		if h.Cost > 0 && (!out[i].Over || h.Always) {
			*s = h.write(rolled)
		}
	}
	if denied = Settle(hits, out); denied {
		for i := len(hits) - 1; i >= 0; i-- {
			*states[i] = before[i]
		}
		for i := range hits {
			if h, s := &hits[i], states[i]; h.Cost > 0 && h.unconditional() {
				*s = h.write(h.Limit.meter.roll(*s, now))
			}
		}
	}
	for i := range hits {
		Describe(hits, i, *states[i], now, &out[i])
	}
	return denied
}

// write takes or gives the units of h. s is rolled.
func (h *Hit) write(s State) State {
	if h.Refund {
		return h.Limit.meter.give(s, h.Units())
	}
	return h.Limit.meter.take(s, h.Units())
}

// Settle draws the conclusion from which hits are over: whether the request is
// denied, and which hits are therefore charged.
//
// A request is denied if an enforced limit is over, or if it has quota limits
// and all of them are.
func Settle(hits []Hit, out []Decision) (denied bool) {
	quotas, quotasOver := 0, 0
	for i := range hits {
		switch hits[i].Limit.Mode {
		case Enforced:
			denied = denied || out[i].Over
		case Quota:
			quotas++
			if out[i].Over {
				quotasOver++
			}
		}
	}
	denied = denied || quotas > 0 && quotas == quotasOver
	for i := range hits {
		h := &hits[i]
		out[i].Charged = h.unconditional() || h.Cost > 0 && !out[i].Over && !denied
	}
	return denied
}

// longest is the longest Duration, in microseconds: three times MaxPeriod, or
// what remains of a window after the clock was put back by decades.
const longest = math.MaxInt64 / int64(time.Microsecond)

// Describe fills in d but for Over and Charged, which are known: what the
// outcome of hits[i] means to its caller. s is the counter's state after the
// request, now the time of the decision in microseconds since the epoch.
func Describe(hits []Hit, i int, s State, now int64, d *Decision) {
	m := hits[i].Limit.meter
	after := func(micros int64) time.Duration {
		return time.Duration(min(micros, longest)) * time.Microsecond
	}
	s = m.roll(s, now)
	used, free, whole := m.left(s, now)
	d.Used, d.Remaining, d.ResetAfter, d.RetryAfter = used, free, after(whole), 0
	if d.Over {
		d.RetryAfter = Never
		if wait := m.wait(s, now, wantedWith(hits, i)); wait != never {
			d.RetryAfter = after(wait)
		}
	}
}

// wantedWith is what must be free in the counter of hits[i] for all hits on it
// to fit, each beside the earlier ones.
func wantedWith(hits []Hit, i int) int64 {
	var taken, most int64
	for j := range hits {
		h := &hits[j]
		if !h.Refund && (j == i || bytes.Equal(h.Key, hits[i].Key)) {
			most = max(most, taken+max(h.cost(), 1))
			taken = min(taken+h.cost(), maxExact)
		}
	}
	return most
}
