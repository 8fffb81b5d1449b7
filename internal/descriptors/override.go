package descriptors

import (
	"fmt"
	"math/bits"

	"gopkg.in/yaml.v3"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/limiter"
)

// Override says how a limit is counted that a request sends in the place of the limit of
// a rule: like that one. It is comparable. The zero Override counts in fixed windows and
// admits any amount.
type Override struct {
	Like   *limiter.Limit // of the rule
	Most   uint64         // that is admitted in the period of Like, whatever a request asks for; 0 is any amount
	Series limiter.Series // of the metrics
}

// NewLimit returns the limit of so many per period, counted as o says. The error is
// that of limiter.NewLimit. calendarMonths is as in Options.
func (o *Override) NewLimit(amount uint64, unit limiter.Unit, multiplier uint32, calendarMonths bool) (*limiter.Limit, error) {
	s := limiter.Spec{}
	if o.Like != nil {
		s = o.Like.Spec
		s.Burst = proportional(s.Burst, amount, s.RequestsPerUnit)
	}
	s.RequestsPerUnit, s.Unit, s.UnitMultiplier, s.Series = amount, unit, multiplier, o.Series
	if calendarMonths && unit == limiter.Month && s.Algorithm == limiter.FixedWindow {
		s.Algorithm = limiter.ByCalendar
	}
	return limiter.NewLimit(s)
}

// proportional returns the burst of an amount that is to it as burst is to most: 0 if burst
// is, else at least 1.
func proportional(burst, amount, most uint64) uint64 {
	if burst == 0 || most == 0 {
		return burst
	}
	high, low := bits.Mul64(burst, amount)
	if high >= most {
		return limiter.MaxAmount
	}
	part, _ := bits.Div64(high, low, most)
	return min(max(part, 1), limiter.MaxAmount)
}

// NewMost returns the limit of Most.
func (o *Override) NewMost() (*limiter.Limit, error) {
	return o.NewLimit(o.Most, o.Like.Unit, o.Like.UnitMultiplier, false)
}

// String spells o in the words of rule files.
func (o *Override) String() string {
	if o.Most == 0 {
		return "{}"
	}
	return fmt.Sprintf("{max_requests_per_unit: %d}", o.Most)
}

// override reads an override.
func (d *decoder) override(n *yaml.Node) {
	d.most = 0
	d.fields(n, &d.tables.override, func(_ string, n *yaml.Node) bool { return strictyaml.IsNull(n) })
	d.level.Override = &Override{Most: d.most}
}

// wholeOverride gives the override of a level the limit of its rule.
func (d *decoder) wholeOverride(l *level) {
	o, at := l.Override, l.given.At("override")
	switch {
	case l.hasLimit && len(l.Limits) == 0: // something is wrong with it
	case len(l.Limits) != 1 || l.Limits[0].Unlimited:
		d.ProblemIn("override", at, "override needs exactly one rate_limit in the same rule, and it must not be unlimited")
	default:
		o.Like = l.Limits[0]
		if o.Most == 0 {
			return
		}
		if _, err := o.NewMost(); err != nil {
			d.ProblemIn("override", at, "%v", err)
		}
	}
}
