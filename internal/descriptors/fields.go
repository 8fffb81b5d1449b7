package descriptors

import (
	_ "embed"
	"fmt"
	"math"
	"slices"

	"gopkg.in/yaml.v3"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/limiter"
)

// Schema is a JSON Schema of rule files, for editors. It uses draft 7, which all editors
// support. Load refuses every file that the schema refuses. In addition, Load checks
// combinations of values, such as an amount that is too large for its period. Tests compare the
// schema with the tables below and with docs/rules.md.
//
//go:embed rules.schema.json
var Schema []byte

// field is a row in a table of the format. The tables control how rule files are read.
type field struct {
	name string
	into any // a pointer whose type determines how the value is read, or a function that reads it

	option limiter.Option // if set, the algorithm of the limit must take this option
	counts bool           // the field affects how a limit counts, so an unlimited limit must not have it
}

// table has the fields that a mapping may have, and their names.
type table struct {
	fields []field
	names  []string
}

func newTable(fields ...field) table {
	t := table{fields: fields}
	for _, f := range fields {
		t.names = append(t.names, f.name)
	}
	return t
}

// tables has a table for each kind of mapping. Values are read into the decoder's current level
// and limit.
type tables struct{ file, descriptor, limit, override table }

func newTables(d *decoder) *tables {
	r, l := &d.level, &d.limitFields
	return &tables{
		newTable(
			field{"domain", func(n *yaml.Node) { d.domain = d.neededText(n, d.Text, fmt.Sprintf(textNeeded, "domain")) }, "", false},
			field{"name", new(string), "", false}, // for control planes; ignored here
			field{"descriptors", later, "", false},
		),
		newTable(
			field{"key", func(n *yaml.Node) { r.key = d.neededText(n, d.Bytes, fmt.Sprintf(textNeeded, "key")) }, "", false},
			field{"value", func(n *yaml.Node) { d.values("value", n) }, "", false},
			field{"networks", func(n *yaml.Node) { d.values("networks", n) }, "", false},
			field{"regex", func(n *yaml.Node) { d.values("regex", n) }, "", false},
			field{"rate_limit", d.rateLimit, "", false},
			field{"descriptors", later, "", false},
			field{"below", &r.below, "", false},
			field{"override", d.override, "", false},
			field{"shadow_mode", &r.shadow, "", false},
			field{"quota_mode", &r.quota, "", false},
			field{"quota_service", &r.quotaService, "", false},
			field{"detailed_metric", &r.detailedMetric, "", false},
			field{"value_to_metric", &r.valueToMetric, "", false},
			field{"share_threshold", &r.share, "", false},
			field{"metadata", func(n *yaml.Node) { r.Metadata = d.Map(n) }, "", false},
		),
		newTable(
			field{"unit", d.unit, "", true},
			field{"unit_multiplier", &l.UnitMultiplier, "", true},
			field{"requests_per_unit", d.amount, "", false},
			field{"unlimited", &l.Unlimited, "", false},
			field{"name", &l.Name, "", false},
			field{"replaces", d.replaces, "", false},
			field{"algorithm", &l.Algorithm, "", true},
			field{"time_zone", d.timeZone, limiter.TimeZoneOption, true},
			field{"burst", &l.Burst, limiter.BurstOption, true},
			field{"hold", d.hold, limiter.HoldOption, true},
			field{"settle", func(n *yaml.Node) { l.Settle = d.neededText(n, d.Text, fmt.Sprintf(textNeeded, "settle")) }, limiter.SettleOption, true},
			field{"charge", &l.Charge, limiter.ChargeOption, true},
			field{"deny_for", d.denyFor, limiter.DenyForOption, true},
			field{"failure_mode", &l.FailureMode, "", true},
			field{"notify", d.notify, limiter.NotifyOption, true},
			field{"shadow_mode", func(n *yaml.Node) {
				if d.Flag(n) {
					l.Mode = limiter.Shadow
				}
			}, "", false},
		),
		newTable(field{"max_requests_per_unit", func(n *yaml.Node) { r.Override.Most = d.Whole(n, 1, limiter.MaxAmount) }, "", false}),
	}
}

// format has the tables for uses other than reading a file.
var format = newTables(new(decoder))

const textNeeded = "%s must not be empty"

// later reads nothing, because nested descriptors are read after their parent has a node.
func later(*yaml.Node) {}

// Words that are allowed as values, and replacements for words that are not allowed.
var (
	charges = []string{"auto", "admitted", "always"} // in the order of limiter.Charge, starting with limiter.Auto

	// gone has, for each field of earlier versions, a message with its replacement.
	gone = map[string]string{
		"anchor":      "anchor is now algorithm: write algorithm: first_hit or algorithm: calendar; for epoch, remove it",
		"values":      "values is now value: write value: [a, b]",
		"otherwise":   "otherwise is now a rule without key: write - rate_limit: {...} in descriptors",
		"rate_limits": "rate_limits is now rate_limit: write rate_limit: [{...}, {...}]",
		"burst_ratio": "burst_ratio was removed: bursts scale with the burst in rate_limit",
	}

	synonyms = map[string]string{
		"leaky_bucket": "token_bucket", "gcra": "token_bucket", "in_flight": "concurrency", "concurrent": "concurrency",
	}
)

// fields reads a mapping by a table, and returns the fields that it read. It skips fields for which
// isUnset, if not nil, returns true.
func (d *decoder) fields(n *yaml.Node, t *table, isUnset func(name string, n *yaml.Node) bool) strictyaml.Given {
	g := strictyaml.Given{Mapping: n, Fields: make([]strictyaml.GivenField, 0, len(n.Content)/2)}
	d.Fields(n, t.names, func(name string, n *yaml.Node) {
		if isUnset != nil && isUnset(name, n) {
			return
		}
		g.Add(name, n)
		d.value(t.fields[slices.Index(t.names, name)].into, n)
	})
	return g
}

// value reads n into the variable that parameter into points to or, if it is a function, calls it with n.
func (d *decoder) value(into any, n *yaml.Node) {
	switch v := into.(type) {
	case func(*yaml.Node):
		v(n)
	case *string:
		*v, _ = d.Text(n)
	case *bool:
		*v = d.Flag(n)
	case *uint32:
		*v = uint32(d.Whole(n, 1, math.MaxUint32))
	case *uint64:
		*v = d.Whole(n, 1, limiter.MaxAmount)
	case *limiter.Algorithm:
		*v = limiter.Algorithm(d.Word(n, limiter.AlgorithmNames()))
	case *limiter.Charge:
		*v = limiter.Auto + limiter.Charge(d.Word(n, charges))
	case *limiter.FailureMode:
		*v = limiter.FailureError + limiter.FailureMode(d.Word(n, limiter.FailureModeNames()))
	}
}

// elsewhere returns the kind of mapping to which a misplaced field belongs, or "" if none has such a field.
func elsewhere(field string) string {
	switch {
	case slices.Contains(format.descriptor.names, field):
		return "a rule"
	case slices.Contains(format.limit.names, field):
		return "a rate_limit"
	case slices.Contains(format.override.names, field):
		return "an override"
	}
	return ""
}
