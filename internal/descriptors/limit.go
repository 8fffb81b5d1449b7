package descriptors

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/limiter"
)

// limitFields has the fields of a limit.
type limitFields struct {
	limiter.Spec
	given strictyaml.Given // without null fields, which are treated as not given
}

// rateLimit reads rate_limit, which is one limit, a list of limits, or null for no limit.
func (d *decoder) rateLimit(n *yaml.Node) {
	l := &d.level
	l.hasLimit = true
	switch {
	case strictyaml.IsNull(n):
		l.hasLimit = false
	case isEmptyList(n): // otherwise, a rule whose limits are all commented out would admit everything
		d.Problem(strictyaml.At(n), "the list is empty; add at least one limit")
	case n.Kind == yaml.SequenceNode:
		d.rateLimits(n)
	default:
		if limit := d.limit(n); limit != nil {
			l.Limits = append(l.Limits, limit)
		}
	}
}

func (d *decoder) rateLimits(list *yaml.Node) {
	l := &d.level
	alike := map[string]uint32{} // number of limits that count in the same way
	names, hold := map[string]bool{}, ""
	d.Items(list, func(n *yaml.Node) {
		limit := d.limit(n)
		if limit == nil {
			return
		}
		given, key := &d.limitFields.given, cmp.Or(limit.HoldKey(), limit.Settle)
		if limit.Name != "" && names[limit.Name] { // metrics and replaces refer to limits by name
			d.ProblemIn("name", given.At("name"), "%q is already the name of another limit of this rule: names within a rule must differ", limit.Name)
		}
		if hold != "" && key != "" && key != hold {
			d.ProblemIn("hold", strictyaml.At(given.Mapping), "%q differs from %q of another limit: a rule must name its requests in flight by one entry", key, hold)
		}
		names[limit.Name], hold = true, cmp.Or(hold, key)
		l.Limits = append(l.Limits, limit)
		kind := string(limit.AppendKind(nil))
		if alike[kind]++; alike[kind] > 1 && !limit.Unlimited {
			limit.Nth = alike[kind]
		}
		if limit.Unlimited && len(limit.Replaces) == 0 && len(list.Content) > 1 {
			d.WarnIn("unlimited", strictyaml.At(n), "the other limits still apply: remove this one, or let it replace them")
		}
	})
}

func isEmptyList(n *yaml.Node) bool {
	return strictyaml.IsNull(n) || n.Kind == yaml.SequenceNode && len(n.Content) == 0
}

// limit reads one limit. It returns nil if the limit is invalid.
func (d *decoder) limit(n *yaml.Node) *limiter.Limit {
	if n.Kind == yaml.ScalarNode {
		d.Problem(strictyaml.At(n), "%s is not allowed; use a mapping, such as {unit: minute, requests_per_unit: 100}", strictyaml.Describe(n))
		return nil
	}
	f, found := &d.limitFields, d.Found()
	*f = limitFields{}
	f.given = d.fields(n, &d.tables.limit, func(name string, n *yaml.Node) bool {
		return strictyaml.IsNull(n) || name == "unit" && n.Kind == yaml.ScalarNode && n.Value == ""
	})
	if d.opts.CalendarMonths && f.Unit == limiter.Month && !f.Unlimited && !f.given.Has("algorithm") {
		f.Algorithm = limiter.ByCalendar
	}
	if n.Kind == yaml.MappingNode {
		d.checkLimit(f)
	}
	d.names[limiter.Entry{Key: d.domain, Value: f.Name}] = true
	if d.Found() != found {
		return nil
	}
	limit, err := limiter.NewLimit(f.Spec)
	switch {
	case errors.Is(err, limiter.ErrTimeZone):
		d.ProblemIn("time_zone", f.given.At("time_zone"), "%v", err)
	case err != nil:
		d.Problem(strictyaml.At(n), "%v", err)
	case !f.given.Has("algorithm") && f.Algorithm == limiter.FixedWindow && (f.Unit == limiter.Month || f.Unit == limiter.Year):
		days := map[limiter.Unit]int{limiter.Month: 30, limiter.Year: 365}[f.Unit]
		d.WarnIn("unit", f.given.At("unit"), "a %s is %d days here, counted from 1970-01-01: for those of the calendar write algorithm: calendar, else algorithm: fixed_window", f.Unit, days)
	}
	return limit
}

// checkLimit reports fields of a limit that must not be combined, and missing fields.
func (d *decoder) checkLimit(f *limitFields) {
	for _, row := range d.tables.limit.fields {
		switch {
		case !f.given.Has(row.name):
		case f.Unlimited && row.counts:
			d.ProblemIn(row.name, f.given.At(row.name), "an unlimited limit has no %s: remove one of %[1]s and unlimited", row.name)
		case !f.Unlimited && row.option != "" && !f.Algorithm.Takes(row.option):
			d.ProblemIn(row.name, f.given.At(row.name), "%s does not take %s: use it with algorithm %s", f.Algorithm, row.name, row.option.Algorithms())
		}
	}
	if !f.Unlimited && !f.given.Has("unit") {
		d.ProblemIn("unit", strictyaml.At(f.given.Mapping), "a unit is required; use %s", strictyaml.OneOf(limiter.UnitNames()))
	}
	if !f.Unlimited && !f.given.Has("requests_per_unit") {
		d.ProblemIn("requests_per_unit", strictyaml.At(f.given.Mapping), "requests_per_unit must be a whole number from 0 to %d (or set unlimited: true)", uint64(limiter.MaxAmount))
	}
	if f.DenyFor > 0 && f.Mode == limiter.Shadow {
		d.WarnIn("deny_for", f.given.At("deny_for"), "in shadow_mode a limit bans nobody, so this has no effect")
	}
	if f.Notify != nil && f.Unit > 0 && f.Period() < limiter.MinNotified {
		d.ProblemIn("notify", f.given.At("notify"), "notify needs a period of at least a minute: remove it, or use a longer unit")
	}
	if f.Name != "" && slices.Contains(f.Replaces, f.Name) {
		d.ProblemIn("replaces", f.given.At("replaces"), "a limit cannot replace itself (%q); use the name of another limit", f.Name)
	}
}

