package descriptors

import (
	"math"

	"gopkg.in/yaml.v3"

	"weir/internal/limiter"
)

// field is a row of the tables of the format: the decoder takes names, bounds and
// words from it, the schema for editors the rest, and a test compares docs/rules.md.
type field struct {
	name  string
	about string
	takes values
}

// values are what a field may have.
type values struct {
	least, most uint64   // of a whole number
	words       []string // if these alone are allowed
	schema      object   // what JSON Schema can say of it
}

// object is one of JSON.
type object = map[string]any

// The fields that the decoder asks for bounds or words.
var (
	unitField       = field{"unit", "second, minute, hour, day, week, month (30 days), year (365 days), except by calendar; any case", reference("unit")}
	multiplierField = field{"unit_multiplier", "number of units in the period, at most 100 years", whole(1, math.MaxUint32).or(1)}
	amountField     = field{"requests_per_unit", "amount per period, or at once with concurrency; 0 denies everything, even with burst", whole(0, limiter.MaxAmount)}
	algorithmField  = field{"algorithm", "how to count", oneOf(limiter.AlgorithmNames()).or(limiter.FixedWindow.String())}
	anchorField     = field{"anchor", "start of fixed windows", oneOf(anchors).or(anchors[limiter.Epoch])}
	timeZoneField   = field{"time_zone", "of anchor: calendar", values{schema: object{"type": []string{"string", "null"}, "minLength": 1}}.or("UTC")}
	burstField      = field{"burst", "size of a token_bucket", whole(1, limiter.MaxAmount)}
	chargeField     = field{"charge", "count denied requests", oneOf(charges).or(charges[0])}
	failureField    = field{"failure_mode", "decision without Redis", oneOf(limiter.FailureModeNames())}
	mostField       = field{"max_requests_per_unit", "largest amount", whole(1, limiter.MaxAmount)}
)

// The tables of the format, by where their fields belong.
var (
	fileTable = []field{
		{"domain", "name of these rules, which Envoy's filter asks for; one file per domain, unless MERGE_DOMAIN_CONFIG is true", reference("neededText")},
		{"name", "for management servers; ignored", reference("text")},
		{"descriptors", "first level of rules", listOf("rule")},
		{"otherwise", "limits for what no rule is for; one per domain", reference("otherwise")},
	}
	descriptorTable = []field{
		{"key", "key of the entry; * is an ordinary character", reference("neededText")},
		{"value", "value of the entry, with * as wildcard. Absent or empty: any", reference("text")},
		{"values", "exact values, instead of value", nonEmptyListOf(object{"type": someText, "pattern": "^[^*]+$"})},
		{"networks", "networks of an address, instead of value", nonEmptyListOf(object{"type": "string", "pattern": "^[0-9A-Fa-f:.]+/[0-9]{1,3}$"})},
		{"regex", "regular expression for the whole value, instead of value", reference("neededText")},
		rateLimitField,
		rateLimitsField,
		{"descriptors", "next level", listOf("rule")},
		{"below", "the limits hold for longer descriptors, too", onOff},
		{"override", "how limits sent by requests count", reference("override")},
		shadowField,
		quotaField,
		{"detailed_metric", "request values in metric labels, all levels", onOff},
		{"value_to_metric", "request values in metric labels for this level, in this rule and those below", onOff},
		shareField,
		metadataField,
	}
	otherwiseTable = []field{rateLimitField, rateLimitsField, shadowField, quotaField, shareField, metadataField}
	limitTable     = []field{
		unitField,
		multiplierField,
		amountField,
		{"unlimited", "admit all, count nothing. Excludes fields that say how to count", onOff},
		{"name", "for replaces, answers and metrics", reference("text")},
		{"replaces", "limits to switch off", listOf("replaced")},
		algorithmField,
		anchorField,
		timeZoneField,
		burstField,
		{"hold", "key of the entry that names what is in flight", values{schema: object{"type": append([]string{"null"}, someText...), "minLength": 1}}.or(limiter.DefaultHold)},
		chargeField,
		{"deny_for", "ban who goes over", values{schema: object{"type": []string{"string", "null"}, "pattern": durationPattern}}},
		failureField,
		{"shadow_mode", "count, never deny, this limit only", onOff},
	}
	replacesTable = []field{{"name", "name of another limit", reference("neededText")}}
	overrideTable = []field{
		algorithmField,
		anchorField,
		timeZoneField,
		{"burst_ratio", "burst of a token_bucket, as part of the amount", values{schema: object{"anyOf": []object{{"type": []string{"number", "null"}, "minimum": leastRatio, "maximum": 1}, pointTo("textOfRatio")}}}},
		mostField,
		unitField,
		multiplierField,
		chargeField,
		failureField,
	}
)

