package rls

import (
	"strings"
	"sync"

	"weir/internal/limiter"
)

// maxOverrides bounds how many limits of overrides are remembered.
const maxOverrides = 1024

// overrides remembers the limits that requests bring along, which are few as a
// rule, so that each is checked and its metrics are looked up only once. When
// it is full it starts anew.
type overrides struct {
	mu    sync.RWMutex
	known map[overrideOf][]*limiter.Limit // each holds one
}

type overrideOf struct {
	domain string
	limit  override
}

// limits returns the fixed window that o asks for in domain as the only one of
// a list, or what is wrong with it.
func (os *overrides) limits(domain string, o override) ([]*limiter.Limit, error) {
	os.mu.RLock()
	limits := os.known[overrideOf{domain, o}]
	os.mu.RUnlock()
	if limits != nil {
		return limits, nil
	}
	domain = strings.Clone(domain) // which is a part of a whole message
	l, err := limiter.NewLimit(limiter.Spec{
		RequestsPerUnit: o.requestsPerUnit,
		Unit:            unitOf(o.unit),
		UnitMultiplier:  o.unitMultiplier,
		Series:          limiter.Series{Domain: domain, Key1: "override"},
	})
	if err != nil {
		return nil, err
	}
	limits = []*limiter.Limit{l}
	os.mu.Lock()
	defer os.mu.Unlock()
	if os.known == nil || len(os.known) >= maxOverrides {
		os.known = make(map[overrideOf][]*limiter.Limit)
	}
	os.known[overrideOf{domain, o}] = limits
	return limits, nil
}

// unitOf maps an envoy.type.v3.RateLimitUnit, whose numbers are not those of
// the response's unit. An undefined one is no unit.
func unitOf(unit int32) limiter.Unit {
	switch unit {
	case 1:
		return limiter.Second
	case 2:
		return limiter.Minute
	case 3:
		return limiter.Hour
	case 4:
		return limiter.Day
	case 5:
		return limiter.Month
	case 6:
		return limiter.Year
	}
	return 0
}
