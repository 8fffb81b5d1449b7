package descriptors

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/limiter"
)

// Schema returns a JSON Schema of rule files, for editors. It is of draft 7, which
// all of them know. What it refuses, Load refuses; Load alone knows what several
// values make together, such as an amount that is too large for its period.
func Schema() []byte {
	schema := mapping(fileTable, object{"required": []string{"domain"}})
	schema["$schema"] = "http://json-schema.org/draft-07/schema#"
	schema["title"] = "Rules of Weir"
	schema["definitions"] = object{
		"rule":       mapping(descriptorTable, object{"required": []string{"key"}, "allOf": togetherInRule()}),
		"otherwise":  mapping(otherwiseTable, object{"anyOf": limited, "allOf": []object{oneKindOfLimits}}),
		"limit":      mapping(limitTable, object{"allOf": togetherInLimit()}),
		"replaced":   mapping(replacesTable, object{"required": replacesTable.names}),
		"override":   mapping(overrideTable, overrideRules()),
		"text":       object{"type": append([]string{"null"}, someText...)},
		"neededText": object{"type": someText, "minLength": 1},
		"flag":       object{"anyOf": []object{{"type": []string{"boolean", "null"}}, {"enum": wordsForBooleans(true, false)}}},
		"unit":       unitSchema(),

		"textOfWhole": textOfWhole,
		"textOfRatio": textOfRatio,
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(schema); err != nil {
		panic(fmt.Sprintf("descriptors: the schema is no JSON: %v", err))
	}
	return b.Bytes()
}

// object is one of JSON.
type object = map[string]any

// mapping is the schema of a mapping with the fields of a table, and no others.
func mapping[T any](t *table[T], more object) object {
	properties := make(object, len(t.rows))
	for _, f := range t.rows {
		property := object{"description": f.about}
		maps.Copy(property, f.schema)
		properties[f.name] = property
	}
	schema := object{"type": "object", "additionalProperties": false, "properties": properties}
	maps.Copy(schema, more)
	return schema
}

// wordsForBooleans are the words that mean one of values, and are text in YAML 1.2.
func wordsForBooleans(values ...bool) (words []string) {
	for word, value := range strictyaml.Booleans() {
		if slices.Contains(values, value) && !strings.EqualFold(word, fmt.Sprint(value)) {
			words = append(words, word)
		}
	}
	slices.Sort(words)
	return words
}

// unitSchema is the units in any case. Beside unlimited, an empty one is none.
func unitSchema() object {
	patterns := make([]string, 0, len(limiter.UnitNames()))
	for _, name := range limiter.UnitNames() {
		patterns = append(patterns, anyCase(name))
	}
	return object{"anyOf": []object{
		{"enum": limiter.UnitNames()},
		{"type": "string", "pattern": strings.Join(patterns, "|")},
		{"type": []string{"string", "null"}, "maxLength": 0},
	}}
}

// anyCase is the pattern of a word of letters in any case.
func anyCase(word string) string {
	var b strings.Builder
	for _, c := range word {
		fmt.Fprintf(&b, "[%c%c]", c-'a'+'A', c)
	}
	return "^" + b.String() + "$"
}

// has is the condition that a mapping has a field with such a value.
func has(field string, value object) object {
	return object{"required": []string{field}, "properties": object{field: value}}
}

var notNull = object{"not": object{"type": "null"}}

// onlyNulls is the condition that no field of a mapping has a value.
var onlyNulls = object{"additionalProperties": object{"type": "null"}}

// isOn is the condition that a mapping has a flag that is set.
func isOn(flag string) object {
	on := []any{true}
	for _, word := range wordsForBooleans(true) {
		on = append(on, word)
	}
	return has(flag, object{"enum": on})
}

// without refuses fields but for null, which is as good as left out. Editors show why.
func without(why string, fields ...string) object {
	refused := make(object, len(fields))
	for _, field := range fields {
		refused[field] = object{"type": "null", "errorMessage": why}
	}
	return object{"properties": refused}
}

// limited is the condition that there is one limit or several.
var limited = []object{has("rate_limit", object{"type": "object"}), {"required": []string{"rate_limits"}}}

// oneKindOfLimits refuses rate_limits beside rate_limit.
var oneKindOfLimits = object{"if": limited[0], "then": without("allowed is one of rate_limit and rate_limits", "rate_limits")}

func togetherInRule() []object {
	rules := []object{
		oneKindOfLimits,
		{"if": isOn("below"), "then": object{"anyOf": limited}},
	}
	several := []object{has("value", object{"pattern": `\*`, "type": "string"})}
	for i, field := range matcherFields {
		given := object{"required": []string{field}}
		if field == "value" {
			given = has(field, notNull) // null is as good as left out
		} else {
			several = append(several, given)
		}
		if i+1 < len(matcherFields) {
			rules = append(rules, object{"if": given, "then": without("allowed is one of "+strings.Join(matcherFields, ", "), matcherFields[i+1:]...)})
		}
	}
	return append(rules, object{"if": isOn("share_threshold"), "then": object{"anyOf": several}})
}

func togetherInLimit() []object {
	var counting []string
	for _, f := range limitTable.rows {
		if f.counts && f.name != "unit" {
			counting = append(counting, f.name)
		}
	}
	unlimited := without("an unlimited limit does not count", counting...)
	unlimited["properties"].(object)["unit"] = object{"maxLength": 0}
	needed := has("unit", object{"type": "string", "minLength": 1})
	needed["properties"].(object)["requests_per_unit"] = object{"type": []string{"integer", "string"}}
	needed["required"] = []string{"unit", "requests_per_unit"}
	rules := []object{{"if": isOn("unlimited"), "then": unlimited, "else": needed}}
	rules = append(rules, withOptions(limitTable)...)
	return append(rules, zoneNeedsCalendar(byCalendar, monthsByDefault))
}

func overrideRules() object {
	rules := withOptions(overrideTable)
	for _, pair := range neededInOverride {
		rules = append(rules, object{"if": has(pair.field, notNull), "then": has(pair.needed, notNull)})
	}
	return object{"minProperties": 1, "not": onlyNulls, "allOf": append(rules, zoneNeedsCalendar(byCalendar), object{
		"properties": object{"algorithm": object{"not": object{"const": limiter.Concurrency.String()}}},
	})}
}

// withOptions refuses, for each algorithm, the fields that it does not take.
func withOptions(t *table[limitFields]) (rules []object) {
	for i, name := range limiter.AlgorithmNames() {
		algorithm := limiter.Algorithm(i)
		condition := has("algorithm", object{"const": name})
		if algorithm == limiter.FixedWindow { // the default
			condition = object{"properties": object{"algorithm": object{"enum": []any{name, nil}}}}
		}
		var refused []string
		for _, f := range t.rows {
			if f.option != "" && !algorithm.Takes(f.option) {
				refused = append(refused, f.name)
			}
		}
		rules = append(rules, object{"if": condition, "then": without(name+" has none", refused...)})
	}
	return rules
}

// zoneNeedsCalendar refuses a time zone without a calendar.
func zoneNeedsCalendar(calendar ...object) object {
	zoned := has("time_zone", object{"type": "string"})
	zoned["not"] = object{"anyOf": calendar}
	return object{"if": zoned, "then": without("allowed is one with anchor calendar", "time_zone")}
}

// The conditions that a mapping counts by the calendar: it says so, or months do by
// USE_CALENDAR_MONTH_RATE_LIMIT, which the schema does not know.
var (
	byCalendar      = has("anchor", object{"const": anchors[limiter.ByCalendar]})
	monthsByDefault = object{
		"required": []string{"unit"},
		"properties": object{
			"unit":      object{"pattern": anyCase(limiter.Month.String())},
			"anchor":    object{"type": "null"},
			"algorithm": object{"enum": []any{limiter.FixedWindow.String(), nil}},
		},
	}
)

// durationPattern is what time.ParseDuration takes, without a minus and a bare 0.
const durationPattern = `^\+?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`

// someText is the types of text that is not null: it may look like a number.
var someText = []string{"string", "number", "boolean"}

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

// reference points to a definition of the schema.
func reference(definition string) object { return object{"$ref": "#/definitions/" + definition} }

// listOf is a list of what a definition says, or null.
func listOf(definition string) object {
	return object{"type": []string{"array", "null"}, "items": reference(definition)}
}

func nonEmptyListOf(item object) object {
	return object{"type": "array", "minItems": 1, "items": item}
}
