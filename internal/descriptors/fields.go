package descriptors

import (
	"fmt"
	"math"
	"slices"

	"gopkg.in/yaml.v3"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/limiter"
)

// field is a row of a table of the format, all that is known of a field: the decoder
// reads by it, /rlconfig and explanations spell by it, the schema for editors has the
// rest, and a test compares docs/rules.md. T is what a mapping with such fields says.
type field[T any] struct {
	name   string
	about  string
	schema object // what JSON Schema can say of its value
	read   func(d *decoder, into *T, n *yaml.Node)

	// Of fields of limits and overrides.
	option limiter.Option  // that an algorithm must take
	counts bool            // says how to count, which an unlimited limit does not do
	spell  func(*T) string // what the value is, "" if it is the default
}

// table is the fields that a mapping may have, and their names.
type table[T any] struct {
	rows  []field[T]
	names []string
}

func newTable[T any](rows ...field[T]) *table[T] {
	t := &table[T]{rows: rows}
	for _, f := range rows {
		t.names = append(t.names, f.name)
	}
	return t
}

// spelled is the fields that are not the default, in the words of rule files.
func (t *table[T]) spelled(v *T) (words []string) {
	for _, f := range t.rows {
		if f.spell == nil {
			continue
		}
		if text := f.spell(v); text != "" {
			words = append(words, f.name+": "+text)
		}
	}
	return words
}

// given is where a mapping is, and the fields that it has.
type given struct {
	whole  strictyaml.Position
	fields []fieldAt
}

type fieldAt struct {
	name string
	at   strictyaml.Position
}

func (g *given) has(name string) bool {
	return slices.ContainsFunc(g.fields, func(f fieldAt) bool { return f.name == name })
}

// at returns where a field is, or the mapping if that leaves it out.
func (g *given) at(name string) strictyaml.Position {
	for _, f := range g.fields {
		if f.name == name {
			return f.at
		}
	}
	return g.whole
}

// read reads a mapping. It leaves out the fields for which leftOut returns true, if it
// is not nil.
func (t *table[T]) read(d *decoder, n *yaml.Node, into *T, g *given, leftOut func(name string, n *yaml.Node) bool) {
	g.whole = strictyaml.At(n)
	d.Fields(n, t.names, func(name string, n *yaml.Node) {
		if leftOut != nil && leftOut(name, n) {
			return
		}
		g.fields = append(g.fields, fieldAt{name, strictyaml.At(n)})
		if read := t.rows[slices.Index(t.names, name)].read; read != nil {
			read(d, into, n)
		}
	})
}

