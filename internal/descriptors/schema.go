package descriptors

import (
	"bytes"
	"encoding/json"
	"fmt"
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
		"replaced":   mapping(replacesTable, object{"required": namesOf(replacesTable)}),
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

// mapping is the schema of a mapping with the fields of a table, and no others.
func mapping(table []field, more object) object {
	properties := make(object, len(table))
	for _, f := range table {
		property := object{"description": f.about}
		for word, value := range f.takes.schema {
			property[word] = value
		}
		properties[f.name] = property
	}
	schema := object{"type": "object", "additionalProperties": false, "properties": properties}
	for word, value := range more {
		schema[word] = value
	}
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
	counting := slices.DeleteFunc(slices.Clone(countingFields), func(field string) bool { return field == unitField.name })
	unlimited := without("an unlimited limit does not count", counting...)
	unlimited["properties"].(object)[unitField.name] = object{"maxLength": 0}
	needed := has(unitField.name, object{"type": "string", "minLength": 1})
	needed["properties"].(object)[amountField.name] = object{"type": []string{"integer", "string"}}
	needed["required"] = []string{unitField.name, amountField.name}
	rules := []object{{"if": isOn("unlimited"), "then": unlimited, "else": needed}}
	options := make(map[string]limiter.Option, len(limitOptions))
	for _, o := range limitOptions {
		options[string(o)] = o
	}
	rules = append(rules, withOptions(options)...)
	return append(rules, zoneNeedsCalendar(byCalendar, monthsByDefault))
}

func overrideRules() object {
	rules := withOptions(overrideOptions)
	for field, needed := range neededInOverride {
		rules = append(rules, object{"if": has(field, notNull), "then": has(needed, notNull)})
	}
	slices.SortFunc(rules, func(a, b object) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return object{"minProperties": 1, "not": onlyNulls, "allOf": append(rules, zoneNeedsCalendar(byCalendar), object{
		"properties": object{algorithmField.name: object{"not": object{"const": limiter.Concurrency.String()}}},
	})}
}

// withOptions refuses, for each algorithm, the fields for options that it does not take.
func withOptions(options map[string]limiter.Option) (rules []object) {
	for i, name := range limiter.AlgorithmNames() {
		algorithm := limiter.Algorithm(i)
		condition := has(algorithmField.name, object{"const": name})
		if algorithm == limiter.FixedWindow { // the default
			condition = object{"properties": object{algorithmField.name: object{"enum": []any{name, nil}}}}
		}
		var refused []string
		for field, o := range options {
			if !algorithm.Takes(o) {
				refused = append(refused, field)
			}
		}
		rules = append(rules, object{"if": condition, "then": without(name+" has none", refused...)})
	}
	return rules
}

// zoneNeedsCalendar refuses a time zone without a calendar.
func zoneNeedsCalendar(calendar ...object) object {
	zoned := has(timeZoneField.name, object{"type": "string"})
	zoned["not"] = object{"anyOf": calendar}
	return object{"if": zoned, "then": without("allowed is one with anchor calendar", timeZoneField.name)}
}

// The conditions that a mapping counts by the calendar: it says so, or months do by
// USE_CALENDAR_MONTH_RATE_LIMIT, which the schema does not know.
var (
	byCalendar      = has(anchorField.name, object{"const": anchors[limiter.ByCalendar]})
	monthsByDefault = object{
		"required": []string{unitField.name},
		"properties": object{
			unitField.name:      object{"pattern": anyCase(limiter.Month.String())},
			anchorField.name:    object{"type": "null"},
			algorithmField.name: object{"enum": []any{limiter.FixedWindow.String(), nil}},
		},
	}
)
