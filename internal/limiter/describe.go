package limiter

import (
	"bytes"
	"slices"
	"time"
)

// Describe fills in out but for Over and Charged, which are known: what the
// outcome of hits means to their caller. states[i] is the state of the counter of
// hits[i] after the request, now the time of the decision in microseconds since
// the epoch.
func Describe(hits []Hit, states []State, now int64, out []Decision) {
	var over demands
	for i := range hits {
		l, d := hits[i].Limit, &out[i]
		s := l.roll(states[i], now)
		used, whole := l.left(s, now)
		d.Used, d.Remaining, d.ResetAfter = used, max(int64(l.Size())-used, 0), duration(whole)
		if s.Until > 0 {
			d.Remaining = 0
		}
		d.RetryAfter, d.Remembered = 0, false
		if d.Over {
			d.RetryAfter = Never
			if wait := l.wait(s, now, over.onCounterOf(hits, i)); wait != never {
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

func (d *demand) add(h *Hit) {
	if !h.Refund {
		d.most = max(d.most, d.taken+max(h.cost(), h.least()))
		d.taken = min(d.taken+h.cost(), MaxExact)
	}
}

// demands are those of the hits of one request, by the first hit on the counter.
// Those of few hits are summed up each time, which takes no memory.
type demands struct {
	counters Counters
	all      []demand // nil until somebody asks
}

// onCounterOf returns what must be free in the counter of hits[i].
func (d *demands) onCounterOf(hits []Hit, i int) int64 {
	if len(hits) <= few {
		var sum demand
		for j := range hits {
			if (j == i || bytes.Equal(hits[j].Key, hits[i].Key)) && !repeats(hits, j) {
				sum.add(&hits[j])
			}
		}
		return sum.most
	}
	if d.all == nil {
		d.counters, d.all = CountersOf(hits), make([]demand, len(hits))
		named := make(map[holdOf]bool)
		for j := range hits {
			first := d.counters.First(j)
			if h := &hits[j]; h.Hold != nil && h.Cost > 0 && !h.Refund {
				of := holdOf{first, holdName(h.Hold)}
				if named[of] {
					continue
				}
				named[of] = true
			}
			d.all[first].add(&hits[j])
		}
	}
	return d.all[d.counters.First(i)].most
}

// holdOf names a hold of the counter that a hit is the first on.
type holdOf struct {
	first int
	name  holdName
}

// repeats reports whether an earlier one of few hits takes the hold that hit j takes.
func repeats(hits []Hit, j int) bool {
	h := &hits[j]
	if h.Hold == nil || h.Cost == 0 || h.Refund {
		return false
	}
	return slices.ContainsFunc(hits[:j], func(e Hit) bool {
		return e.Cost > 0 && !e.Refund && bytes.Equal(e.Hold, h.Hold) && bytes.Equal(e.Key, h.Key)
	})
}
