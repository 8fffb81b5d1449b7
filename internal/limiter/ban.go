package limiter

import "time"

// A ban denies a counter for Spec.DenyFor, whatever its algorithm says. It begins when a
// hit of an enforced limit is over, and so its request is denied: also if another limit
// denies it, too, if the hit is charged always, and if it is a peek of a request: who asks first and
// is charged later is banned like others. A limit in shadow mode or a quota begins none, nor
// does CounterStore.Peek. A ban in force is not extended. While it is, every hit but
// refunds is over, and what is written whatever becomes of its request still is.
//
// A ban is a part of the state, State.Until. A limit without bans does not see it, and
// drops it when it writes.

// MinBan is the shortest ban.
const MinBan = time.Millisecond

// bans reports whether h begins a ban if it is over and none is in force.
func (h *Hit) bans() bool {
	return h.Limit.DenyFor > 0 && h.EffectiveMode() == Enforced
}

// ban begins a ban unless one is in force.
func (l *Limit) ban(s State, now int64) State {
	if l.roll(s, now).Until == 0 {
		s.Until = now + l.DenyFor.Microseconds()
	}
	return s
}
