package limiter

import "time"

// Counter is what the counter of a limit holds at a moment, in units.
type Counter struct {
	// Used is what is used, rounded up to a unit. It exceeds the limit where usage was
	// charged that did not fit, or the limit was lowered.
	Used int64
	// Remaining is what the limit still admits, 0 while the counter is banned.
	Remaining int64
	// RetryAfter is in how long one more unit is admitted if nothing else happens: 0 now,
	// Never if no waiting helps. Of a limit by Concurrency it is a second: nobody knows.
	RetryAfter time.Duration
	// WholeIn is in how long nothing of the limit is used any more, and no ban in force.
	WholeIn time.Duration
	// BannedFor is how long the ban of the counter still lasts, 0 without one.
	BannedFor time.Duration
}

// Counter describes a counter of l by its state. now is in microseconds since the epoch.
func (l *Limit) Counter(s State, now int64) Counter {
	s = l.roll(s, now)
	used, whole := l.usage(s, now)
	if used == 0 {
		whole = max(s.Until-now, 0) // whatever is left of the window
	}
	c := Counter{Used: used, Remaining: max(int64(l.Size())-used, 0), WholeIn: duration(whole)}
	if s.Until > 0 {
		c.Remaining, c.BannedFor = 0, duration(s.Until-now)
	}
	if wait := l.wait(s, now, 1); wait == never {
		c.RetryAfter = Never
	} else {
		c.RetryAfter = duration(wait)
	}
	return c
}