// The tables of the format, by where their fields belong.
var (
	fileTable = newTable(
		field[document]{name: "domain", about: "name of these rules, which Envoy's filter asks for; one file per domain, unless MERGE_DOMAIN_CONFIG is true", schema: reference("neededText"), read: (*decoder).domainName},
		field[document]{name: "name", about: "for management servers; ignored", schema: reference("text"), read: func(d *decoder, _ *document, n *yaml.Node) { d.Text(n) }},
		field[document]{name: "descriptors", about: "first level of rules", schema: listOf("rule")},
		field[document]{name: "otherwise", about: "limits for what no rule is for; one per domain", schema: reference("otherwise")},
	)
	descriptorTable = newTable(
		field[level]{name: "key", about: "key of the entry; * is an ordinary character", schema: reference("neededText"), read: (*decoder).key},
		matching("value", "value of the entry, with * as wildcard. Absent or empty: any", reference("text")),
		matching("values", "exact values, instead of value", nonEmptyListOf(object{"type": someText, "pattern": "^[^*]+$"})),
		matching("networks", "networks of an address, instead of value", nonEmptyListOf(object{"type": "string", "pattern": "^[0-9A-Fa-f:.]+/[0-9]{1,3}$"})),
		matching("regex", "regular expression for the whole value, instead of value", reference("neededText")),
		rateLimitField,
		rateLimitsField,
		field[level]{name: "descriptors", about: "next level", schema: listOf("rule")},
		onOff("below", "the limits hold for longer descriptors, too", func(l *level) *bool { return &l.below }),
		field[level]{name: "override", about: "how limits sent by requests count", schema: reference("override"), read: (*decoder).override},
		shadowField,
		quotaField,
		onOff("detailed_metric", "request values in metric labels, all levels", func(l *level) *bool { return &l.detailedMetric }),
		onOff("value_to_metric", "request values in metric labels for this level, in this rule and those below", func(l *level) *bool { return &l.valueToMetric }),
		shareField,
		metadataField,
	)
	otherwiseTable = newTable(rateLimitField, rateLimitsField, shadowField, quotaField, shareField, metadataField)
	limitTable     = newTable(
		unitField,
		multiplierField,
		whole("requests_per_unit", "amount per period, or at once with concurrency; 0 denies everything, even with burst", 0, limiter.MaxAmount,
			func(l *limitFields) *uint64 { return &l.RequestsPerUnit }),
		onOff("unlimited", "admit all, count nothing. Excludes fields that say how to count", func(l *limitFields) *bool { return &l.Unlimited }).
			spelled(func(l *limitFields) string { return unless(!l.Unlimited, "true") }),
		field[limitFields]{name: "name", about: "for replaces, answers and metrics", schema: reference("text"), read: func(d *decoder, l *limitFields, n *yaml.Node) { l.Name, _ = d.Text(n) }},
		field[limitFields]{name: "replaces", about: "limits to switch off", schema: listOf("replaced"), read: (*decoder).replaces},
		algorithmField,
		anchorField,
		timeZoneField,
		whole("burst", "size of a token_bucket", 1, limiter.MaxAmount, func(l *limitFields) *uint64 { return &l.Burst }).takenBy(limiter.BurstOption).
			counting(func(l *limitFields) string { return unless(l.Burst == 0, l.Burst) }),
		field[limitFields]{name: "hold", about: "key of the entry that names what is in flight", schema: object{"type": append([]string{"null"}, someText...), "minLength": 1, "default": limiter.DefaultHold}, read: (*decoder).hold}.
			takenBy(limiter.HoldOption).counting(func(l *limitFields) string { return unless(l.Hold == "", word(l.Hold)) }),
		chargeField,
		field[limitFields]{name: "deny_for", about: "ban who goes over", schema: object{"type": []string{"string", "null"}, "pattern": durationPattern}, read: (*decoder).denyFor}.
			takenBy(limiter.DenyForOption).counting(func(l *limitFields) string { return unless(l.DenyFor == 0, spellDuration(l.DenyFor)) }),
		failureField,
		onOff("shadow_mode", "count, never deny, this limit only", func(l *limitFields) *bool { return &l.Trial }),
	)
	replacesTable = newTable(field[limitFields]{name: "name", about: "name of another limit", schema: reference("neededText")})
	overrideTable = newTable(
		algorithmField,
		anchorField,
		timeZoneField,
		field[limitFields]{name: "burst_ratio", about: "burst of a token_bucket, as part of the amount", read: func(d *decoder, l *limitFields, n *yaml.Node) {
			l.burstRatio = uint32(math.Round(millionths * d.Number(n, leastRatio, 1)))
		}, schema: object{"anyOf": []object{{"type": []string{"number", "null"}, "minimum": leastRatio, "maximum": 1}, reference("textOfRatio")}}}.
				takenBy(limiter.BurstOption).spelled(func(l *limitFields) string { return unless(l.burstRatio == 0, float64(l.burstRatio)/millionths) }),
		whole("max_requests_per_unit", "largest amount", 1, limiter.MaxAmount, func(l *limitFields) *uint64 { return &l.most }).
			spelled(func(l *limitFields) string { return unless(l.most == 0, l.most) }),
		unitField.spelled(func(l *limitFields) string { return unless(l.most == 0, l.Unit) }),
		multiplierField,
		chargeField,
		failureField,
	)
)

