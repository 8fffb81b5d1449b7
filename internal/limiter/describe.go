package limiter

import (
	"slices"
	"time"
)

// Describe fills in out but for Over and Charged, which are known: what the
// outcome of hits means to their caller. states[i] is the state of the counter of
// hits[i] after the request, now the time of the decision in microseconds since
// the epoch.
func Describe(hits []Hit, states []State, now int64, out []Decision) {
	var buf [few]demand
	var asked []demand // nil until a hit is over
	counters := CountersOf(hits)
	for i := range hits {
		l, d := hits[i].Limit, &out[i]
		s := l.roll(states[i], now)
		used, whole := l.usage(s, now)
		d.Used, d.Remaining, d.ResetAfter = used, max(int64(l.Size())-used, 0), duration(whole)
		if s.Until > 0 {
			d.Remaining = 0
		}
		d.RetryAfter, d.Remembered = 0, false
		if d.Over {
			d.RetryAfter = Never
			if asked == nil {
				asked = demandsOf(hits, &counters, buf[:0])
			}
			if wait := l.wait(s, now, asked[counters.First(i)].most); wait != never {
				d.RetryAfter = duration(wait)
			}
		}
	}
}

// duration is so many microseconds, which are 2*MaxPeriod at most.
func duration(micros int64) time.Duration { return time.Duration(micros) * time.Microsecond }

// demand is what the hits on one counter ask for together.
type demand struct {
	taken int64 // by all of them, if they fit
	most  int64 // what must be free for all of them to fit, each beside the earlier ones
}

// demandsOf appends to dst what hits ask for, by the first hit on their counter.
func demandsOf(hits []Hit, counters *Counters, dst []demand) []demand {
	dst = slices.Grow(dst, len(hits))[:len(hits)]
	clear(dst)
	for i := range hits {
		if h, d := &hits[i], &dst[counters.First(i)]; !h.Refund {
			d.most = max(d.most, d.taken+max(h.cost(), h.least()))
			d.taken = min(d.taken+h.cost(), MaxExact)
		}
	}
	return dst
}
