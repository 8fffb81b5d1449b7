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

// The limits of overrides and exceptions are made once, and a bounded number of them is
// remembered.
func TestMadeLimitsAreBounded(t *testing.T) {
	pl := New(Options{})
	limit := func(domain string, n uint32) *limiter.Limit {
		t.Helper()
		limits, err := pl.overrideLimits(overrideKey{domain: domain, Override: Override{RequestsPerUnit: n, Unit: limiter.Second}})
		if err != nil || len(limits) != 1 || limits[0].RequestsPerUnit != uint64(n) || limits[0].Series.Domain() != domain {
			t.Fatalf("got %v, %v, want one limit of %d in domain %s", limits, err, n, domain)
		}
		return limits[0]
	}
	l := limit("api", 7)
	twice, deny := pl.multiple(l, 2), pl.denial(exceptedKey{domain: "api", by: "exception"})[0]
	if limit("api", 7) != l || limit("web", 7) == l || pl.multiple(l, 2) != twice || pl.denial(exceptedKey{domain: "api", by: "exception"})[0] != deny {
		t.Error("a limit was made twice, or serves two domains")
	}
	// Clients may send any domain. No limits are made for domains without rules.
	tree, before := load(t, "domain: api"), len(pl.overrides.known)
	for i := range 10 {
		r := Request{Domain: fmt.Sprint("nobody", i), Descriptors: []Descriptor{named().with(Override{RequestsPerUnit: 1, Unit: limiter.Hour})}}
		testenv.OK(t, pl.Prepare(new(Plan), tree, &r))
	}
	testenv.Equal(t, len(pl.overrides.known), before, "overrides after ten unknown domains")
	for n := range uint32(2 * maxCached) {
		pl.multiple(limit("api", n), 3)
		if len(pl.overrides.known) > maxCached || len(pl.excepted.known) > maxCached {
			t.Fatalf("%d limits of overrides and %d of exceptions are remembered", len(pl.overrides.known), len(pl.excepted.known))
		}
	}
}

// Concurrent requests share the limits that are made for them, even while a full cache is
// emptied.
func TestMadeLimitsAreSharedByCallers(t *testing.T) {
	exceptions := new(atomic.Pointer[Exceptions])
	exceptions.Store(NewExceptions([]*Exception{{JSONDescriptor: NewJSONDescriptor("api", named("user=a").Entries), Effect: Amount, Factor: 2}}))
	planner, tree := New(Options{Exceptions: exceptions}), load(t, "domain: api")
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			d := named("user=a").with(Override{})
			r, p := &Request{Domain: "api", Descriptors: []Descriptor{d}}, new(Plan)
			for n := range uint32(maxCached + 100) {
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

// Envoy has no unit week, so overrides must not have it. An invalid override is invalid under
// every rule.
func TestInvalidOverrides(t *testing.T) {
	const unknown = "unknown unit; use one of second, minute, hour, day, month, year"
	tree := load(t, judgedRules)
	for o, want := range map[Override]string{
		{1, 0, 0}: unknown, {1, limiter.Week, 0}: unknown, {1, limiter.Month, 0}: "",
		{1, limiter.Year, 101}: "a period of 101 years is too long, at most 100 years are allowed",
	} {
		errs := []error{o.Check()}
		for _, descriptor := range []string{"tenant=a", "trial=a", "nobody=a"} {
			r := &Request{Domain: "api", Descriptors: []Descriptor{words(descriptor).with(o)}}
			var p Plan
			testenv.OK(t, New(Options{}).Prepare(&p, tree, r))
			errs = append(errs, p.Invalid)
		}
		for _, err := range errs {
			if (err == nil) != (want == "") || err != nil && !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%+v: got %v, want %q", o, err, want)
			}
		}
	}
}
