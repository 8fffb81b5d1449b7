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
	mu     sync.RWMutex
	limits map[overrideOf]*limiter.Limit
}

type overrideOf struct {
	domain string
	limit  override
}

// limit returns the fixed window that o asks for in domain, or what is wrong
// with it.
func (os *overrides) limit(domain string, o override) (*limiter.Limit, error) {
	os.mu.RLock()
	l := os.limits[overrideOf{domain, o}]
	os.mu.RUnlock()
	if l != nil {
		return l, nil
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
	os.mu.Lock()
	defer os.mu.Unlock()
	if os.limits == nil || len(os.limits) >= maxOverrides {
		os.limits = make(map[overrideOf]*limiter.Limit)
	}
	os.limits[overrideOf{domain, o}] = l
	return l, nil
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