func (d *decoder) amount(n *yaml.Node) {
	if part, err := strconv.ParseFloat(n.Value, 64); err == nil && 0 < part && part < 1 {
		d.Problem(strictyaml.At(n), "%s is not allowed; use requests_per_unit: 1 with unit_multiplier: %.0f", strictyaml.Describe(n), 1/part)
		return
	}
	d.limitFields.RequestsPerUnit = d.Whole(n, 0, limiter.MaxAmount)
}

func (d *decoder) unit(n *yaml.Node) {
	name, ok := d.Text(n)
	var known bool
	if d.limitFields.Unit, known = limiter.ParseUnit(name); ok && !known {
		d.Problem(strictyaml.At(n), "unknown unit %q%s; use %s", name, d.DidYouMean(name, limiter.UnitNames()), strictyaml.OneOf(limiter.UnitNames()))
	}
}

func (d *decoder) timeZone(n *yaml.Node) {
	d.limitFields.TimeZone = d.neededText(n, d.Text, "a time zone is required; use a name of the IANA database, such as UTC or Europe/Berlin")
}

func (d *decoder) hold(n *yaml.Node) {
	d.limitFields.Hold = d.neededText(n, d.Text, "a key is required; use that of an entry that names each request, such as "+limiter.DefaultHold)
}

// neededText returns the text that read returns for n, and reports the given problem if it is empty.
func (d *decoder) neededText(n *yaml.Node, read func(*yaml.Node) (string, bool), problem string) string {
	text, ok := read(n)
	if ok && text == "" {
		d.Problem(strictyaml.At(n), "%s", problem)
	}
	return text
}

func (d *decoder) denyFor(n *yaml.Node) {
	text, ok := d.Text(n)
	if !ok {
		return
	}
	ban, err := time.ParseDuration(text)
	if err != nil || ban < limiter.MinBan || ban > limiter.MaxPeriod {
		d.Problem(strictyaml.At(n), "%s is not allowed; use a duration from %s to %s (100 years), such as 30s, 10m, 1h30m", strictyaml.Describe(n), SpellDuration(limiter.MinBan), SpellDuration(limiter.MaxPeriod))
		return
	}
	d.limitFields.DenyFor = ban
}

func (d *decoder) notify(n *yaml.Node) {
	percents, last := &d.limitFields.Notify, 0
	d.Items(n, func(n *yaml.Node) {
		percent := int(d.Whole(n, 1, 100))
		if percent <= last {
			d.Problem(strictyaml.At(n), "%d is not above %d; list percentages in ascending order", percent, last)
		}
		*percents, last = append(*percents, percent), percent
	})
	if len(*percents) > limiter.MaxNotify {
		d.Problem(strictyaml.At(n), "the list has %d percentages, at most %d are allowed", len(*percents), limiter.MaxNotify)
	}
}

func (d *decoder) replaces(n *yaml.Node) {
	d.Items(n, func(n *yaml.Node) {
		const needed = "a name is required; use the name of another limit"
		hasName := n.Kind != yaml.MappingNode
		d.Fields(n, []string{"name"}, func(_ string, n *yaml.Node) {
			hasName = true
			name := d.neededText(n, d.Text, needed)
			d.limitFields.Replaces = append(d.limitFields.Replaces, name)
			d.replaced = append(d.replaced, mention{limiter.Entry{Key: d.domain, Value: name}, d.Here(strictyaml.At(n))})
		})
		if !hasName {
			d.ProblemIn("name", strictyaml.At(n), needed)
		}
	})
	slices.Sort(d.limitFields.Replaces)
}

// describeLimit returns the fields of a limit as texts: unit, amount and modes, then other
// fields whose values are not the default. The unit of an unlimited limit is UNKNOWN.
func describeLimit(l *limiter.Limit) []string {
	f := shownFields{fmt.Sprintf("unit=%s requests_per_unit=%d", strings.ToUpper(l.Unit.String()), l.RequestsPerUnit)}
	f.add(true, "shadow_mode", l.Mode == limiter.Shadow)
	f.add(true, "quota_mode", l.Mode == limiter.Quota)
	f.add(l.UnitMultiplier > 1, "unit_multiplier", l.UnitMultiplier)
	f.add(l.Unlimited, "unlimited", true)
	f.add(l.Algorithm != limiter.FixedWindow, "algorithm", l.Algorithm)
	f.add(l.TimeZone != "", "time_zone", l.TimeZone)
	f.add(l.Burst > 0, "burst", l.Burst)
	f.add(l.Hold != "", "hold", word(l.Hold))
	f.add(l.Settle != "", "settle", word(l.Settle))
	if l.Charge != limiter.ByDefault {
		f.add(true, "charge", ChargeWord(l.Charge))
	}
	f.add(l.DenyFor > 0, "deny_for", SpellDuration(l.DenyFor))
	f.add(l.FailureMode != limiter.FailureByDefault, "failure_mode", l.FailureMode)
	f.add(l.Notify != nil, "notify", l.Notify)
	f.add(l.Name != "", "name", word(l.Name))
	for _, name := range l.Replaces {
		f.add(true, "replaces", word(name))
	}
	return f
}
