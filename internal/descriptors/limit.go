package descriptors

import (
	"errors"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/limiter"
)

// countingFields say how to count, which an unlimited limit does not do. The
// reference permits requests_per_unit there.
var countingFields = []string{"unit", "unit_multiplier", "algorithm", "anchor", "time_zone", "burst", "hold", "charge", "deny_for", "failure_mode"}

// limitOptions are the fields of a limit that only some algorithms take.
var limitOptions = []limiter.Option{limiter.BurstOption, limiter.AnchorOption, limiter.ChargeOption, limiter.HoldOption, limiter.DenyForOption}

// The words of fields that have some.
var (
	anchors = []string{limiter.Epoch: "epoch", limiter.FirstHit: "first_hit", limiter.ByCalendar: "calendar"}
	charges = []string{"auto", "admitted", "always"} // from limiter.Auto on

	synonyms = map[string]string{
		"leaky_bucket": "token_bucket", "gcra": "token_bucket", "in_flight": "concurrency", "concurrent": "concurrency",
	}
)

// limitConfig is a rate_limit, or an item of rate_limits.
type limitConfig struct {
	name   string
	nameAt strictyaml.Position
	limit  *limiter.Limit // nil if something is wrong with it
}

// limit decodes a rate_limit or an item of rate_limits.
func (d *decoder) limit(n *yaml.Node) limitConfig {
	var s limiter.Spec
	found, given := d.Found(), map[string]strictyaml.Position{}
	d.Fields(n, limitFields, func(name string, n *yaml.Node) {
		if strictyaml.IsNull(n) || name == "unit" && n.Kind == yaml.ScalarNode && n.Value == "" {
			return // as good as left out
		}
		given[name] = strictyaml.At(n)
		d.limitField(&s, name, n)
	})
	if _, anchored := given["anchor"]; d.calendarMonths && !anchored {
		s.Anchor = s.MonthAnchor()
	}
	if n.Kind == yaml.MappingNode {
		d.wholeLimit(&s, given, strictyaml.At(n))
	}
	if s.Name != "" {
		d.names.given[s.Name] = true
	}
	c := limitConfig{name: s.Name, nameAt: given["name"]}
	if d.Found() == found {
		var err error
		switch c.limit, err = limiter.NewLimit(s); {
		case errors.Is(err, limiter.ErrTimeZone):
			d.ProblemIn("time_zone", given["time_zone"], "%v", err)
		case err != nil:
			d.Problem(strictyaml.At(n), "%v", err)
		}
	}
	return c
}

func (d *decoder) limitField(s *limiter.Spec, name string, n *yaml.Node) {
	switch name {
	case "unit":
		s.Unit = d.unit(n)
	case "unit_multiplier":
		s.UnitMultiplier = uint32(d.whole(n, &multiplierField))
	case "requests_per_unit":
		s.RequestsPerUnit = d.whole(n, &amountField)
	case "unlimited":
		s.Unlimited = d.Flag(n)
	case "name":
		s.Name, _ = d.Text(n)
	case "replaces":
		s.Replaces = d.replaces(n)
	case "algorithm":
		s.Algorithm = limiter.Algorithm(d.word(n, &algorithmField))
	case "anchor":
		s.Anchor = limiter.Anchor(d.word(n, &anchorField))
	case "time_zone":
		name, ok := d.Text(n)
		if s.TimeZone = name; ok && name == "" {
			d.Problem(strictyaml.At(n), "a time zone is needed, allowed are names of the IANA database, such as UTC or Europe/Berlin")
		}
	case "burst":
		s.Burst = d.whole(n, &burstField)
	case "hold":
		s.Hold = d.hold(n)
	case "charge":
		s.Charge = limiter.Auto + limiter.Charge(d.word(n, &chargeField))
	case "deny_for":
		s.DenyFor = d.denyFor(n)
	case "failure_mode":
		s.FailureMode = limiter.FailureError + limiter.FailureMode(d.word(n, &failureField))
	case "shadow_mode":
		if d.Flag(n) {
			s.Mode, s.Trial = limiter.Shadow, true
		}
	}
}

