package descriptors

import (
	"fmt"
	"math/bits"

	"gopkg.in/yaml.v3"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/limiter"
)

// Override says how to count a limit that a request sends to replace a rule's limit. It is
// comparable. The zero Override counts in fixed windows and admits any amount.
type Override struct {
	Like   *limiter.Limit // limit of the rule, or nil; the request's limit gets the same algorithm and options
	Most   uint64         // maximum amount per period of Like, or 0 if a request may send any amount
	Series limiter.Series // labels in metrics
}

// NewLimit returns a limit that admits amount in multiplier units and is counted as o says. Its error
// is the error of limiter.NewLimit. For calendarMonths, see Options.
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

// proportional returns burst times amount / most, the burst after a limit's amount changes from most
// to amount. It returns at least 1 and at most limiter.MaxAmount, or burst itself if burst or most is 0.
func proportional(burst, amount, most uint64) uint64 {
	if burst == 0 || most == 0 {
		return burst
	}
	high, low := bits.Mul64(burst, amount)
	if high >= most {
		return limiter.MaxAmount
	}
	scaled, _ := bits.Div64(high, low, most)
	return min(max(scaled, 1), limiter.MaxAmount)
}

// NewMost returns the limit that admits o.Most per period of o.Like, which must not be nil.
func (o *Override) NewMost() (*limiter.Limit, error) {
	return o.NewLimit(o.Most, o.Like.Unit, o.Like.UnitMultiplier, false)
}

// String returns o in the syntax of rule files.
func (o *Override) String() string {
	if o.Most == 0 {
		return "{}"
	}
	return fmt.Sprintf("{max_requests_per_unit: %d}", o.Most)
}

func (d *decoder) override(n *yaml.Node) {
	d.level.Override = new(Override)
	d.fields(n, &d.tables.override, func(_ string, n *yaml.Node) bool { return strictyaml.IsNull(n) })
}

// checkOverride links the override of a level to the level's limit, and reports an invalid override.
func (d *decoder) checkOverride(l *level) {
	o, at := l.Override, l.given.At("override")
	switch {
	case l.hasLimit && len(l.Limits) == 0: // the limit is invalid
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
