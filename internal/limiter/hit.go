package limiter

import (
	"bytes"
	"cmp"
	"slices"
	"time"
)

// Hit asks one limit for units on behalf of one descriptor of a request. The caller may reuse the
// memory of the Hit's byte slices after the decision.
type Hit struct {
	Limit *Limit
	Key   []byte // key of the counter, see Keys
	// Cost is the number of units that the hit asks for. A hit of cost 0 is a peek, unless it
	// settles a reservation. A peek takes nothing: it asks whether one more unit, or its Hold,
	// would fit or, with Always, whether the use is within the limit. All costs that are too large
	// to be counted exactly are replaced by the same number, which is above any amount.
	Cost   uint64
	Refund bool // refunds Cost: always admitted and written, but no counter falls below 0
	Always bool // writes Cost even if it does not fit or its request is denied, because the units are already used
	// Hold is the name of the hold to take or release, of HoldSize bytes. It is nil unless the
	// limit counts by Concurrency. A hold costs 1, even if Cost is more.
	Hold []byte
	// Mode replaces the mode of the limit, unless Mode is Enforced. The settings SHADOW_MODE and
	// QUOTA_MODE set Mode; see package plan.
	Mode Mode
	// Group is the number of the hit's quota group. If 0, a hit in quota mode is a group of its
	// own. A hit in shadow mode never counts as an exceeded quota of its group.
	Group uint8
	// Labels are the metric labels of the rule's levels, each followed by LevelEnd, if they contain
	// values of the request. If nil, the limit's Series applies.
	Labels []byte
	// Reservation is the key of a reservation's record, or nil. A hit that is charged stores its
	// cost in the record. A refund settles the reservation: its Cost, which may be 0, replaces the
	// reserved units in their window, and the record is removed. Without a record, because the
	// window ended or the reservation was settled, nothing changes. In a cluster, Reservation has
	// the hash slot of Key.
	Reservation []byte
}

// EffectiveMode returns the mode that decides how an exceeded limit affects the request.
func (h *Hit) EffectiveMode() Mode { return cmp.Or(h.Mode, h.Limit.Mode) }

// cost returns Cost, capped at a number that is larger than any limit and small enough to be added
// exactly. The cost of a hold is at most 1.
func (h *Hit) cost() int64 {
	if h.Hold != nil {
		return int64(min(h.Cost, 1))
	}
	return int64(min(h.Cost, MaxExact/2))
}

// CountedCost returns the units that the hit takes or refunds: its cost, capped at the largest
// cost that its limit counts exactly.
func (h *Hit) CountedCost() int64 { return min(h.cost(), h.Limit.maxCost) }

// least returns the number of units that a peek asks for. It is 0 with Always, because a peek for
// one unit would deny requests that the later charge permits.
func (h *Hit) least() int64 {
	if h.Always {
		return 0
	}
	return 1
}

// Unconditional reports whether the hit is written even if its request is denied.
func (h *Hit) Unconditional() bool { return h.Refund || h.Always && h.Cost > 0 }

// settles reports whether the hit settles a reservation.
func (h *Hit) settles() bool { return h.Refund && h.Reservation != nil }

// isPeek reports whether the hit neither changes the counter's use nor settles a reservation.
func (h *Hit) isPeek() bool { return h.Cost == 0 && !h.settles() }

// Never is the RetryAfter of a hit that will never fit.
const Never time.Duration = -1

// Decision is the outcome of one hit.
type Decision struct {
	Over       bool // the hit did not fit its limit; its mode decides the effect on the request
	Charged    bool // the hit was written, or would have been written if not Already
	Already    bool // nothing changed: the hold was already taken or, for a refund, was not taken, or the reservation has no record
	Remembered bool // a remembered state decided the hit, and the store was not asked
	// Used is the counter's use after the request, rounded up to a whole unit. It exceeds the limit
	// after a charge that did not fit, or if the limit was lowered.
	Used       int64
	Remaining  int64         // units that the limit still admits after the request, 0 while the counter is banned
	ResetAfter time.Duration // until the limit is fully available again and no ban is in force
	// RetryAfter is the time after which the counter would admit all of the request's hits on this
	// counter if nothing else happened. It is Never if these hits will never fit, and 0 if the hit
	// fit or would fit now that the request's refunds are written. For a Concurrency limit, it is a
	// second, because the time of the next release is unknown.
	RetryAfter time.Duration
	Reserved   int64 // reserved units that the cost of a settlement replaced
}

// few is the largest number of hits for which comparing all pairs is cheaper than a map.
const few = 16

// Firsts appends to dst, for each hit, the index of the first hit on its counter. A request of few
// hits, the usual case, needs no map. The time is proportional to the number of hits, so a client
// cannot slow the server down with many hits.
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
