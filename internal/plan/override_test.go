package plan

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// Limits of overrides and of exceptions are made once, and not too many are remembered.
func TestMadeLimitsAreBounded(t *testing.T) {
	pl := New(Options{})
	limit := func(domain string, n uint32) *limiter.Limit {
		t.Helper()
		d := Descriptor{Override: Override{RequestsPerUnit: n, Unit: limiter.Second}}
		brought, _, err := pl.override(domain, &d, nil, -1)
		if err != nil || len(brought.limits) != 1 || brought.limits[0].RequestsPerUnit != uint64(n) || brought.limits[0].Series.Domain() != domain {
			t.Fatalf("got %v, %v, want one limit of %d in domain %s", brought.limits, err, n, domain)
		}
		return brought.limits[0]
	}
	l := limit("api", 7)
	twice, deny := pl.multiple(l, 2), pl.denial("api", new(Exception)).limits[0]
	if limit("api", 7) != l || limit("web", 7) == l || pl.multiple(l, 2) != twice || pl.denial("api", new(Exception)).limits[0] != deny {
		t.Error("a limit was made twice, or serves two domains")
	}
	for n := range uint32(2 * maxMade) {
		pl.multiple(limit("api", n), 3)
		if len(pl.overrides.known) > maxMade || len(pl.excepted.known) > maxMade {
			t.Fatalf("%d limits of overrides and %d of exceptions are remembered", len(pl.overrides.known), len(pl.excepted.known))
		}
	}
}

// Requests that are prepared at the same time share the limits that are made for them,
// also while these are forgotten because there are too many.
func TestMadeLimitsAreSharedByCallers(t *testing.T) {
	exceptions := new(atomic.Pointer[Exceptions])
	exceptions.Store(NewExceptions([]*Exception{{Domain: "api", Entries: named("user=a").Entries, Effect: Amount, Factor: 2}}))
	planner, tree := New(Options{Exceptions: exceptions}), load(t, "domain: api")
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			d := named("user=a").with(Override{})
			r, p := &Request{Domain: "api", Descriptors: []Descriptor{d}}, new(Result)
			for n := range uint32(maxMade + 100) {
				r.Descriptors[0].Override = Override{RequestsPerUnit: 1 + n, Unit: limiter.Hour}
				if err := planner.Prepare(p, tree, r); err != nil || p.Hits[0].Limit.RequestsPerUnit != 2*uint64(1+n) {
					t.Errorf("got %+v, error %v, want twice %d", p.Hits, err, 1+n)
					return
				}
			}
		})
	}
	callers.Wait()
}

// Callers may send any domain: what they send must not pile up.
func TestOverridesOfUnknownDomainsAreOne(t *testing.T) {
	planner, tree := New(Options{}), load(t, "domain: api")
	for i := range 10 {
		r := Request{Domain: fmt.Sprint("nobody", i), Descriptors: []Descriptor{named().with(Override{RequestsPerUnit: 1, Unit: limiter.Hour})}}
		testenv.OK(t, planner.Prepare(new(Result), tree, &r))
	}
	if n := len(planner.overrides.known); n != 1 {
		t.Errorf("%d overrides are kept, want one", n)
	}
}

// Envoy knows no week, so what is tested with one would never be asked.
func TestUnitsOfOverrides(t *testing.T) {
	allowed := strings.Join(OverrideUnitNames(), ", ")
	if want := "second, minute, hour, day, month, year"; allowed != want {
		t.Errorf("allowed: %s, want %s", allowed, want)
	}
	for unit := range limiter.Year + 1 {
		err := Override{Unit: unit}.Check()
		if refused := unit == 0 || unit == limiter.Week; refused != (err != nil) || refused && err.Error() != "unknown unit; use one of "+allowed {
			t.Errorf("unit %v: got %v", unit, err)
		}
	}
}
