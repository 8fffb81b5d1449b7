package plan

import (
	"fmt"
	"slices"
	"strings"

	"weir/internal/descriptors"
	"weir/internal/limiter"
)

// overrideOf is what the limits of an override depend on. It has nothing of a request,
// whose texts may be long and any.
type overrideOf struct {
	domain string // as a label
	Override
	judge descriptors.Override // of the rule; the zero one if there is none
}

// override returns the limit that d brings along, which a rule may judge, and what applies
// from above. rule is the one in whose place it is, nil if there is none, and holdEntry which
// entry names a hold of that. domain is its label, empty if it has no rules: then nothing is
// limited.
func (pl *Planner) override(domain string, d *Descriptor, rule *descriptors.Rule, holdEntry int) (own level, above *descriptors.Rule, err error) {
	of := overrideOf{domain: domain, Override: d.Override}
	if rule != nil {
		entries := len(d.Entries)
		if holdEntry >= 0 {
			entries--
		}
		above = rule.Passed(entries)
		if rule.Override != nil {
			own.rule, own.patterns, of.judge = rule, rule.Patterns, *rule.Override
		}
	}
	if domain != "" {
		own.limits, err = pl.overrides.get(of, func() ([]*limiter.Limit, error) {
			return of.newLimits(domain, of.judge, pl.CalendarMonths)
		})
	}
	return own, above, err
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
