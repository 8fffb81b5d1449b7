package explain

import (
	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/plan"
)

// Question is what shall be explained.
type Question struct {
	plan.Options
	Tree       *descriptors.Tree
	Failure    limiter.FailureMode // of limits that do not say it themselves
	Domain     string
	Descriptor []limiter.Entry
	// HitsAddend is the descriptor's own, 0 of which is a peek. nil is none: the
	// request asks for one unit.
	HitsAddend *uint64
	Store      Store // of the counters
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

// request returns the request of the descriptor alone.
func (q *Question) request() plan.Request {
	d := plan.Descriptor{Entries: q.Descriptor}
	if q.HitsAddend != nil {
		d.HitsAddend, d.HasHitsAddend = *q.HitsAddend, true
	}
	return plan.Request{Domain: q.Domain, Descriptors: []plan.Descriptor{d}}
}
