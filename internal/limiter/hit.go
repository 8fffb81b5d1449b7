package limiter

import (
	"bytes"
	"cmp"
	"slices"
	"time"
)

// Hit is one limit asked for by one descriptor of one request. Its bytes belong to the
// caller, who may use their memory again once the decision is there.
type Hit struct {
	Limit *Limit
	Key   []byte // spells the counter, see Keys
	// Cost is how many units the hit asks for. 0 is a peek, which writes nothing: it asks
	// whether one more unit, or its hold, would pass or, with Always, whether no more than the
	// limit is used. Costs too large to be counted exactly, which are all far above the limit,
	// are taken as one large number.
	Cost   uint64
	Refund bool // gives Cost back: always admitted and written, but no counter falls below 0
	Always bool // writes Cost even if it does not fit or its request is denied: it is used already
	// Hold names the hold that is taken or given back, in HoldSize bytes: nil unless the limit
	// counts by Concurrency. One hold costs 1, whatever Cost is above that.
	Hold []byte
	// Mode replaces that of the limit unless it is Enforced: for SHADOW_MODE and QUOTA_MODE,
	// see package plan.
	Mode Mode
	// Labels are what metrics call the levels of the rule for this request, each followed by
	// LevelEnd, where they hold values of the request. nil leaves the hit to the limit's Series.
	Labels []byte
}

// EffectiveMode returns what it means for the request that the hit is over.
func (h *Hit) EffectiveMode() Mode { return cmp.Or(h.Mode, h.Limit.Mode) }

// cost is Cost, or a number larger than any limit of which some can be summed.
func (h *Hit) cost() int64 {
	if h.Hold != nil {
		return int64(min(h.Cost, 1))
	}
	return int64(min(h.Cost, MaxExact/2))
}

// CountedCost returns what the hit takes or gives: its cost, or the largest that its
// limit counts exactly.
func (h *Hit) CountedCost() int64 { return min(h.cost(), h.Limit.most) }

// least is what a peek asks for, in units. Where usage is charged although it does
// not fit, a peek that asked for one would deny what the charge itself permits.
func (h *Hit) least() int64 {
	if h.Always {
		return 0
	}
	return 1
}

// Unconditional reports whether the hit is written whatever becomes of its request.
func (h *Hit) Unconditional() bool { return h.Refund || h.Always && h.Cost > 0 }

// Never is the RetryAfter of a hit that no waiting makes fit.
const Never time.Duration = -1

// Decision is the outcome for one hit.
type Decision struct {
	Over       bool // it did not fit its limit; what follows for the request depends on its mode
	Charged    bool // the cost was written or, for a refund, given back
	Already    bool // the hold was there already, or for a refund was not: nothing changed
	Remembered bool // it was known to be over without asking where the counter is
	// Used is what the counter holds after the request, rounded up to a unit. It exceeds the
	// limit where usage was charged that did not fit, or the limit was lowered.
	Used       int64
	Remaining  int64         // what the limit still admits then, 0 while the counter is banned
	ResetAfter time.Duration // until the whole limit is free again, and no ban in force
	// RetryAfter is the time after which this counter would admit the same request if nothing
	// else happened, that is all hits on it together: Never if no waiting helps, 0 if the hit
	// fitted, or would now that the request's refunds are written. Of a limit by Concurrency
	// it is a second: nobody knows.
	RetryAfter time.Duration
}

// few is up to how many hits comparing all with each other costs less than a map.
const few = 16

// Firsts appends to dst, for each hit, the place of the first one on its counter. A request
// of few hits, which is the usual one, costs no memory; one of many, which a client may
// send to do harm, costs time in proportion to its hits.
func Firsts(hits []Hit, dst []int) []int {
	var places map[string]int // nil for few hits
	dst = slices.Grow(dst, len(hits))
	if len(hits) > few {
		places = make(map[string]int, len(hits))
	}
	for i := range hits {
		key, first := hits[i].Key, 0
		if places == nil {
			for !bytes.Equal(hits[first].Key, key) {
				first++
			}
		} else if at, known := places[string(key)]; known {
			first = at
		} else {
			first, places[string(key)] = i, i
		}
		dst = append(dst, first)
	}
	return dst
}