// wholeLimit reports which fields of a limit do not go together, and which are
// missing. given says where its fields are, and limitAt where the limit is.
func (d *decoder) wholeLimit(s *limiter.Spec, given map[string]strictyaml.Position, limitAt strictyaml.Position) {
	has := func(field string) bool { _, ok := given[field]; return ok }
	if s.Unlimited {
		for _, field := range countingFields {
			if has(field) {
				d.ProblemIn(field, given[field], "an unlimited limit has no %s, allowed is one of %s and unlimited", field, field)
			}
		}
	} else {
		if !has("unit") {
			d.ProblemIn("unit", limitAt, "a unit is needed, allowed are %s", strings.Join(limiter.UnitNames(), ", "))
		}
		if !has("requests_per_unit") {
			d.ProblemIn("requests_per_unit", limitAt, "a number is needed, allowed are whole numbers from 0 to %d, or unlimited: true instead", uint64(limiter.MaxAmount))
		}
		for _, option := range limitOptions {
			if field := string(option); has(field) && !s.Algorithm.Takes(option) {
				d.ProblemIn(field, given[field], "%s has no %s, allowed is one with algorithm %s", s.Algorithm, field, option.Algorithms())
			}
		}
	}
	if !s.Unlimited {
		d.zoneOfCalendar(s, given)
	}
	if s.DenyFor > 0 && s.Trial {
		d.WarnIn("deny_for", given["deny_for"], "in shadow_mode a limit bans nobody, so this has no effect")
	}
	if s.Name != "" && slices.Contains(s.Replaces, s.Name) {
		d.ProblemIn("replaces", given["replaces"], "the limit replaces itself (%q), allowed are names of other limits", s.Name)
	}
}

// zoneOfCalendar reports a time zone of what is no calendar.
func (d *decoder) zoneOfCalendar(s *limiter.Spec, given map[string]strictyaml.Position) {
	if at, has := given["time_zone"]; has && s.Anchor != limiter.ByCalendar {
		d.ProblemIn("time_zone", at, "only a calendar has a time zone, allowed is one with anchor calendar")
	}
}

// denyFor decodes how long a ban lasts.
func (d *decoder) denyFor(n *yaml.Node) time.Duration {
	text, ok := d.Text(n)
	if !ok {
		return 0
	}
	ban, err := time.ParseDuration(text)
	if err != nil || ban < limiter.MinBan || ban > limiter.MaxPeriod {
		d.Problem(strictyaml.At(n), "%s is not allowed, allowed are durations from %s to %s (100 years), such as 30s, 10m, 1h30m", strictyaml.Describe(n), spellDuration(limiter.MinBan), spellDuration(limiter.MaxPeriod))
		return 0
	}
	return ban
}

func (d *decoder) unit(n *yaml.Node) limiter.Unit {
	name, ok := d.Text(n)
	unit, known := limiter.ParseUnit(name)
	if ok && !known {
		d.Problem(strictyaml.At(n), "unknown unit %q%s, allowed are %s", name, d.DidYouMean(name, limiter.UnitNames()), strings.Join(limiter.UnitNames(), ", "))
	}
	return unit
}

// hold decodes the key of the entry that names holds.
func (d *decoder) hold(n *yaml.Node) string {
	key, ok := d.Text(n)
	if ok && key == "" {
		d.Problem(strictyaml.At(n), "a key is needed, allowed is that of an entry that names each request, such as %s", limiter.DefaultHold)
	}
	return key
}

func (d *decoder) replaces(n *yaml.Node) []string {
	var names []string
	d.Items(n, func(n *yaml.Node) {
		if n.Kind == yaml.ScalarNode && !strictyaml.IsNull(n) {
			d.Problem(strictyaml.At(n), "%s is not allowed, a mapping is needed, such as name: %[1]s", strictyaml.Describe(n))
			return
		}
		nameAt, missing := strictyaml.At(n), n.Kind == yaml.MappingNode
		d.Fields(n, replacesFields, func(_ string, n *yaml.Node) {
			name, ok := d.Text(n)
			nameAt, missing = strictyaml.At(n), ok && name == ""
			names = append(names, name)
			d.names.mentions = append(d.names.mentions, mention{name, d.Here(nameAt)})
		})
		if missing {
			d.ProblemIn("name", nameAt, "a name is needed, allowed are names of other limits")
		}
	})
	return names
}
