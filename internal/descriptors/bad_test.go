package descriptors

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/limiter"
)

const (
	descriptorFieldsText = "key, value, rate_limit, rate_limits, descriptors, shadow_mode, quota_mode, detailed_metric, value_to_metric, share_threshold, metadata"
	limitFieldsText      = "unit, unit_multiplier, requests_per_unit, unlimited, name, replaces, algorithm, anchor, burst, charge, failure_mode, shadow_mode"
	unitsText            = "second, minute, hour, day, week, month, year"
)

var algorithmsText = strings.Join(limiter.AlgorithmNames(), ", ")

// bad holds for each file and directory in testdata/bad the whole report.
var bad = map[string][]string{
	"algorithm_unknown.yaml": {
		`algorithm_unknown.yaml:4:65: descriptors[0].rate_limit.algorithm: "gcra" is not allowed (did you mean token_bucket?), allowed are ` + algorithmsText,
		"algorithm_unknown.yaml:6:65: descriptors[1].rate_limit.algorithm: a list is not allowed, allowed are " + algorithmsText,
	},
	"alias_bomb.yaml": {
		"alias_bomb.yaml:5:23: descriptors[0].metadata.f[7][8][8][9][0][3]: aliases repeat too much, at most 1000000 values are allowed",
	},
	"alias_cycle.yaml": {
		`alias_cycle.yaml:5:19: descriptors[0].descriptors[0]: alias "user" leads back to itself, allowed are aliases of other values`,
	},
	"alias_repeats_problem.yaml": {
		`alias_repeats_problem.yaml:4:58: descriptors[0].rate_limit.requests_per_unit: "many" is not allowed, allowed are whole numbers from 0 to 4294967295`,
	},
	"alias_unknown.yaml": {
		"alias_unknown.yaml:4: invalid YAML: unknown anchor 'limit' referenced; a value that begins with * or & must be in quotes",
	},
	"amount_too_large.yaml": {
		"amount_too_large.yaml:4:17: descriptors[0].rate_limit: 4294967295 per year needs numbers above 2^53, which cannot be counted exactly; a smaller amount, a shorter period or a fixed window can",
		"amount_too_large.yaml:8:9: descriptors[1].rate_limits[1]: a bucket of 4294967295 that refills at 4294967295 per year needs numbers above 2^53, which cannot be counted exactly; a smaller amount, a shorter period or a fixed window can",
		"amount_too_large.yaml:11:9: descriptors[2].rate_limits[0]: a bucket of 4294967295 that refills at 1000000007 per year needs numbers above 2^53, which cannot be counted exactly; a smaller amount, a shorter period or a fixed window can",
	},
	"anchor_of_other_algorithm.yaml": {
		"anchor_of_other_algorithm.yaml:5:81: descriptors[0].rate_limits[0].anchor: sliding_window has no anchor, allowed is one with algorithm fixed_window",
		"anchor_of_other_algorithm.yaml:6:79: descriptors[0].rate_limits[1].anchor: token_bucket has no anchor, allowed is one with algorithm fixed_window",
	},
	"anchor_unknown.yaml": {
		`anchor_unknown.yaml:4:62: descriptors[0].rate_limit.anchor: "First_Hit" is not allowed (did you mean first_hit?), allowed are epoch, first_hit`,
	},
	"binary_invalid.yaml": {
		`binary_invalid.yaml:4:12: descriptors[0].value: !!binary "%%" is not base64, which !!binary needs`,
	},
	"blank_missing.yaml": {
		"blank_missing.yaml:4:17: descriptors[0].rate_limit.unit: a unit is needed, allowed are " + unitsText,
		`blank_missing.yaml:4:18: descriptors[0].rate_limit: unknown field "unit:minute" (a blank is needed after the colon), allowed are ` + limitFieldsText,
	},
	"burst_of_window.yaml": {
		"burst_of_window.yaml:5:53: descriptors[0].rate_limits[0].burst: fixed_window has no burst, allowed is one with algorithm token_bucket",
		"burst_of_window.yaml:6:79: descriptors[0].rate_limits[1].burst: sliding_window has no burst, allowed is one with algorithm token_bucket",
		"burst_of_window.yaml:8:86: descriptors[1].rate_limit.burst: fixed_window has no burst, allowed is one with algorithm token_bucket",
	},
	"burst_zero.yaml": {
		`burst_zero.yaml:4:86: descriptors[0].rate_limit.burst: "0" is not allowed, allowed are whole numbers from 1 to 4294967295`,
	},
	"charge_unknown.yaml": {
		`charge_unknown.yaml:4:62: descriptors[0].rate_limit.charge: "" is not allowed, allowed are auto, admitted, always`,
		"charge_unknown.yaml:6:62: descriptors[1].rate_limit.charge: a mapping is not allowed, allowed are auto, admitted, always",
	},
	"control_character.yaml": {
		"control_character.yaml:3: the byte 0x00 is not text, allowed is UTF-8 without control characters",
	},
	"descriptor_null.yaml": {
		"descriptor_null.yaml:3:4: descriptors[0]: null is not allowed, a mapping is needed",
	},
	"descriptor_text.yaml": {
		`descriptor_text.yaml:3:5: descriptors[0]: "user" is not allowed, a mapping is needed`,
	},
	"descriptors_mapping.yaml": {
		`descriptors_mapping.yaml:3:3: descriptors: a mapping is not allowed, a list is needed; put "- " before its first field`,
	},
	"document_second.yaml": {
		"document_second.yaml:5:1: a second document, one per file is allowed",
	},
	"document_second_invalid.yaml": {
		"document_second_invalid.yaml:7: invalid YAML: did not find expected node content",
	},
	"domain_empty.yaml": {
		"domain_empty.yaml:1:9: domain: a domain is needed, allowed is any text but the empty one",
	},
	"domain_list.yaml": {
		"domain_list.yaml:1:9: domain: a list is not allowed, text is needed",
	},
	"domain_missing.yaml": {
		"domain_missing.yaml:1:1: domain: a domain is needed, allowed is any text but the empty one",
	},
	"domain_twice": {
		`domain_twice/2.yaml:1:9: domain: "api" is already the domain of domain_twice/1.yaml:1:9, allowed is one file per domain unless MERGE_DOMAIN_CONFIG is true`,
	},
	"duplicate_key.yaml": {
		`duplicate_key.yaml:7:5: descriptors[2]: key "user" without value is already at duplicate_key.yaml:3:5, allowed is one descriptor per key and value`,
	},
	"duplicate_key_and_value.yaml": {
		`duplicate_key_and_value.yaml:7:9: descriptors[0].descriptors[1]: key "path" with value "/login" is already at duplicate_key_and_value.yaml:5:9, allowed is one descriptor per key and value`,
	},
	"empty.yaml": {
		"empty.yaml: the file is empty, a domain and its descriptors are needed",
	},
	"empty_but_comment.yaml": {
		"empty_but_comment.yaml: the file is empty, a domain and its descriptors are needed",
	},
	"empty_null.yaml": {
		"empty_null.yaml: the file is empty, a domain and its descriptors are needed",
	},
	"failure_mode_unknown.yaml": {
		`failure_mode_unknown.yaml:4:68: descriptors[0].rate_limit.failure_mode: "closed" is not allowed, allowed are error, allow, deny, local`,
		"failure_mode_unknown.yaml:6:68: descriptors[1].rate_limit.failure_mode: a list is not allowed, allowed are error, allow, deny, local",
	},
	"field_misplaced.yaml": {
		`field_misplaced.yaml:4:5: descriptors[0]: unknown field "requests_per_unit" (it belongs to a rate_limit), allowed are ` + descriptorFieldsText,
		`field_misplaced.yaml:5:54: descriptors[0].rate_limit: unknown field "quota_mode" (it belongs to a descriptor), allowed are ` + limitFieldsText,
	},
	"field_misspelt.yaml": {
		`field_misspelt.yaml:4:5: descriptors[0]: unknown field "rate_limitz" (did you mean rate_limit?), allowed are ` + descriptorFieldsText,
		"field_misspelt.yaml:5:17: descriptors[0].rate_limit.requests_per_unit: a number is needed, allowed are whole numbers from 0 to 4294967295, or unlimited: true instead",
		`field_misspelt.yaml:5:32: descriptors[0].rate_limit: unknown field "request_per_unit" (did you mean requests_per_unit?), allowed are ` + limitFieldsText,
	},
	"field_name_list.yaml": {
		"field_name_list.yaml:4:7: descriptors[0]: a field's name is needed before the colon, allowed are " + descriptorFieldsText,
	},
	"field_repeated.yaml": {
		`field_repeated.yaml:6:5: descriptors[0]: field "value" is repeated, allowed is once`,
	},
	"field_unknown.yaml": {
		`field_unknown.yaml:5:5: descriptors[0]: unknown field "colour", allowed are ` + descriptorFieldsText,
	},
	"flag_number.yaml": {
		`flag_number.yaml:4:18: descriptors[0].shadow_mode: "1" is not allowed, allowed are true and false`,
		`flag_number.yaml:5:17: descriptors[0].quota_mode: the text "true" (in quotes) is not allowed, allowed are true and false`,
		"flag_number.yaml:6:22: descriptors[0].detailed_metric: a list is not allowed, allowed are true and false",
	},
	"key_empty.yaml": {
		"key_empty.yaml:3:10: descriptors[0].key: a key is needed, allowed is any text but the empty one",
	},
	"key_mapping.yaml": {
		"key_mapping.yaml:3:10: descriptors[0].key: a mapping is not allowed, text is needed",
	},
	"key_missing.yaml": {
		"key_missing.yaml:3:5: descriptors[0].key: a key is needed, allowed is any text but the empty one",
	},
	"limit_shadow_mode.yaml": {
		`limit_shadow_mode.yaml:5:59: descriptors[0].rate_limits[0].shadow_mode: "maybe" is not allowed, allowed are true and false`,
	},
	"many.yaml": {
		`many.yaml:1:1: unknown field "domian" (did you mean domain?), allowed are domain, name, descriptors`,
		"many.yaml:1:1: domain: a domain is needed, allowed is any text but the empty one",
		`many.yaml:5:13: descriptors[0].rate_limit.unit: unknown unit "fortnight", allowed are ` + unitsText,
		`many.yaml:6:26: descriptors[0].rate_limit.requests_per_unit: "-1" is not allowed, allowed are whole numbers from 0 to 4294967295`,
		`many.yaml:7:17: descriptors[0].rate_limit.replaces: "none" is not allowed, a list is needed`,
		"many.yaml:9:9: descriptors[0].descriptors[0].key: a key is needed, allowed is any text but the empty one",
		`many.yaml:10:22: descriptors[0].descriptors[0].shadow_mode: "maybe" is not allowed, allowed are true and false`,
	},
	"merge_text.yaml": {
		`merge_text.yaml:4:9: descriptors[0].<<: "limit" cannot be merged, allowed are mappings`,
		"merge_text.yaml:6:23: descriptors[1].<<[1]: a list cannot be merged, allowed are mappings",
	},
	"merged_duplicate": {
		`merged_duplicate/2.yaml:5:5: descriptors[1]: key "user" with value "alice" is already at merged_duplicate/1.yaml:3:5, allowed is one descriptor per key and value`,
	},
	"metadata_list.yaml": {
		"metadata_list.yaml:4:15: descriptors[0].metadata: a list is not allowed, a mapping is needed",
	},
	"metadata_not_json.yaml": {
		`metadata_not_json.yaml:5:14: descriptors[0].metadata.limit: ".inf" is not allowed, allowed are the numbers of JSON`,
		`metadata_not_json.yaml:6:14: descriptors[0].metadata.ratio: ".nan" is not allowed, allowed are the numbers of JSON`,
		`metadata_not_json.yaml:7:12: descriptors[0].metadata.raw: !!binary "/w==" is not allowed, text is needed`,
		`metadata_not_json.yaml:8:15: descriptors[0].metadata.custom: !thing "a" is not allowed, text is needed`,
		"metadata_not_json.yaml:9:17: descriptors[0].metadata.list[0]: a list is not allowed, text is needed",
	},
	"metadata_repeated.yaml": {
		`metadata_repeated.yaml:5:24: descriptors[0].metadata.owner: field "team" is repeated, allowed is once`,
	},
	"nested_too_deep.yaml": {
		"nested_too_deep.yaml:2:1164: " + strings.Repeat("descriptors[0].", 49) + "descriptors[0]: nested too deep, at most 100 levels are allowed",
	},
	"not_utf8.yaml": {
		"not_utf8.yaml:3: the byte 0xe9 is not text, allowed is UTF-8 without control characters",
	},
	"period_too_long.yaml": {
		"period_too_long.yaml:4:17: descriptors[0].rate_limit: a period of 101 years is too long, at most 100 years are allowed",
	},
	"rate_limit_and_rate_limits.yaml": {
		"rate_limit_and_rate_limits.yaml:6:7: descriptors[0].rate_limits: there is a rate_limit, too, allowed is one of rate_limit and rate_limits",
		"rate_limit_and_rate_limits.yaml:8:18: descriptors[1].rate_limits: there is a rate_limit, too, allowed is one of rate_limit and rate_limits",
		`rate_limit_and_rate_limits.yaml:9:51: descriptors[1].rate_limit.requests_per_unit: "many" is not allowed, allowed are whole numbers from 0 to 4294967295`,
	},
	"rate_limit_list.yaml": {
		"rate_limit_list.yaml:5:7: descriptors[0].rate_limit: a list is not allowed (did you mean rate_limits?), a mapping is needed",
	},
	"rate_limit_text.yaml": {
		`rate_limit_text.yaml:4:17: descriptors[0].rate_limit: "5/minute" is not allowed, a mapping is needed`,
	},
	"rate_limits_empty.yaml": {
		"rate_limits_empty.yaml:4:18: descriptors[0].rate_limits: the list is empty, at least one limit is needed",
		"rate_limits_empty.yaml:6:17: descriptors[1].rate_limits: the list is empty, at least one limit is needed",
		"rate_limits_empty.yaml:10:18: descriptors[2].rate_limits: the list is empty, at least one limit is needed",
	},
	"rate_limits_item.yaml": {
		`rate_limits_item.yaml:5:9: descriptors[0].rate_limits[0]: "5/minute" is not allowed, a mapping is needed`,
		"rate_limits_item.yaml:6:8: descriptors[0].rate_limits[1]: null is not allowed, a mapping is needed",
		"rate_limits_item.yaml:7:9: descriptors[0].rate_limits[2].requests_per_unit: a number is needed, allowed are whole numbers from 0 to 4294967295, or unlimited: true instead",
		`rate_limits_item.yaml:7:24: descriptors[0].rate_limits[2]: unknown field "requests_per_units" (did you mean requests_per_unit?), allowed are ` + limitFieldsText,
	},
	"rate_limits_mapping.yaml": {
		"rate_limits_mapping.yaml:4:18: descriptors[0].rate_limits: a mapping is not allowed, a list is needed; put it in brackets, [{...}]",
	},
	"rate_limits_same_counter.yaml": {
		"rate_limits_same_counter.yaml:7:9: descriptors[0].rate_limits[2]: rate_limits[0] has the same counter, allowed are limits that differ in algorithm, anchor, period or shadow_mode",
		"rate_limits_same_counter.yaml:11:9: descriptors[0].rate_limits[6]: rate_limits[5] has the same counter, allowed are limits that differ in algorithm, anchor, period or shadow_mode",
		"rate_limits_same_counter.yaml:16:13: descriptors[0].descriptors[0].rate_limits[1]: rate_limits[0] has the same counter, allowed are limits that differ in algorithm, anchor, period or shadow_mode",
		"rate_limits_same_counter.yaml:17:13: descriptors[0].descriptors[0].rate_limits[2]: rate_limits[0] has the same counter, allowed are limits that differ in algorithm, anchor, period or shadow_mode",
	},
	"rate_limits_same_name.yaml": {
		`rate_limits_same_name.yaml:7:33: descriptors[0].rate_limits[2].name: "steady" is already the name of rate_limits[0], allowed is one limit of a rule per name`,
		`rate_limits_same_name.yaml:8:40: descriptors[0].rate_limits[3].requests_per_unit: "none" is not allowed, allowed are whole numbers from 0 to 4294967295`,
		`rate_limits_same_name.yaml:8:52: descriptors[0].rate_limits[3].name: "steady" is already the name of rate_limits[0], allowed is one limit of a rule per name`,
	},
	"replaces_empty.yaml": {
		"replaces_empty.yaml:8:17: descriptors[0].rate_limit.replaces[0].name: a name is needed, allowed are names of other limits",
		"replaces_empty.yaml:9:11: descriptors[0].rate_limit.replaces[1].name: a name is needed, allowed are names of other limits",
	},
	"replaces_names.yaml": {
		`replaces_names.yaml:7:18: descriptors[0].rate_limit.replaces[0]: "steady" is not allowed, a mapping is needed, such as name: "steady"`,
	},
	"replaces_self.yaml": {
		`replaces_self.yaml:8:17: descriptors[0].rate_limit.replaces: the limit replaces itself ("steady"), allowed are names of other limits`,
	},
	"requests_per_unit_fraction.yaml": {
		`requests_per_unit_fraction.yaml:6:26: descriptors[0].rate_limit.requests_per_unit: "0.5" is not allowed, allowed are whole numbers from 0 to 4294967295`,
	},
	"requests_per_unit_missing.yaml": {
		"requests_per_unit_missing.yaml:5:7: descriptors[0].rate_limit.requests_per_unit: a number is needed, allowed are whole numbers from 0 to 4294967295, or unlimited: true instead",
	},
	"requests_per_unit_negative.yaml": {
		`requests_per_unit_negative.yaml:6:26: descriptors[0].rate_limit.requests_per_unit: "-1" is not allowed, allowed are whole numbers from 0 to 4294967295`,
	},
	"requests_per_unit_null.yaml": {
		"requests_per_unit_null.yaml:5:7: descriptors[0].rate_limit.requests_per_unit: a number is needed, allowed are whole numbers from 0 to 4294967295, or unlimited: true instead",
	},
	"requests_per_unit_quoted.yaml": {
		`requests_per_unit_quoted.yaml:4:51: descriptors[0].rate_limit.requests_per_unit: the text "10" (in quotes) is not allowed, allowed are whole numbers from 0 to 4294967295`,
	},
	"requests_per_unit_text.yaml": {
		`requests_per_unit_text.yaml:6:26: descriptors[0].rate_limit.requests_per_unit: "many" is not allowed, allowed are whole numbers from 0 to 4294967295`,
	},
	"requests_per_unit_too_large.yaml": {
		`requests_per_unit_too_large.yaml:6:26: descriptors[0].rate_limit.requests_per_unit: "4294967296" is not allowed, allowed are whole numbers from 0 to 4294967295`,
	},
	"root_list.yaml": {
		"root_list.yaml:1:1: a list is not allowed, a mapping is needed",
	},
	"root_text.yaml": {
		`root_text.yaml:1:1: "api" is not allowed, a mapping is needed`,
	},
	"share_threshold_without_wildcard.yaml": {
		"share_threshold_without_wildcard.yaml:4:22: descriptors[0].share_threshold: nothing to share, allowed beside a value with a wildcard (*)",
		"share_threshold_without_wildcard.yaml:8:22: descriptors[1].share_threshold: nothing to share, allowed beside a value with a wildcard (*)",
	},
	"syntax.yaml": {
		"syntax.yaml:4: invalid YAML: did not find expected ',' or '}'",
	},
	"syntax_first_line.yaml": {
		"syntax_first_line.yaml:2: invalid YAML: did not find expected ',' or '}'",
	},
	"syntax_tab.yaml": {
		"syntax_tab.yaml:3: invalid YAML: found character that cannot start any token; the line begins with a tab, indent with spaces",
	},
	"tag_directive.yaml": {
		"tag_directive.yaml:1: %TAG is not allowed, leave it out",
	},
	"unit_empty.yaml": {
		"unit_empty.yaml:4:17: descriptors[0].rate_limit.unit: a unit is needed, allowed are " + unitsText,
	},
	"unit_missing.yaml": {
		"unit_missing.yaml:4:17: descriptors[0].rate_limit.unit: a unit is needed, allowed are " + unitsText,
	},
	"unit_multiplier.yaml": {
		`unit_multiplier.yaml:5:41: descriptors[0].rate_limits[0].unit_multiplier: "0" is not allowed, allowed are whole numbers from 1 to 4294967295`,
		`unit_multiplier.yaml:6:41: descriptors[0].rate_limits[1].unit_multiplier: "-1" is not allowed, allowed are whole numbers from 1 to 4294967295`,
		`unit_multiplier.yaml:7:41: descriptors[0].rate_limits[2].unit_multiplier: "1.5" is not allowed, allowed are whole numbers from 1 to 4294967295`,
		`unit_multiplier.yaml:8:41: descriptors[0].rate_limits[3].unit_multiplier: "4294967296" is not allowed, allowed are whole numbers from 1 to 4294967295`,
	},
	"unit_unknown.yaml": {
		`unit_unknown.yaml:4:24: descriptors[0].rate_limit.unit: unknown unit "minutes" (did you mean minute?), allowed are ` + unitsText,
	},
	"unlimited_but_counting.yaml": {
		"unlimited_but_counting.yaml:6:26: descriptors[0].rate_limits[0].unit_multiplier: an unlimited limit has no unit_multiplier, allowed is one of unit_multiplier and unlimited",
		"unlimited_but_counting.yaml:7:20: descriptors[0].rate_limits[0].algorithm: an unlimited limit has no algorithm, allowed is one of algorithm and unlimited",
		"unlimited_but_counting.yaml:8:17: descriptors[0].rate_limits[0].anchor: an unlimited limit has no anchor, allowed is one of anchor and unlimited",
		"unlimited_but_counting.yaml:9:16: descriptors[0].rate_limits[0].burst: an unlimited limit has no burst, allowed is one of burst and unlimited",
		"unlimited_but_counting.yaml:10:17: descriptors[0].rate_limits[0].charge: an unlimited limit has no charge, allowed is one of charge and unlimited",
		"unlimited_but_counting.yaml:11:23: descriptors[0].rate_limits[0].failure_mode: an unlimited limit has no failure_mode, allowed is one of failure_mode and unlimited",
	},
	"unlimited_with_unit.yaml": {
		"unlimited_with_unit.yaml:4:41: descriptors[0].rate_limit.unit: an unlimited limit has no unit, allowed is one of unit and unlimited",
	},
	"words_of_others.yaml": {
		`words_of_others.yaml:4:24: descriptors[0].rate_limit.unit: unknown unit "MIN" (did you mean minute?), allowed are ` + unitsText,
		`words_of_others.yaml:4:62: descriptors[0].rate_limit.algorithm: "sliding" is not allowed (did you mean sliding_window?), allowed are ` + algorithmsText,
		`words_of_others.yaml:6:65: descriptors[1].rate_limit.algorithm: "leaky_bucket" is not allowed (did you mean token_bucket?), allowed are ` + algorithmsText,
		`words_of_others.yaml:7:5: descriptors[1]: unknown field "shadow" (did you mean shadow_mode?), allowed are ` + descriptorFieldsText,
	},
	"value_begins_with_star.yaml": {
		"value_begins_with_star.yaml:4: invalid YAML: did not find expected alphabetic or numeric character; a value that begins with * or & must be in quotes",
	},
	"value_custom_tag.yaml": {
		`value_custom_tag.yaml:4:12: descriptors[0].value: !secret "alice" is not allowed, text is needed`,
	},
	"value_list.yaml": {
		"value_list.yaml:4:12: descriptors[0].value: a list is not allowed, text is needed",
	},
}

