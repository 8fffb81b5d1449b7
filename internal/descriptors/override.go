package descriptors

import (
	"errors"
	"fmt"
	"math"
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
	Anchor      limiter.Anchor
	TimeZone    string // of anchor ByCalendar; empty means UTC
	BurstRatio  uint32 // size of a token bucket, in millionths of the amount; 0 means all of it
	Charge      limiter.Charge
	FailureMode limiter.FailureMode
	Mode        limiter.Mode   // the rule's
	Series      limiter.Series // of the metrics
	// CalendarMonths is whether months without an anchor are those of the calendar.
	CalendarMonths bool

	// Most is what is admitted per Unit times UnitMultiplier, whatever a request asks
	// for. 0 is any amount.
	Most           uint64
	Unit           limiter.Unit
	UnitMultiplier uint32
}

const millionths = 1_000_000

// NewLimit returns the limit of so many per period, counted as o says. The error is
// that of limiter.NewLimit.
func (o *Override) NewLimit(amount uint64, unit limiter.Unit, multiplier uint32) (*limiter.Limit, error) {
	s := limiter.Spec{
		RequestsPerUnit: amount, Unit: unit, UnitMultiplier: multiplier,
		Algorithm: o.Algorithm, Anchor: o.Anchor, TimeZone: o.TimeZone,
		Charge: o.Charge, FailureMode: o.FailureMode, Mode: o.Mode, Series: o.Series,
	}
	if o.CalendarMonths {
		s.Anchor = s.MonthAnchor()
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

// String spells o in the words of rule files.
func (o *Override) String() string {
	var fields []string
	add := func(format string, args ...any) { fields = append(fields, fmt.Sprintf(format, args...)) }
	if o.Algorithm != limiter.FixedWindow {
		add("algorithm: %s", o.Algorithm)
	}
	if o.Anchor != limiter.Epoch {
		add("anchor: %s", anchors[o.Anchor])
	}
	if o.TimeZone != "" {
		add("time_zone: %s", o.TimeZone)
	}
	if o.BurstRatio > 0 {
		add("burst_ratio: %v", float64(o.BurstRatio)/millionths)
	}
	if o.Most > 0 {
		add("max_requests_per_unit: %d, unit: %s", o.Most, o.Unit)
	}
	if o.UnitMultiplier > 1 {
		add("unit_multiplier: %d", o.UnitMultiplier)
	}
	if o.Charge != limiter.ByDefault {
		add("charge: %s", charges[o.Charge-limiter.Auto])
	}
	if o.FailureMode != limiter.FailureByDefault {
		add("failure_mode: %s", o.FailureMode)
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

// override decodes an override. It returns nil if something is wrong with it.
func (d *decoder) override(n *yaml.Node) *Override {
	var s limiter.Spec
	o := new(Override)
	found, given := d.Found(), map[string]strictyaml.Position{}
	d.Fields(n, overrideFields, func(name string, n *yaml.Node) {
		if strictyaml.IsNull(n) {
			return // as good as left out
		}
		given[name] = strictyaml.At(n)
		switch name {
		case "burst_ratio":
			o.BurstRatio = uint32(math.Round(millionths * d.Number(n, leastRatio, 1)))
		case "max_requests_per_unit":
			o.Most = d.whole(n, &mostField)
		default:
			d.limitField(&s, name, n)
		}
	})
	if n.Kind == yaml.MappingNode && d.Found() == found && len(given) == 0 {
		d.Problem(strictyaml.At(n), "nothing is said of limits that requests bring along, allowed are %s", strings.Join(overrideFields, ", "))
	}
	d.togetherInOverride(&s, given)
	if d.Found() != found {
		return nil
	}
	o.Algorithm, o.Anchor, o.TimeZone, o.Charge, o.FailureMode = s.Algorithm, s.Anchor, s.TimeZone, s.Charge, s.FailureMode
	_, anchored := given["anchor"]
	o.CalendarMonths = d.calendarMonths && !anchored
	if _, err := o.NewLimit(1, limiter.Day, 1); errors.Is(err, limiter.ErrTimeZone) {
		d.ProblemIn("time_zone", given["time_zone"], "%v", err)
		return nil
	}
	o.Unit, o.UnitMultiplier = s.Unit, s.UnitMultiplier
	return o
}

// overrideOptions are the fields of an override that only some algorithms take.
var overrideOptions = map[string]limiter.Option{"burst_ratio": limiter.BurstOption, anchorField.name: limiter.AnchorOption}

// neededInOverride are the fields of an override that need another one.
var neededInOverride = map[string]string{unitField.name: mostField.name, multiplierField.name: unitField.name}

// togetherInOverride reports which fields of an override do not go together.
func (d *decoder) togetherInOverride(s *limiter.Spec, given map[string]strictyaml.Position) {
	if a := s.Algorithm; a == limiter.Concurrency {
		d.ProblemIn("algorithm", given["algorithm"], "a limit that requests bring along names no hold, allowed is another algorithm than %s", a)
	}
	for field, option := range overrideOptions {
		if at, has := given[field]; has && !s.Algorithm.Takes(option) {
			d.ProblemIn(field, at, "%s has no %s, allowed is one with algorithm %s", s.Algorithm, field, option.Algorithms())
		}
	}
	d.zoneOfCalendar(s, given)
	for field, needed := range neededInOverride {
		at, has := given[field]
		if _, met := given[needed]; has && !met {
			d.ProblemIn(field, at, "there is no %s, allowed is %s beside it", needed, field)
		}
	}
}

// unitOfMost reports that max_requests_per_unit needs a unit.
func (d *decoder) unitOfMost(overrideAt strictyaml.Position, has string) {
	d.ProblemIn("override", overrideAt, "the rule has %s, so max_requests_per_unit needs a unit, allowed are %s", has, strings.Join(limiter.UnitNames(), ", "))
}

// wholeOverride gives the most that an override may ask for the period of the rule's
// limits unless it says one, and reports what could not be counted.
func (d *decoder) wholeOverride(c *descriptorConfig, overrideAt strictyaml.Position) {
	o := c.override
	if o.Most == 0 {
		return
	}
	if o.Unit == 0 {
		var same *limiter.Limit
		for _, l := range c.limits {
			switch {
			case l.Unlimited:
			case same != nil && same.Period() != l.Period():
				d.unitOfMost(overrideAt, "limits of several periods")
				return
			default:
				same = l
			}
		}
		if same == nil {
			d.unitOfMost(overrideAt, "no limit with a period")
			return
		}
		o.Unit, o.UnitMultiplier = same.Unit, same.UnitMultiplier
	}
	if _, err := o.NewMost(); err != nil {
		d.ProblemIn("override", overrideAt, "%v", err)
	}
}
