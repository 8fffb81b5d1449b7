package plan

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
	Override
}

// limits returns the fixed window that o asks for, as a list of one, or what is wrong
// with it. domain is the label of the request's domain. It is empty if there are no
// rules for that domain: then nothing is limited, and the list is nil.
func (os *overrides) limits(domain string, o Override) ([]*limiter.Limit, error) {
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

// Check returns what is wrong with o.
func (o Override) Check() error {
	_, err := o.newLimit("")
	return err
}

func (o Override) newLimit(domain string) (*limiter.Limit, error) {
	if o.Unit == 0 || o.Unit == limiter.Week {
		return nil, fmt.Errorf("undefined unit, allowed are %s", strings.Join(OverrideUnitNames(), ", "))
	}
	return limiter.NewLimit(limiter.Spec{
		RequestsPerUnit: o.RequestsPerUnit,
		Unit:            o.Unit,
		UnitMultiplier:  o.UnitMultiplier,
		Series:          limiter.LabelSet{Domain: domain, Key1: "override", Rule: "override", Limit: "override"}.Series(),
	})
}

// OverrideUnitNames returns the names of the units that an override can have,
// shortest first.
func OverrideUnitNames() []string {
	return slices.DeleteFunc(limiter.UnitNames(), func(name string) bool { return name == limiter.Week.String() })
}