func TestLoadReportsEveryProblem(t *testing.T) {
	const dir = "testdata/bad"
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	untested := maps.Clone(bad)
	for _, entry := range entries {
		t.Run(entry.Name(), func(t *testing.T) {
			delete(untested, entry.Name())
			files, _, err := ReadFiles(filepath.Join(dir, entry.Name()))
			if err != nil {
				t.Fatal(err)
			}
			for i := range files {
				files[i].Name = strings.TrimPrefix(filepath.ToSlash(files[i].Name), dir+"/")
			}
			tree, err := Load(files, Options{MergeDomains: strings.HasPrefix(entry.Name(), "merged_")})
			if tree != nil || err == nil {
				t.Fatal("a bad file was loaded")
			}
			if got, want := err.Error(), strings.Join(bad[entry.Name()], "\n"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
	for name := range untested {
		t.Errorf("%s/%s is missing", dir, name)
	}
}

// TestEveryFieldIsRead gives each field a list of lists, which none takes. A field that
// is only listed among the known ones would be passed over.
func TestEveryFieldIsRead(t *testing.T) {
	const list = "[[1]]"
	for field, document := range fieldsWith(list) {
		_, err := Load([]File{{"rules.yaml", []byte(document)}}, Options{})
		if err == nil || !strings.Contains(err.Error(), field) || strings.Contains(err.Error(), "unknown field") {
			t.Errorf("the field %s is not read: %s of it has the error %v", field, list, err)
		}
	}
}

// fieldsWith returns a document for each field, in which the field has a value.
func fieldsWith(value string) map[string]string {
	documents := map[string]string{}
	for _, field := range limitFields {
		documents["rate_limit."+field] = fmt.Sprintf("domain: d\ndescriptors:\n- key: k\n  rate_limit: {%s: %s}\n", field, value)
	}
	for _, field := range descriptorFields {
		documents["descriptors[0]."+field] = fmt.Sprintf("domain: d\ndescriptors:\n- {%s: %s}\n", field, value)
	}
	for _, field := range fileFields {
		documents[field] = fmt.Sprintf("%s: %s\n", field, value)
	}
	return documents
}
