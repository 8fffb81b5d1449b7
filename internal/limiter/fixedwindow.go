package limiter

import "time"

// State is what a store keeps of a counter. Its zero value is an unused one.
//
// A fixed window keeps the number of the window, counted from the epoch in
// periods, and what was used in it. Stored numbers never decrease: when the
// clock steps back, the newest window known goes on.
type State struct {
	Window int64
	Used   int64
}

// roll returns the state as of now, in microseconds since the epoch: unchanged
// within its window, unused in a later one.
func (s State) roll(l *Limit, now int64) State {
	if n := now / l.Period().Microseconds(); n > s.Window {
		return State{Window: n}
	}
	return s
}

// fits tells whether cost more units stay within the limit. s is rolled.
func (s State) fits(l *Limit, cost int64) bool {
	return s.Used+cost <= int64(l.RequestsPerUnit)
}

// take returns the state with cost more units used. s is rolled.
func (s State) take(cost int64) State {
	s.Used = min(s.Used+cost, MaxCost)
	return s
}

// give returns the state with cost units given back. s is rolled.
func (s State) give(cost int64) State {
	s.Used = max(s.Used-cost, 0)
	return s
}

// Expiry is the time from which the state no longer matters, in microseconds
// since the epoch: the end of its window.
func (s State) Expiry(l *Limit) int64 {
	return (s.Window + 1) * l.Period().Microseconds()
}

// Describe tells what a hit's outcome means to its caller: s is the counter's
// state after the request, now the time of the decision in microseconds since
// the epoch. Charged is left to Settle.
func (h *Hit) Describe(over bool, s State, now int64) Decision {
	s = s.roll(h.Limit, now)
	amount := int64(h.Limit.RequestsPerUnit)
	d := Decision{
		Over:       over,
		Used:       s.Used,
		Remaining:  max(amount-s.Used, 0),
		ResetAfter: time.Duration(s.Expiry(h.Limit)-now) * time.Microsecond,
	}
	switch {
	case over && h.wanted() > amount:
		d.RetryAfter = Never
	case over:
		d.RetryAfter = d.ResetAfter
	}
	return d
}
