package limiter

import "time"

// A ban denies a counter for Spec.DenyFor, whatever its algorithm says. It begins when a
// hit of an enforced limit is over, and so its request is denied: also if another limit
// denies it, too, and if the hit is charged always. A peek begins none, nor does a limit
// in shadow mode or a quota. A ban in force is not extended. While it is, every hit but
// refunds is over, and what is written whatever becomes of its request still is.
//
// A ban is a part of the state, State.Until. A limit without bans does not see it, and
// drops it when it writes.

// MinBan is the shortest ban.
const MinBan = time.Millisecond

// banning is the algorithm of a limit with bans: that of the limit, and a state that is
// banned fits nothing. Of a rolled state, Until is 0 unless a ban is in force.
type banning struct {
	counting
	length int64 // of a ban, in microseconds
}

// roll keeps a ban that is in force. One that lasts longer than one that begins now is
// of a clock that then stepped back, or of a limit with longer bans, and is shortened.
func (b banning) roll(s State, now int64) State {
	rolled := b.counting.roll(s, now)
	if s.Until > now {
		rolled.Until = min(s.Until, now+b.length)
	}
	return rolled
}

func (b banning) fits(s State, now, cost int64) bool {
	return s.Until == 0 && b.counting.fits(s, now, cost)
}

func (b banning) take(s State, cost int64) State { return banned(b.counting.take(s, cost), s) }

func (b banning) give(s State, cost int64) State { return banned(b.counting.give(s, cost), s) }

func (b banning) giveBack(s, charged, then State, cost int64) (State, bool) {
	after, some := b.counting.giveBack(s, charged, then, cost)
	return banned(after, s), some
}

// banned returns s with the ban of another state.
func banned(s, by State) State {
	s.Until = by.Until
	return s
}

func (b banning) left(s State, now int64) (used, whole int64) {
	used, whole = b.counting.left(s, now)
	return used, max(whole, s.Until-now)
}

func (b banning) wait(s State, now, cost int64) int64 {
	rest := max(s.Until-now, 0)
	if b.counting.fits(s, now, cost) {
		return rest
	}
	return max(rest, b.counting.wait(s, now, cost))
}

func (b banning) ample() int64 { return 0 } // it depends on the ban

// back is counting.back of what is from after now, bans included. rolled is what roll
// returns of s.
func (l *Limit) back(s, rolled State, now int64) State {
	until := s.Until
	if rolled.Until > 0 {
		until = rolled.Until
	}
	if rolled.At < s.At {
		s = l.counting.back(s, now)
	}
	s.Until = until
	return s
}

// bans reports whether h begins a ban if it is over and none is in force.
func (h *Hit) bans() bool {
	return h.Limit.DenyFor > 0 && h.Cost > 0 && h.EffectiveMode() == Enforced
}

// ban begins a ban unless one is in force.
func (l *Limit) ban(s State, now int64) State {
	if l.counting.roll(s, now).Until == 0 {
		s.Until = now + l.DenyFor.Microseconds()
	}
	return s
}
