package plan

import (
	"fmt"
	"slices"
	"strings"

	"weir/internal/descriptors"
	"weir/internal/limiter"
)

// overrideKey has everything on which the limits of an override depend. It contains no text of a
// request, because clients choose these texts and their length.
type overrideKey struct {
	domain string // label for the domain in metrics
	Override
	judge descriptors.Override // says how to count the override; zero unless the rule has the field override
	bound descriptors.Override // judge, perhaps with a lower assigned amount as its maximum
}

// addOverride adds the level of the override o, which replaces m's rule. If that rule has the field
// override, the field says how to count o, see descriptors.Override. In a domain without rules,
// addOverride adds nothing. It returns the lowest rule whose limits also apply, or nil if there
// is none. If the override is invalid, addOverride adds a limit that denies everything, and
// returns the reason.
func (pl *Planner) addOverride(p *Plan, m *match, domain string, o Override) (lowest *descriptors.Rule, err error) {
	key := overrideKey{domain: p.Tree.DomainLabel(domain), Override: o}
	if key.domain == "" {
		return nil, nil
	}
	added := level{entries: m.entries, sent: true}
	m.reported = nil
	if m.rule != nil {
		lowest = m.rule.Passed(len(m.entries))
		if m.rule.Override != nil {
			m.reported, added.rule, added.patterns, key.judge = m.rule, m.rule, m.rule.Patterns, *m.rule.Override
		}
	}
	key.bound = key.judge
	if m.rule != nil && lowest != m.rule {
		pl.boundByAssigned(&key, domain, m)
	}
	added.limits, err = pl.overrideLimits(key)
	if err != nil {
		err = fmt.Errorf("limit: %w", err)
		added = level{entries: m.entries, sent: true, limits: pl.denial(exceptedKey{domain: key.domain, by: "override"})}
	}
	m.inFlight = added.limits[0].HoldKey() != ""
	p.addLevel(added)
	return lowest, err
}

// overrideLimits returns the limits of key, from the cache if possible. It fails if key has an
// invalid override.
func (pl *Planner) overrideLimits(key overrideKey) ([]*limiter.Limit, error) {
	return pl.overrides.get(key, func() ([]*limiter.Limit, error) {
		return key.newLimits(key.domain, key.judge, key.bound, pl.CalendarMonths)
	})
}

// Check returns an error if o is invalid.
func (o Override) Check() error {
	_, err := o.newLimits("", descriptors.Override{}, descriptors.Override{}, false)
	return err
}

// newLimits returns the limit that o asks for. If bound has a maximum, newLimits also makes the limit
// of that maximum, and returns the lower of the two if their periods are equal, otherwise both.
// Comparing rates would not be enough, because a limit per year can be used up within seconds.
func (o Override) newLimits(domain string, judge, bound descriptors.Override, calendarMonths bool) ([]*limiter.Limit, error) {
	if o.Unit == 0 || o.Unit == limiter.Week {
		return nil, fmt.Errorf("unknown unit; use one of %s", strings.Join(OverrideUnitNames(), ", "))
	}
	if judge.Like == nil {
		judge.Series = limiter.LabelSet{Domain: domain, Key1: "override", Rule: "override", Limit: "override"}.Series()
		bound.Series = judge.Series
	}
	asked, err := judge.NewLimit(uint64(o.RequestsPerUnit), o.Unit, o.UnitMultiplier, calendarMonths)
	if bound.Most == 0 {
		return []*limiter.Limit{asked}, err
	}
	most, unexact := bound.NewMost()
	switch {
	case unexact != nil: // the rule was loaded later, and its algorithm cannot count the assigned amount
		return []*limiter.Limit{asked}, err
	case err != nil && o.Check() == nil:
		return []*limiter.Limit{most}, nil // the judge's algorithm cannot count as much as o asks for
	case err != nil:
		return nil, err
	case asked.Period() != most.Period():
		return []*limiter.Limit{asked, most}, nil
	case asked.RequestsPerUnit > most.RequestsPerUnit:
		return []*limiter.Limit{most}, nil
	default:
		return []*limiter.Limit{asked}, nil
	}
}

// OverrideUnitNames returns the names of the units that overrides can have, shortest unit first.
func OverrideUnitNames() []string {
	return slices.DeleteFunc(limiter.UnitNames(), func(name string) bool { return name == limiter.Week.String() })
}
