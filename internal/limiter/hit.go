package limiter

import (
	"bytes"
	"cmp"
	"slices"
	"time"
)

// Hit asks one limit for units on behalf of one descriptor of a request. Its bytes belong to
// the caller, who may reuse their memory after the decision.
type Hit struct {
	Limit *Limit
	Key   []byte // key of the counter, see Keys
	// Cost is the number of units that the hit asks for. 0 is a peek, which writes nothing: it
	// asks whether one more unit, or its hold, would pass or, with Always, whether the use is
	// within the limit. Costs too large to be counted exactly, all far above the limit, count
	// as one large number.
	Cost   uint64
	Refund bool // refunds Cost: always admitted and written, but no counter falls below 0
	Always bool // writes Cost even if it does not fit or its request is denied, because it has been used
	// Hold is the name of the hold to take or release, of HoldSize bytes, or nil unless the
	// limit counts by Concurrency. One hold costs 1, even if Cost is more.
	Hold []byte
	// Mode, unless it is Enforced, replaces the mode of the limit, for SHADOW_MODE and
	// QUOTA_MODE; see package plan.
	Mode Mode
	// Labels are the metrics' labels of the rule's levels for this request, each followed by
	// LevelEnd, if they contain values of the request. If nil, the limit's Series applies.
	Labels []byte
}

// EffectiveMode returns the mode that decides how an exceeded limit affects the request.
func (h *Hit) EffectiveMode() Mode { return cmp.Or(h.Mode, h.Limit.Mode) }

// cost returns Cost, at most a number that is larger than any limit and small enough for sums.
func (h *Hit) cost() int64 {
	if h.Hold != nil {
		return int64(min(h.Cost, 1))
	}
	return int64(min(h.Cost, MaxExact/2))
}

// CountedCost returns the units that the hit takes or refunds: its cost, at most the largest
// that its limit counts exactly.
func (h *Hit) CountedCost() int64 { return min(h.cost(), h.Limit.maxCost) }

// least returns the units that a peek asks for. Where usage is charged although it does not
// fit, a peek for one unit would deny requests that the charge itself permits.
func (h *Hit) least() int64 {
	if h.Always {
		return 0
	}
	return 1
}

// Unconditional reports whether the hit is written even if its request is denied.
func (h *Hit) Unconditional() bool { return h.Refund || h.Always && h.Cost > 0 }

// Never is the RetryAfter of a hit that will never fit.
const Never time.Duration = -1

// Decision is the outcome of one hit.
type Decision struct {
	Over       bool // the hit did not fit its limit; its mode decides what that means for the request
	Charged    bool // the cost was written or, for a refund, refunded
	Already    bool // the hold was taken before or, for a refund, was not taken: nothing changed
	Remembered bool // the hit was decided by a remembered state, without asking the store
	// Used is the counter's use after the request, rounded up to a unit. It exceeds the limit
	// if usage was charged that did not fit, or if the limit was lowered.
	Used       int64
	Remaining  int64         // units that the limit still admits then, 0 while the counter is banned
	ResetAfter time.Duration // until the limit is fully available again, without a ban
	// RetryAfter is the time after which this counter would admit all of the request's hits on
	// it, if nothing else happened: Never if they will never fit, 0 if the hit fitted or would
	// fit now that the request's refunds are written. For a Concurrency limit it is a second,
	// because the time of the next release is unknown.
	RetryAfter time.Duration
}

// few is the largest number of hits for which comparing all pairs is cheaper than a map.
const few = 16

// Firsts appends to dst, for each hit, the index of the first hit on its counter. A request of
// few hits, the usual case, needs no map. A request of many hits, which a client may send to do
// harm, takes time in proportion to them.
func Firsts(hits []Hit, dst []int) []int {
	var indexes map[string]int // nil for few hits
	dst = slices.Grow(dst, len(hits))
	if len(hits) > few {
		indexes = make(map[string]int, len(hits))
	}
	for i := range hits {
		key, first := hits[i].Key, 0
		if indexes == nil {
			for !bytes.Equal(hits[first].Key, key) {
				first++
			}
		} else if seen, known := indexes[string(key)]; known {
			first = seen
		} else {
			first, indexes[string(key)] = i, i
		}
		dst = append(dst, first)
	}
	return dst
}
