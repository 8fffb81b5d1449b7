package plan

import (
	"fmt"
	"slices"
	"strings"

	"weir/internal/descriptors"
	"weir/internal/limiter"
)

// overrideKey has all that the limits of an override depend on. It contains no text of a
// request, because clients choose those and their length.
type overrideKey struct {
	domain string // its label
	Override
	judge descriptors.Override // of the rule, or the zero value if there is none
}

// addOverride adds the level of m's override, which replaces m's rule and which that rule may
// judge. It returns the lowest rule that applies beside it, or nil if there is none. A domain
// without rules has no limits. If the override is invalid, addOverride adds a limit that denies
// everything, and says why.
func (pl *Planner) addOverride(p *Plan, m *match, domain string, o Override) (above *descriptors.Rule, err error) {
	key := overrideKey{domain: p.Tree.DomainLabel(domain), Override: o}
	if key.domain == "" {
		return nil, nil
	}
	added := level{entries: m.entries}
	m.reported = nil
	if m.rule != nil {
		above = m.rule.Passed(len(m.entries))
		if m.rule.Override != nil {
			m.reported, added.rule, added.patterns, key.judge = m.rule, m.rule, m.rule.Patterns, *m.rule.Override
		}
	}
	added.limits, err = pl.overrideLimits(key)
	if err != nil {
		err = fmt.Errorf("limit: %w", err)
		added = level{entries: m.entries, limits: pl.denial(exceptedKey{domain: key.domain, by: "override"})}
	}
	m.inFlight = added.limits[0].HoldKey() != ""
	p.addLevel(added)
	return above, err
}

// overrideLimits returns the limits of key. It makes them only once.
func (pl *Planner) overrideLimits(key overrideKey) ([]*limiter.Limit, error) {
	return pl.overrides.get(key, func() ([]*limiter.Limit, error) {
		return key.newLimits(key.domain, key.judge, pl.CalendarMonths)
	})
}

// Check returns what is wrong with o.
func (o Override) Check() error {
	_, err := o.newLimits("", descriptors.Override{}, false)
	return err
}

// newLimits returns the limit of o. Where judge says what is admitted at most, that
// holds, too: in the same period the lower amount, else both limits. To compare rates
// would not be enough: a limit per year passes all of it at once.
func (o Override) newLimits(domain string, judge descriptors.Override, calendarMonths bool) ([]*limiter.Limit, error) {
	if o.Unit == 0 || o.Unit == limiter.Week {
		return nil, fmt.Errorf("unknown unit; use one of %s", strings.Join(OverrideUnitNames(), ", "))
	}
	if judge.Like == nil {
		judge.Series = limiter.LabelSet{Domain: domain, Key1: "override", Rule: "override", Limit: "override"}.Series()
	}
	asked, err := judge.NewLimit(uint64(o.RequestsPerUnit), o.Unit, o.UnitMultiplier, calendarMonths)
	if judge.Most == 0 {
		return []*limiter.Limit{asked}, err
	}
	most, errOfMost := judge.NewMost()
	switch {
	case errOfMost != nil:
		return nil, errOfMost // no judge of a Tree has one
	case err != nil && o.Check() == nil:
		return []*limiter.Limit{most}, nil // its algorithm cannot count so much
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

// OverrideUnitNames returns the names of the units that an override can have, shortest first.
func OverrideUnitNames() []string {
	return slices.DeleteFunc(limiter.UnitNames(), func(name string) bool { return name == limiter.Week.String() })
}
