package limiter

// Decide decides the hits of one request, all or nothing. It is the
// specification of every store: pure, and told the time.
//
// states[i] is the state of the counter of hits[i]; hits of one counter share
// one pointer. now is in microseconds since the epoch. Decide changes the
// states to what must be kept, fills out, which is as long as hits, and tells
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
		*s = s.roll(h.Limit, now)
		switch {
		case h.Refund:
			*s = s.give(h.cost())
			out[i].Over = false
		case s.fits(h.Limit, h.wanted()):
			*s = s.take(h.cost())
			out[i].Over = false
		default:
			if h.Always {
				*s = s.take(h.cost())
			}
			out[i].Over = true
		}
	}
	if Settle(hits, out) {
		denied = true
		for i := len(hits) - 1; i >= 0; i-- {
			*states[i] = before[i]
		}
		for i := range hits {
			switch h, s := &hits[i], states[i]; {
			case h.Refund:
				*s = s.roll(h.Limit, now).give(h.cost())
			case h.unconditional():
				*s = s.roll(h.Limit, now).take(h.cost())
			}
		}
	}
	for i := range hits {
		charged := out[i].Charged
		out[i] = hits[i].Describe(out[i].Over, *states[i], now)
		out[i].Charged = charged
	}
	return denied
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
