package plan

import (
	"sync/atomic"
	"testing"

	"weir/internal/testenv"
)

// inForce puts exceptions in force.
func inForce(all []*Exception) *atomic.Pointer[Exceptions] {
	var p atomic.Pointer[Exceptions]
	p.Store(NewExceptions(all))
	return &p
}

// Plans are used again and again, with exceptions, too.
func TestExceptionsAllocateNothing(t *testing.T) {
	var all []*Exception
	for _, effect := range Effects {
		all = append(all, &Exception{Domain: "api", Entries: named("user=" + string(effect)).Entries, Effect: effect, Factor: 2})
	}
	p, planner, tree := new(Result), New(Options{Exceptions: inForce(all)}), load(t, rules)
	r := &Request{Domain: "api", Descriptors: []Descriptor{named("user=allow"), named("user=deny"), named("user=amount"), named("user=bob")}}
	if n := testing.AllocsPerRun(100, func() {
		testenv.OK(t, planner.Prepare(p, tree, r))
		p.SetStatuses(true)
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