// The fields of descriptorTable that otherwiseTable has, too.
var (
	rateLimitField  = field{"rate_limit", "the limit. Without limits and descriptors, the rule is a whitelist entry", values{schema: object{"anyOf": []object{pointTo("limit"), {"type": "null"}}}}}
	rateLimitsField = field{"rate_limits", "several limits, at least one, instead of rate_limit", nonEmptyListOf(pointTo("limit"))}
	shadowField     = field{"shadow_mode", "count, never deny", onOff}
	quotaField      = field{"quota_mode", "deny only if all quotas are used up", onOff}
	shareField      = field{"share_threshold", "one counter for all values that match; not for one value or any", onOff}
	metadataField   = field{"metadata", "any JSON, returned in dynamic metadata. Unquoted yes, no, on, off, y, n are booleans", values{schema: object{"type": []string{"object", "null"}}}}
)

// The names of the fields, in the order of their tables.
var (
	fileFields       = namesOf(fileTable)
	descriptorFields = namesOf(descriptorTable)
	otherwiseFields  = namesOf(otherwiseTable)
	limitFields      = namesOf(limitTable)
	replacesFields   = namesOf(replacesTable)
	overrideFields   = namesOf(overrideTable)
)

func namesOf(table []field) (names []string) {
	for _, f := range table {
		names = append(names, f.name)
	}
	return names
}

// leastRatio is the smallest burst_ratio.
const leastRatio = 1. / millionths

// durationPattern is what time.ParseDuration takes, without a minus and a bare 0.
const durationPattern = `^\+?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`

// someText is the types of text that is not null: it may look like a number.
var someText = []string{"string", "number", "boolean"}

// onOff is what strictyaml.Flag takes.
var onOff = reference("flag")

// or returns v with the value that a field has if it is left out.
func (v values) or(byDefault any) values {
	v.schema["default"] = byDefault
	return v
}

// Numbers that are text in YAML 1.2, which editors know: those of YAML 1.1 with
// underscores, or to the base 2, and what else the YAML library takes.
var (
	textOfWhole = object{
		"type":    "string",
		"pattern": `^(\+_*)?(0_*([bB][01_]*[01][01_]*|[oO][0-7_]*[0-7][0-7_]*|[xX][0-9A-Fa-f_]*[0-9A-Fa-f][0-9A-Fa-f_]*|[0-7_]*)|[1-9][0-9_]*)$`,
		"not":     object{"pattern": `^(\+?[0-9]+|0o[0-7]+|0x[0-9A-Fa-f]+)$`}, // a number of YAML 1.2
	}
	textOfRatio = object{
		"type":    "string",
		"pattern": `^(\.[0-9]+(_[0-9]+)*|\+_*\._*[0-9][0-9_]*|(\+_*)?[0-9][0-9_]*(\.[0-9_]*)?)([eE]_*[-+]?_*[0-9][0-9_]*)?$`,
		"not":     object{"pattern": `^[^_]*$|^[+0_]*([2-9]|1_*[0-9])[0-9_.]*$`}, // a number of YAML 1.2, or above 1
	}
)

// whole is numbers from least to most, or null.
func whole(least, most uint64) values {
	return values{least: least, most: most, schema: object{"anyOf": []object{
		{"type": []string{"integer", "null"}, "minimum": least, "maximum": most},
		pointTo("textOfWhole"),
	}}}
}

// oneOf is a word, or null.
func oneOf(words []string) values {
	allowed := make([]any, 0, len(words)+1)
	for _, word := range words {
		allowed = append(allowed, word)
	}
	return values{words: words, schema: object{"enum": append(allowed, nil)}}
}

// reference is what a definition of the schema says.
func reference(definition string) values { return values{schema: pointTo(definition)} }

// pointTo points to a definition of the schema.
func pointTo(definition string) object { return object{"$ref": "#/definitions/" + definition} }

// listOf is a list of what a definition says, or null.
func listOf(definition string) values {
	return values{schema: object{"type": []string{"array", "null"}, "items": pointTo(definition)}}
}

func nonEmptyListOf(item object) values {
	return values{schema: object{"type": "array", "minItems": 1, "items": item}}
}

// whole and word read a field by its row.
func (d *decoder) whole(n *yaml.Node, f *field) uint64 {
	return d.Whole(n, f.takes.least, f.takes.most)
}
func (d *decoder) word(n *yaml.Node, f *field) int { return d.Word(n, f.takes.words) }
