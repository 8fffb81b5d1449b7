package limiter

import (
	"slices"
	"time"
)

// Describe fills in the fields of out except Over, Charged, Already and Reserved, which the caller
// has set. states[i] is the state of the counter of hits[i] after the request; now is the time of
// the decision in microseconds since the epoch.
func Describe(hits []Hit, states []State, now int64, out []Decision) {
	var buf [few]demand
	var asked []demand // nil until a hit is over
	for i := range hits {
		l, d := hits[i].Limit, &out[i]
		s := l.roll(states[i], now)
		used, reset := l.counting.usage(s, now)
		d.Used, d.Remaining, d.ResetAfter = used, max(int64(l.Size())-used, 0), duration(max(reset, s.Until-now))
		if s.Until > 0 {
			d.Remaining = 0
		}
		d.RetryAfter, d.Remembered = 0, false
		if d.Over {
			if asked == nil {
				asked = demandsOf(hits, buf[:0])
			}
			d.RetryAfter = duration(l.wait(s, now, asked[i].needed))
		}
	}
}

// duration converts microseconds, up to 2*MaxPeriod, to a Duration, and the number never to Never.
func duration(micros int64) time.Duration {
	if micros == never {
		return Never
	}
	return time.Duration(micros) * time.Microsecond
}

// demand is the total demand of the hits on one counter.
type demand struct {
	taken  int64 // units that all hits together take if they fit
	needed int64 // units that must be free for all hits to fit, one after the other
}

// namedHold identifies a hold by the index of the first hit on its counter.
type namedHold struct {
	first int
	name  [HoldSize]byte
}

// demandsOf returns, for each hit, the demand on its counter, in the memory of dst if it
// suffices. A hold that several hits take counts once.
func demandsOf(hits []Hit, dst []demand) []demand {
	var buf [few]int
	firsts := Firsts(hits, buf[:0])
	dst = slices.Grow(dst, len(hits))[:len(hits)]
	clear(dst)
	taken := make(map[namedHold]bool)
	for i := range hits {
		h, d := &hits[i], &dst[firsts[i]]
		if h.Refund {
			continue
		}
		if h.Hold != nil {
			hold := namedHold{firsts[i], [HoldSize]byte(h.Hold)}
			if taken[hold] {
				continue
			}
			taken[hold] = h.Cost > 0
		}
		d.needed = max(d.needed, d.taken+max(h.cost(), h.least()))
		d.taken = min(d.taken+h.cost(), MaxExact)
	}
	for i, first := range firsts {
		dst[i] = dst[first]
	}
	return dst
}

// Counter describes the counter of a limit at one moment, in the terms of a Decision.
type Counter struct {
	Used, Remaining int64
	RetryAfter      time.Duration // until one more unit is admitted
	WholeIn         time.Duration // until the counter has no use and no ban
	BannedFor       time.Duration // until the counter's ban ends, or 0 without a ban
}

// Counter describes a counter of l in state s. now is in microseconds since the epoch.
func (l *Limit) Counter(s State, now int64) Counter {
	d := []Decision{{Over: true}} // so that Describe computes when a peek would pass
	Describe([]Hit{{Limit: l}}, []State{s}, now, d)
	c := Counter{Used: d[0].Used, Remaining: d[0].Remaining, RetryAfter: d[0].RetryAfter, WholeIn: d[0].ResetAfter}
	if end := l.roll(s, now).Until; end > 0 {
		c.BannedFor = duration(end - now)
	}
	if c.Used == 0 {
		c.WholeIn = c.BannedFor // even if the window has not ended
	}
	return c
}
