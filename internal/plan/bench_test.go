package plan

import (
	"fmt"
	"sync/atomic"
	"testing"
)

// BenchmarkPrepare prepares a request of two descriptors, with so many exceptions in force
// of which none applies or one does. It must not allocate.
func BenchmarkPrepare(b *testing.B) {
	r := &Request{Domain: "api", Descriptors: []Descriptor{named("vip=alice"), named("user=bob")}}
	for _, in := range []struct {
		name  string
		force int
		of    string
	}{{"exceptions=none", 0, ""}, {"exceptions=10000", 10_000, ""}, {"exceptions=10000/applies", 10_000, "vip=alice"}} {
		b.Run(in.name, func(b *testing.B) {
			es := manyExceptions(in.force, in.of)
			p, planner, tree := new(Result), New(Options{Exceptions: inForce(es)}), load(b, rules)
			b.ReportAllocs()
			for b.Loop() {
				if err := planner.Prepare(p, tree, r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// manyExceptions are n from amounts, the first of them for a descriptor, if there is one.
func manyExceptions(n int, descriptor string) (all []*Exception) {
	for i := range n {
		e := &Exception{ID: fmt.Sprint("x", i), Domain: "api", Entries: named(fmt.Sprint("user=nobody", i)).Entries, Effect: Amount, Factor: 10}
		if i == 0 && descriptor != "" {
			e.Entries = named(descriptor).Entries
		}
		all = append(all, e)
	}
	return all
}

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
		if err := planner.Prepare(p, tree, r); err != nil {
			t.Fatal(err)
		}
		p.SetStatuses(true)
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
