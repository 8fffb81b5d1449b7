package plan

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/operators/exceptions"
)

// BenchmarkPrepare prepares a request of two descriptors, with so many exceptions in force
// of which none applies or one does. It must not allocate.
func BenchmarkPrepare(b *testing.B) {
	r := &Request{Domain: "api", Descriptors: []Descriptor{named("vip=alice"), named("user=bob")}}
	for _, in := range []struct {
		name  string
		force int
		of    string
	}{{"exceptions=none", 0, ""}, {"exceptions=10000", exceptions.Most, ""}, {"exceptions=10000/applies", exceptions.Most, "vip=alice"}} {
		b.Run(in.name, func(b *testing.B) {
			keeper := exceptions.NewKeeper(exceptions.Options{
				Store: store(b, in.force, in.of), Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
			})
			if err := keeper.Load(b.Context()); err != nil || len(keeper.All()) != in.force {
				b.Fatalf("%d exceptions are in force (error: %v)", len(keeper.All()), err)
			}
			p, planner, tree := new(Plan), New(Options{Exceptions: keeper.Current()}), load(b, rules)
			b.ReportAllocs()
			for b.Loop() {
				if err := planner.Prepare(p, tree, r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// store has n exceptions from amounts, the first of them for a descriptor, if there is one.
func store(tb testing.TB, n int, descriptor string) *exceptions.Memory {
	tb.Helper()
	var s exceptions.Memory
	for i := range n {
		key, value := "user", fmt.Sprint("nobody", i)
		if i == 0 && descriptor != "" {
			d := named(descriptor)
			key, value = d.Entries[0].Key, d.Entries[0].Value
		}
		body := fmt.Sprintf(`{"format":1,"domain":"api","entries":[[%q,%q]],"effect":"amount","factor":10,"until":%q}`, key, value, time.Now().Add(time.Hour).Format(time.RFC3339))
		if err := s.Add(tb.Context(), exceptions.Record{ID: fmt.Sprint("x", i), Body: []byte(body)}, n); err != nil {
			tb.Fatal(err)
		}
	}
	return &s
}

// Plans are used again and again, with exceptions, too.
func TestExceptionsAllocateNothing(t *testing.T) {
	keeper := exceptions.NewKeeper(exceptions.Options{Store: new(exceptions.Memory), Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler)})
	for _, effect := range []string{"allow", "deny", "amount"} {
		n := exceptions.New{Domain: "api", Entries: named("user=" + effect).Entries, Effect: effect, For: time.Hour, Reason: "test"}
		if effect == "amount" {
			n.Factor = 2
		}
		if _, err := keeper.Add(t.Context(), n, ""); err != nil {
			t.Fatal(err)
		}
	}
	p, planner, tree := new(Plan), New(Options{Exceptions: keeper.Current()}), load(t, rules)
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
