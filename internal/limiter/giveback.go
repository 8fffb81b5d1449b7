package limiter

// GiveBack takes a charge back from a counter, as if it had never been made: for
// a store that learns only after a charge that the request is denied.
//
// s is the state of the counter, now the time in microseconds since the epoch.
// charged is the state that the charge of units left when it was made. What of
// it would still count, if nothing else had come since, is given back: nothing
// once its window is over, from the previous window where a sliding window has
// moved on, of a bucket what it could not have drained. So a charge that comes
// back late never takes anything from others. It is exact for windows; from a
// bucket that ran dry meanwhile it may give back less, by what drained since the
// charge, but never more. Nothing is given back to a state from after now, or of such
// a charge: the clock stepped back, and nobody knows how long ago it was.
func (l *Limit) GiveBack(s, charged State, units, now int64) State {
	rolled, left := l.meter.roll(s, now), l.meter.roll(charged, now)
	switch {
	case rolled.At < s.At || left.At < charged.At:
		return s
	case l.Algorithm == TokenBucket:
		if left.Used >= units {
			return l.meter.give(rolled, units)
		}
		return l.drainBy(rolled, left)
	case rolled.At != left.At:
		return s
	case left.At != charged.At: // the window of the charge is the previous one by now
		rolled.Prev = max(rolled.Prev-min(units, left.Prev), 0)
		return rolled
	default:
		return l.meter.give(rolled, min(units, left.Used))
	}
}

// drainBy takes the level of one bucket from that of another of the same limit.
func (l *Limit) drainBy(s, by State) State {
	s.Used, s.Prev = s.Used-by.Used, s.Prev-by.Prev
	if s.Prev < 0 {
		s.Used, s.Prev = s.Used-1, s.Prev+l.Period().Microseconds()
	}
	if s.Used < 0 {
		return State{At: s.At}
	}
	return s
}