// The fields that two tables have.
var (
	rateLimitField  = field[level]{name: "rate_limit", about: "the limit. Without limits and descriptors, the rule is a whitelist entry", schema: object{"anyOf": []object{reference("limit"), {"type": "null"}}}, read: (*decoder).rateLimit}
	rateLimitsField = field[level]{name: "rate_limits", about: "several limits, at least one, instead of rate_limit", schema: nonEmptyListOf(reference("limit")), read: (*decoder).rateLimits}
	shadowField     = onOff("shadow_mode", "count, never deny", func(l *level) *bool { return &l.shadow })
	quotaField      = onOff("quota_mode", "deny only if all quotas are used up", func(l *level) *bool { return &l.quota })
	shareField      = onOff("share_threshold", "one counter for all values that match; not for one value or any", func(l *level) *bool { return &l.share })
	metadataField   = field[level]{name: "metadata", about: "any JSON, returned in dynamic metadata. Unquoted yes, no, on, off, y, n are booleans", schema: object{"type": []string{"object", "null"}},
		read: func(d *decoder, l *level, n *yaml.Node) { l.metadata = d.Map(n) }}

	unitField = field[limitFields]{name: "unit", about: "second, minute, hour, day, week, month (30 days), year (365 days), except by calendar; any case", schema: reference("unit"), read: (*decoder).unit}.
			counting(nil)
	multiplierField = whole("unit_multiplier", "number of units in the period, at most 100 years", 1, math.MaxUint32, func(l *limitFields) *uint32 { return &l.UnitMultiplier }).or(1).
			counting(func(l *limitFields) string { return unless(l.UnitMultiplier <= 1, l.UnitMultiplier) })
	algorithmField = oneOf("algorithm", "how to count", limiter.AlgorithmNames(), 0, func(l *limitFields) *limiter.Algorithm { return &l.Algorithm }).or(limiter.FixedWindow.String()).
			counting(func(l *limitFields) string { return unless(l.Algorithm == limiter.FixedWindow, l.Algorithm) })
	anchorField = oneOf("anchor", "start of fixed windows", anchors, 0, func(l *limitFields) *limiter.Anchor { return &l.Anchor }).or(anchors[limiter.Epoch]).
			takenBy(limiter.AnchorOption).counting(func(l *limitFields) string { return unless(l.Anchor == limiter.Epoch, anchors[l.Anchor]) })
	timeZoneField = field[limitFields]{name: "time_zone", about: "of anchor: calendar", schema: object{"type": []string{"string", "null"}, "minLength": 1}, read: (*decoder).timeZone}.or("UTC").
			counting(func(l *limitFields) string { return l.TimeZone })
	chargeField = oneOf("charge", "count denied requests", charges, limiter.Auto, func(l *limitFields) *limiter.Charge { return &l.Charge }).or(charges[0]).
			takenBy(limiter.ChargeOption).counting(func(l *limitFields) string {
		return unless(l.Charge == limiter.ByDefault, charges[max(l.Charge, limiter.Auto)-limiter.Auto])
	})
	failureField = oneOf("failure_mode", "decision without Redis", limiter.FailureModeNames(), limiter.FailureError, func(l *limitFields) *limiter.FailureMode { return &l.FailureMode }).
			counting(func(l *limitFields) string { return unless(l.FailureMode == limiter.FailureByDefault, l.FailureMode) })
)

// The words of fields that have some.
var (
	anchors = []string{limiter.Epoch: "epoch", limiter.FirstHit: "first_hit", limiter.ByCalendar: "calendar"}
	charges = []string{"auto", "admitted", "always"} // from limiter.Auto on

	synonyms = map[string]string{
		"leaky_bucket": "token_bucket", "gcra": "token_bucket", "in_flight": "concurrency", "concurrent": "concurrency",
	}
)

// elsewhere returns where a field belongs that is not allowed where it is.
func elsewhere(field string) string {
	switch {
	case slices.Contains(descriptorTable.names, field):
		return "a descriptor"
	case slices.Contains(limitTable.names, field):
		return "a rate_limit"
	case slices.Contains(overrideTable.names, field):
		return "an override"
	case field == "otherwise":
		return "the file"
	}
	return ""
}

// onOff is a field that is on or off.
func onOff[T any](name, about string, of func(*T) *bool) field[T] {
	return field[T]{name: name, about: about, schema: reference("flag"), read: func(d *decoder, into *T, n *yaml.Node) { *of(into) = d.Flag(n) }}
}

// whole is a number from least to most, or null.
func whole[T any, N uint32 | uint64](name, about string, least, most uint64, of func(*T) *N) field[T] {
	return field[T]{name: name, about: about, schema: object{"anyOf": []object{
		{"type": []string{"integer", "null"}, "minimum": least, "maximum": most},
		reference("textOfWhole"),
	}}, read: func(d *decoder, into *T, n *yaml.Node) { *of(into) = N(d.Whole(n, least, most)) }}
}

// oneOf is a word, or null. The first of the words means first.
func oneOf[T any, W ~uint8](name, about string, words []string, first W, of func(*T) *W) field[T] {
	allowed := make([]any, 0, len(words)+1)
	for _, word := range words {
		allowed = append(allowed, word)
	}
	return field[T]{name: name, about: about, schema: object{"enum": append(allowed, nil)}, read: func(d *decoder, into *T, n *yaml.Node) {
		*of(into) = first + W(d.Word(n, words))
	}}
}

// or returns f with the value that it has if it is left out.
func (f field[T]) or(byDefault any) field[T] {
	f.schema["default"] = byDefault
	return f
}

// takenBy returns f as a field that only algorithms with an option have.
func (f field[T]) takenBy(o limiter.Option) field[T] {
	f.option = o
	return f
}

func (f field[T]) spelled(spell func(*T) string) field[T] {
	f.spell = spell
	return f
}

// counting returns f as a field that says how to count.
func (f field[T]) counting(spell func(*T) string) field[T] {
	f.counts, f.spell = true, spell
	return f
}

// unless spells a value that is not the default.
func unless(isDefault bool, value any) string {
	if isDefault {
		return ""
	}
	return fmt.Sprint(value)
}
