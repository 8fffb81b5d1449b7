package descriptors

import (
	"errors"
	"strings"

	"gopkg.in/yaml.v3"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/limiter"
)

// Override says how a limit is counted that a request brings along in the place of
// the limits of a rule, and what it may admit at most. It is comparable. The zero
// Override counts in fixed windows and admits any amount.
type Override struct {
	Algorithm   limiter.Algorithm
	TimeZone    string // of ByCalendar; empty means UTC
	BurstRatio  uint32 // size of a token bucket, in millionths of the amount; 0 means all of it
	Charge      limiter.Charge
	FailureMode limiter.FailureMode
	Mode        limiter.Mode   // the rule's
	Series      limiter.Series // of the metrics
	// CalendarMonths is whether months are those of the calendar.
	CalendarMonths bool

	// Most is what is admitted per Unit times UnitMultiplier, whatever a request asks
	// for. 0 is any amount.
	Most           uint64
	Unit           limiter.Unit
	UnitMultiplier uint32
}

// NewLimit returns the limit of so many per period, counted as o says. The error is
// that of limiter.NewLimit.
func (o *Override) NewLimit(amount uint64, unit limiter.Unit, multiplier uint32) (*limiter.Limit, error) {
	s := o.spec()
	s.RequestsPerUnit, s.Unit, s.UnitMultiplier = amount, unit, multiplier
	if o.CalendarMonths && unit == limiter.Month {
		s.Algorithm = limiter.ByCalendar
	}
	if ratio := uint64(o.BurstRatio); ratio > 0 {
		s.Burst = max(1, amount/millionths*ratio+amount%millionths*ratio/millionths)
	}
	return limiter.NewLimit(s)
}

// NewMost returns the limit of Most.
func (o *Override) NewMost() (*limiter.Limit, error) {
	return o.NewLimit(o.Most, o.Unit, o.UnitMultiplier)
}

// spec is how o counts, without an amount.
func (o *Override) spec() limiter.Spec {
	return limiter.Spec{
		Unit: o.Unit, UnitMultiplier: o.UnitMultiplier, Algorithm: o.Algorithm, TimeZone: o.TimeZone,
		Charge: o.Charge, FailureMode: o.FailureMode, Mode: o.Mode, Series: o.Series,
	}
}

// String spells o in the words of rule files.
func (o *Override) String() string {
	d := &decoder{limitFields: limitFields{Spec: o.spec(), most: o.Most, burstRatio: ratio(o.BurstRatio)}}
	return "{" + strings.Join(newTables(d).override.spelled(), ", ") + "}"
}

// override reads an override. It leaves out one with which something is wrong.
func (d *decoder) override(_ string, n *yaml.Node) {
	f, found := &d.limitFields, d.Found()
	*f = limitFields{}
	f.given = d.fields(n, &d.tables.override, func(_ string, n *yaml.Node) bool { return strictyaml.IsNull(n) })
	if n.Kind == yaml.MappingNode && d.Found() == found && len(f.given.fields) == 0 {
		d.Problem(strictyaml.At(n), "nothing is said of limits that requests bring along, allowed are %s", strings.Join(d.tables.override.names, ", "))
	}
	if f.Algorithm == limiter.Concurrency {
		d.ProblemIn("algorithm", f.given.at("algorithm"), "a limit that requests bring along names no hold, allowed is another algorithm than %s", f.Algorithm)
	}
	d.takenFields(&d.tables.override, f)
	for _, pair := range neededInOverride {
		if f.given.has(pair.field) && !f.given.has(pair.needed) {
			d.ProblemIn(pair.field, f.given.at(pair.field), "there is no %s, allowed is %s beside it", pair.needed, pair.field)
		}
	}
	if d.Found() != found {
		return
	}
	o := &Override{
		Algorithm: f.Algorithm, TimeZone: f.TimeZone, BurstRatio: uint32(f.burstRatio), Charge: f.Charge, FailureMode: f.FailureMode,
		CalendarMonths: d.opts.CalendarMonths && !f.given.has("algorithm"),
		Most:           f.most,
	}
	if _, err := o.NewLimit(1, limiter.Day, 1); errors.Is(err, limiter.ErrTimeZone) {
		d.ProblemIn("time_zone", f.given.at("time_zone"), "%v", err)
		return
	}
	o.Unit, o.UnitMultiplier = f.Unit, f.UnitMultiplier
	d.level.override = o
}

// neededInOverride are the fields of an override that need another one.
var neededInOverride = []struct{ field, needed string }{
	{"unit", "max_requests_per_unit"},
	{"unit_multiplier", "unit"},
}

// wholeOverride gives the most that an override may ask for the period of the rule's
// limits unless it says one, and reports what could not be counted.
func (d *decoder) wholeOverride(l *level) {
	o, at := l.override, l.given.at("override")
	if o.Most == 0 {
		return
	}
	if o.Unit == 0 {
		var same *limiter.Limit
		has := "no limit with a period"
		for _, limit := range l.limits {
			if limit.Unlimited {
				continue
			}
			if same != nil && same.Period() != limit.Period() {
				same, has = nil, "limits of several periods"
				break
			}
			same = limit
		}
		if same == nil {
			d.ProblemIn("override", at, "the rule has %s, so max_requests_per_unit needs a unit, allowed are %s", has, strings.Join(limiter.UnitNames(), ", "))
			return
		}
		o.Unit, o.UnitMultiplier = same.Unit, same.UnitMultiplier
	}
	if _, err := o.NewMost(); err != nil {
		d.ProblemIn("override", at, "%v", err)
	}
}
