package plan

import (
	"fmt"
	"strings"
	"testing"

	"weir/internal/limiter"
)

func TestOverridesAreBounded(t *testing.T) {
	var os overrides
	limit := func(domain string, o Override) *limiter.Limit {
		t.Helper()
		limits, err := os.limits(domain, o)
		if err != nil || len(limits) != 1 {
			t.Fatalf("got %v, %v, want one limit", limits, err)
		}
		return limits[0]
	}
	first := limit("api", Override{Unit: limiter.Second})
	if limit("api", Override{Unit: limiter.Second}) != first {
		t.Error("the same override made two limits")
	}
	if other := limit("web", Override{Unit: limiter.Second}); other.Series.Domain() != "web" {
		t.Errorf("domain of the metrics is %q, want web", other.Series.Domain())
	}
	for n := range uint32(3 * maxOverrides) {
		if l := limit("api", Override{RequestsPerUnit: n, Unit: limiter.Second}); l.RequestsPerUnit != n {
			t.Fatalf("override %d: got %v", n, l.RequestsPerUnit)
		}
	}
	if len(os.known) > maxOverrides {
		t.Errorf("%d limits are kept, want at most %d", len(os.known), maxOverrides)
	}
}

// Callers may send any domain: what they send must not pile up.
func TestOverridesOfUnknownDomainsAreOne(t *testing.T) {
	planner, tree := New(Options{}), load(t, "domain: api")
	for i := range 10 {
		r := Request{Domain: fmt.Sprint("nobody", i), Descriptors: []Descriptor{{
			Override: Override{RequestsPerUnit: 1, Unit: limiter.Hour}, HasOverride: true,
		}}}
		if err := planner.Prepare(new(Plan), tree, &r); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(planner.overrides.known); n != 1 {
		t.Errorf("%d overrides are kept, want one", n)
	}
}

func TestKnownOverridesAreNotMadeAnew(t *testing.T) {
	for name, domain := range map[string]string{"a domain with rules": "api", "one without": ""} {
		t.Run(name, func(t *testing.T) {
			var os overrides
			if n := testing.AllocsPerRun(100, func() {
				if limits, err := os.limits(domain, Override{RequestsPerUnit: 1, Unit: limiter.Second}); err != nil || len(limits) > 0 != (domain != "") {
					t.Fatalf("got %v, %v", limits, err)
				}
			}); n != 0 {
				t.Errorf("%v allocations, want none", n)
			}
			for range 2 {
				if _, err := os.limits(domain, Override{}); err == nil {
					t.Error("an undefined unit is no error")
				}
			}
		})
	}
}

// Envoy knows no week, so what is tested with one would never be asked.
func TestUnitsOfOverrides(t *testing.T) {
	allowed := strings.Join(OverrideUnitNames(), ", ")
	if want := "second, minute, hour, day, month, year"; allowed != want {
		t.Errorf("allowed are %s, want %s", allowed, want)
	}
	for unit := range limiter.Year + 1 {
		err := Override{Unit: unit}.Check()
		if refused := unit == 0 || unit == limiter.Week; refused != (err != nil) || refused && err.Error() != "undefined unit, allowed are "+allowed {
			t.Errorf("unit %v: got %v", unit, err)
		}
	}
}
