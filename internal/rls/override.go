package rls

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"weir/internal/limiter"
)

// maxOverrides bounds how many limits of overrides are remembered.
const maxOverrides = 1024

// overrides remembers the limits that requests bring along, which are few as a
// rule, so that each is checked and its metrics are looked up only once. When
// it is full it starts anew. It keeps nothing of a request, whose texts may be
// long and any.
type overrides struct {
	mu    sync.RWMutex
	known map[overrideOf][]*limiter.Limit // each holds one, or none without rules for the domain
}

type overrideOf struct {
	domain string // as a label; all domains without rules are one
	limit  override
}

// limits returns the fixed window that o asks for as the only one of a list, or
// what is wrong with it. domain is the label of the request's domain; without
// one there are no rules for the domain, and nothing is limited.
func (os *overrides) limits(domain string, o override) ([]*limiter.Limit, error) {
	os.mu.RLock()
	limits, known := os.known[overrideOf{domain, o}]
	os.mu.RUnlock()
	if known {
		return limits, nil
	}
	l, err := o.newLimit(domain)
	if err != nil {
		return nil, err
	}
	if domain != "" {
		limits = []*limiter.Limit{l}
	}
	os.mu.Lock()
	defer os.mu.Unlock()
	if os.known == nil || len(os.known) >= maxOverrides {
		os.known = make(map[overrideOf][]*limiter.Limit)
	}
	os.known[overrideOf{domain, o}] = limits
	return limits, nil
}

// overrideUnits are the units by the numbers of envoy.type.v3.RateLimitUnit,
// which are not those of the response's unit. It knows no week.
var overrideUnits = []limiter.Unit{1: limiter.Second, limiter.Minute, limiter.Hour, limiter.Day, limiter.Month, limiter.Year}

func (o override) newLimit(domain string) (*limiter.Limit, error) {
	if unitOf(o.unit) == 0 {
		return nil, fmt.Errorf("undefined unit, allowed are %s", strings.Join(OverrideUnitNames(), ", "))
	}
	return limiter.NewLimit(limiter.Spec{
		RequestsPerUnit: o.requestsPerUnit,
		Unit:            unitOf(o.unit),
		UnitMultiplier:  o.unitMultiplier,
		Series:          limiter.Labels{Domain: domain, Key1: "override", Rule: "override", Limit: "override"}.Series(),
	})
}

// unitOf maps an envoy.type.v3.RateLimitUnit. An undefined one is no unit.
func unitOf(number int32) limiter.Unit {
	if number < 0 || int(number) >= len(overrideUnits) {
		return 0
	}
	return overrideUnits[number]
}

// numberOf maps back what unitOf does, and any other unit to 0.
func numberOf(u limiter.Unit) int32 {
	return int32(max(slices.Index(overrideUnits, u), 0))
}

// OverrideUnitNames lists the names of the units that an override can have,
// shortest first.
func OverrideUnitNames() []string {
	var names []string
	for _, u := range overrideUnits[1:] {
		names = append(names, u.String())
	}
	return names
}
