package explain

import (
	"cmp"

	"weir/internal/descriptors"
	"weir/internal/limiter"
)

// Question is what shall be explained.
type Question struct {
	Tree       *descriptors.Tree
	Keys       limiter.Keys
	Charge     limiter.Charge      // of limits that do not say it themselves
	Failure    limiter.FailureMode // the same
	Domain     string
	Descriptor []limiter.Entry
	// HitsAddend is the descriptor's own, 0 of which is a peek. nil is none: the
	// request asks for one unit.
	HitsAddend *uint64
	Store      Store // of the counters
	// ShadowMode and QuotaMode are switches of the server.
	ShadowMode, QuotaMode bool
}

// Store is what keeps the counters.
type Store uint8

// What can be looked up of a counter: nothing in the memory of a server, its key in
// a Redis, and its slot, too, in a cluster.
const (
	InMemory Store = iota
	InRedis
	InCluster
)

// cost is how many units the descriptor asks for.
func (q *Question) cost() uint64 {
	if q.HitsAddend == nil {
		return 1
	}
	return *q.HitsAddend
}

// mode is that in which the server decides on l, and the switch that makes it
// another one than the limit's own.
func (q *Question) mode(l *limiter.Limit) (m limiter.Mode, by string) {
	switch {
	case q.ShadowMode && l.Mode != limiter.Shadow:
		return limiter.Shadow, "SHADOW_MODE"
	case q.QuotaMode && l.Mode == limiter.Enforced:
		return limiter.Quota, "QUOTA_MODE"
	default:
		return l.Mode, ""
	}
}

// always tells whether a hit on l is charged even if it is denied.
func (q *Question) always(l *limiter.Limit) bool {
	switch cmp.Or(l.Charge, q.Charge, limiter.Auto) {
	case limiter.Always:
		return true
	case limiter.Auto:
		return q.HitsAddend != nil && *q.HitsAddend > 0
	default:
		return false
	}
}
