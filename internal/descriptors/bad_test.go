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
	descriptorFieldsText = "key, value, values, networks, regex, rate_limit, rate_limits, descriptors, below, override, shadow_mode, quota_mode, detailed_metric, value_to_metric, share_threshold, metadata"
	limitFieldsText      = "unit, unit_multiplier, requests_per_unit, unlimited, name, replaces, algorithm, anchor, time_zone, burst, hold, charge, deny_for, failure_mode, shadow_mode"
	otherwiseFieldsText  = "rate_limit, rate_limits, shadow_mode, quota_mode, share_threshold, metadata"
	overrideFieldsText   = "algorithm, anchor, time_zone, burst_ratio, max_requests_per_unit, unit, unit_multiplier, charge, failure_mode"
	denyForText          = "allowed are durations from 1ms to 876000h (100 years), such as 30s, 10m, 1h30m"
	zonesText            = "allowed are names of the IANA database, such as UTC or Europe/Berlin"
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
		`alias_repeats_problem.yaml:4:58: descriptors[0].rate_limit.requests_per_unit: "many" is not allowed, allowed are whole numbers from 0 to 1125899906842624`,
	},
	"alias_unknown.yaml": {
		"alias_unknown.yaml:4: invalid YAML: unknown anchor 'limit' referenced; a value that begins with * or & must be in quotes",
	},
	"amount_too_large.yaml": {
		"amount_too_large.yaml:4:17: descriptors[0].rate_limit: 4294967295 per year needs numbers above 2^53, which cannot be counted exactly; a smaller amount, a shorter period or a fixed window can",
		"amount_too_large.yaml:8:9: descriptors[1].rate_limits[1]: a bucket of 4294967295 that refills at 4294967295 per year needs numbers above 2^53, which cannot be counted exactly; a smaller amount, a shorter period or a fixed window can",
		"amount_too_large.yaml:11:9: descriptors[2].rate_limits[0]: a bucket of 4294967295 that refills at 1000000007 per year needs numbers above 2^53, which cannot be counted exactly; a smaller amount, a shorter period or a fixed window can",
		"amount_too_large.yaml:16:17: descriptors[3].rate_limit: 1125899906842624 per month needs numbers above 2^53, which cannot be counted exactly; a smaller amount, a shorter period or a fixed window can",
		"amount_too_large.yaml:18:17: descriptors[4].rate_limit: a bucket of 9007199254 that refills at 9007199254 per second needs numbers above 2^53, which cannot be counted exactly; a smaller amount, a shorter period or a fixed window can",
	},
	"amounts.yaml": {
		`amounts.yaml:5:42: descriptors[0].rate_limits[0].requests_per_unit: "1e6" is not allowed, allowed are whole numbers from 0 to 1125899906842624`,
		`amounts.yaml:6:42: descriptors[0].rate_limits[1].requests_per_unit: "1.0" is not allowed, allowed are whole numbers from 0 to 1125899906842624`,
		`amounts.yaml:7:42: descriptors[0].rate_limits[2].requests_per_unit: "18446744073709551616" is not allowed, allowed are whole numbers from 0 to 1125899906842624`,
		`amounts.yaml:8:42: descriptors[0].rate_limits[3].requests_per_unit: "0x4000000000001" is not allowed, allowed are whole numbers from 0 to 1125899906842624`,
		`amounts.yaml:9:78: descriptors[0].rate_limits[4].burst: "1125899906842625" is not allowed, allowed are whole numbers from 1 to 1125899906842624`,
		`amounts.yaml:10:78: descriptors[0].rate_limits[5].burst: "-1" is not allowed, allowed are whole numbers from 1 to 1125899906842624`,
		`amounts.yaml:11:78: descriptors[0].rate_limits[6].burst: "0.5" is not allowed, allowed are whole numbers from 1 to 1125899906842624`,
		`amounts.yaml:12:78: descriptors[0].rate_limits[7].burst: "1e6" is not allowed, allowed are whole numbers from 1 to 1125899906842624`,
	},
	"anchor_of_other_algorithm.yaml": {
		"anchor_of_other_algorithm.yaml:5:81: descriptors[0].rate_limits[0].anchor: sliding_window has no anchor, allowed is one with algorithm fixed_window",
		"anchor_of_other_algorithm.yaml:6:79: descriptors[0].rate_limits[1].anchor: token_bucket has no anchor, allowed is one with algorithm fixed_window",
	},
	"anchor_unknown.yaml": {
		`anchor_unknown.yaml:4:62: descriptors[0].rate_limit.anchor: "First_Hit" is not allowed (did you mean first_hit?), allowed are epoch, first_hit, calendar`,
	},
	"below_without_limit.yaml": {
		"below_without_limit.yaml:3:24: descriptors[0].below: the rule has no limit that could hold below it, allowed beside rate_limit or rate_limits",
		"below_without_limit.yaml:5:12: descriptors[1].below: the rule has no limit that could hold below it, allowed beside rate_limit or rate_limits",
		`below_without_limit.yaml:9:24: descriptors[2].below: "yes please" is not allowed, allowed are true and false`,
		`below_without_limit.yaml:10:49: descriptors[3].rate_limit.unit: unknown unit "eon", allowed are ` + unitsText,
		`below_without_limit.yaml:11:1: unknown field "below" (it belongs to a descriptor), allowed are domain, name, descriptors, otherwise`,
		`below_without_limit.yaml:13:3: otherwise: unknown field "below" (it belongs to a descriptor), allowed are ` + otherwiseFieldsText,
		`below_without_limit.yaml:14:49: otherwise.rate_limit: unknown field "below" (it belongs to a descriptor), allowed are ` + limitFieldsText,
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
		`burst_zero.yaml:4:86: descriptors[0].rate_limit.burst: "0" is not allowed, allowed are whole numbers from 1 to 1125899906842624`,
	},
	"calendar_multiplier.yaml": {
		"calendar_multiplier.yaml:4:17: descriptors[0].rate_limit: windows of 5 months have no place on the calendar, allowed with anchor calendar is a unit_multiplier of 1, 2, 3, 4, 6, 12",
		"calendar_multiplier.yaml:6:17: descriptors[1].rate_limit: windows of 2 weeks have no place on the calendar, allowed with anchor calendar is a unit_multiplier of 1",
	},
	"charge_unknown.yaml": {
		`charge_unknown.yaml:4:62: descriptors[0].rate_limit.charge: "" is not allowed, allowed are auto, admitted, always`,
		"charge_unknown.yaml:6:62: descriptors[1].rate_limit.charge: a mapping is not allowed, allowed are auto, admitted, always",
	},
	"concurrency_options.yaml": {
		"concurrency_options.yaml:5:77: descriptors[0].rate_limits[0].burst: concurrency has no burst, allowed is one with algorithm token_bucket",
		"concurrency_options.yaml:6:76: descriptors[0].rate_limits[1].anchor: concurrency has no anchor, allowed is one with algorithm fixed_window",
		"concurrency_options.yaml:7:75: descriptors[0].rate_limits[2].charge: concurrency has no charge, allowed is one with algorithm fixed_window, sliding_window, token_bucket",
		`concurrency_options.yaml:8:55: descriptors[0].rate_limits[3].algorithm: "in_flight" is not allowed (did you mean concurrency?), allowed are fixed_window, sliding_window, token_bucket, concurrency`,
	},
	"control_character.yaml": {
		"control_character.yaml:3: the byte 0x00 is not text, allowed is UTF-8 without control characters",
	},
	"deny_for.yaml": {
		`deny_for.yaml:4:64: descriptors[0].rate_limit.deny_for: "-10m" is not allowed, ` + denyForText,
		`deny_for.yaml:6:64: descriptors[1].rate_limit.deny_for: "0" is not allowed, ` + denyForText,
		`deny_for.yaml:8:64: descriptors[2].rate_limit.deny_for: "10" is not allowed, ` + denyForText,
		`deny_for.yaml:10:64: descriptors[3].rate_limit.deny_for: "ten minutes" is not allowed, ` + denyForText,
		`deny_for.yaml:12:64: descriptors[4].rate_limit.deny_for: "999us" is not allowed, ` + denyForText,
		`deny_for.yaml:14:64: descriptors[5].rate_limit.deny_for: "876001h" is not allowed, ` + denyForText,
		`deny_for.yaml:16:64: descriptors[6].rate_limit.deny_for: a list is not allowed, text is needed`,
		`deny_for.yaml:18:45: descriptors[7].rate_limit.deny_for: an unlimited limit has no deny_for, allowed is one of deny_for and unlimited`,
		`deny_for.yaml:20:5: descriptors[8]: unknown field "deny_for" (it belongs to a rate_limit), allowed are ` + descriptorFieldsText,
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
		"field_misspelt.yaml:5:17: descriptors[0].rate_limit.requests_per_unit: a number is needed, allowed are whole numbers from 0 to 1125899906842624, or unlimited: true instead",
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
	"hold_differs.yaml": {
		`hold_differs.yaml:6:9: descriptors[0].rate_limits[1].hold: "call" differs from "request_id" of rate_limits[0], allowed is one entry that names the holds of a rule`,
		"hold_differs.yaml:7:9: descriptors[0].rate_limits[2]: rate_limits[0] has the same counter, allowed are limits that differ in algorithm, anchor, time_zone, period or shadow_mode",
		`hold_differs.yaml:12:9: descriptors[1].descriptors[0].hold: "call" differs from "request_id" of tenant at hold_differs.yaml:8:5, which holds below, allowed is one entry that names holds`,
		"hold_differs.yaml:14:27: descriptors[2].override.algorithm: a limit that requests bring along names no hold, allowed is another algorithm than concurrency",
	},
	"hold_empty.yaml": {
		"hold_empty.yaml:4:84: descriptors[0].rate_limit.hold: a key is needed, allowed is that of an entry that names each request, such as request_id",
		"hold_empty.yaml:6:84: descriptors[1].rate_limit.hold: a list is not allowed, text is needed",
	},
	"hold_is_a_level.yaml": {
		`hold_is_a_level.yaml:6:9: the key "request_id" names the holds of user at hold_is_a_level.yaml:3:5, allowed is another key, or another hold there`,
		`hold_is_a_level.yaml:7:5: the key "call" names the holds of call|tenant at hold_is_a_level.yaml:9:9, allowed is another key, or another hold there`,
	},
	"hold_of_other_algorithm.yaml": {
		"hold_of_other_algorithm.yaml:4:60: descriptors[0].rate_limit.hold: fixed_window has no hold, allowed is one with algorithm concurrency",
		"hold_of_other_algorithm.yaml:7:77: descriptors[1].rate_limits[0].hold: token_bucket has no hold, allowed is one with algorithm concurrency",
		"hold_of_other_algorithm.yaml:8:33: descriptors[1].rate_limits[1].hold: an unlimited limit has no hold, allowed is one of hold and unlimited",
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
	"list_empty.yaml": {
		"list_empty.yaml:4:13: descriptors[0].values: the list is empty, at least one item is needed",
		"list_empty.yaml:6:12: descriptors[1].values: the list is empty, at least one item is needed",
		"list_empty.yaml:8:30: descriptors[2].networks: the list is empty, at least one item is needed",
		"list_empty.yaml:9:30: descriptors[3].networks: the list is empty, at least one item is needed",
		`list_empty.yaml:10:25: descriptors[4].values: "alice" is not allowed, a list is needed`,
		"list_empty.yaml:11:30: descriptors[5].networks: a mapping is not allowed, a list is needed; put it in brackets, [{...}]",
	},
	"many.yaml": {
		`many.yaml:1:1: unknown field "domian" (did you mean domain?), allowed are domain, name, descriptors, otherwise`,
		"many.yaml:1:1: domain: a domain is needed, allowed is any text but the empty one",
		`many.yaml:5:13: descriptors[0].rate_limit.unit: unknown unit "fortnight", allowed are ` + unitsText,
		`many.yaml:6:26: descriptors[0].rate_limit.requests_per_unit: "-1" is not allowed, allowed are whole numbers from 0 to 1125899906842624`,
		`many.yaml:7:17: descriptors[0].rate_limit.replaces: "none" is not allowed, a list is needed`,
		"many.yaml:9:9: descriptors[0].descriptors[0].key: a key is needed, allowed is any text but the empty one",
		`many.yaml:10:22: descriptors[0].descriptors[0].shadow_mode: "maybe" is not allowed, allowed are true and false`,
	},
	"merge_text.yaml": {
		`merge_text.yaml:4:9: descriptors[0].<<: "limit" cannot be merged, allowed are mappings`,
		"merge_text.yaml:6:23: descriptors[1].<<[1]: a list cannot be merged, allowed are mappings",
	},
	"merged_hold": {
		`merged_hold/b.yaml:3:5: the key "call" names the holds of user at merged_hold/a.yaml:3:5, allowed is another key, or another hold there`,
	},
	"merged_duplicate": {
		`merged_duplicate/2.yaml:5:5: descriptors[1]: key "user" with value "alice" is already at merged_duplicate/1.yaml:3:5, allowed is one descriptor per key and value`,
	},
	"merged_list": {
		`merged_list/2.yaml:3:33: descriptors[0].values[1]: key "user" with value "bob" is already at merged_list/1.yaml:3:5, allowed is one descriptor per key and value`,
		`merged_list/2.yaml:4:31: descriptors[1].networks[0]: key "address" with network 10.0.0.0/8 is already at merged_list/1.yaml:4:5, allowed is one descriptor per key and value`,
	},
	"merged_otherwise": {
		"merged_otherwise/2.yaml:2:12: otherwise: there is one at merged_otherwise/1.yaml:3:3 already, allowed is one per domain",
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
	"networks_item.yaml": {
		`networks_item.yaml:5:9: descriptors[0].networks[0]: "office" is no network, allowed are such as 10.0.0.0/8 and 2001:db8::/32`,
		`networks_item.yaml:6:9: descriptors[0].networks[1]: "10.0.0.1" is an address, allowed are networks: write "10.0.0.1/32" for this address alone`,
		`networks_item.yaml:7:9: descriptors[0].networks[2]: "2001:db8::1" is an address, allowed are networks: write "2001:db8::1/128" for this address alone`,
		`networks_item.yaml:8:9: descriptors[0].networks[3]: "10.1.2.3/8" has bits set after the first 8 (did you mean 10.0.0.0/8?)`,
		`networks_item.yaml:9:9: descriptors[0].networks[4]: "2001:db8::1/32" has bits set after the first 32 (did you mean 2001:db8::/32?)`,
		`networks_item.yaml:10:9: descriptors[0].networks[5]: "10.0.0.0/33" is no network, allowed are such as 10.0.0.0/8 and 2001:db8::/32`,
		`networks_item.yaml:11:9: descriptors[0].networks[6]: "fe80::%eth0/10" is no network, allowed are such as 10.0.0.0/8 and 2001:db8::/32`,
		`networks_item.yaml:12:9: descriptors[0].networks[7]: "10.0.0.0/08" is no network, allowed are such as 10.0.0.0/8 and 2001:db8::/32`,
		`networks_item.yaml:13:9: descriptors[0].networks[8]: "::ffff:10.1.0.0/104" has bits set after the first 104 (did you mean ::ffff:10.0.0.0/104?)`,
		`networks_item.yaml:14:9: descriptors[0].networks[9]: "::ffff:10.1.0.0/8" has bits set after the first 8 (did you mean 10.0.0.0/8?)`,
		"networks_item.yaml:16:9: descriptors[0].networks[11]: a list is not allowed, text is needed",
		`networks_item.yaml:17:8: descriptors[0].networks[12]: "" is no network, allowed are such as 10.0.0.0/8 and 2001:db8::/32`,
	},
	"networks_twice.yaml": {
		"networks_twice.yaml:3:60: descriptors[0].networks[2]: network 10.0.0.0/8 is repeated, allowed is once",
		`networks_twice.yaml:5:31: descriptors[2].networks[0]: key "address" with network 10.0.0.0/16 is already at networks_twice.yaml:4:5, allowed is one descriptor per key and value`,
		`networks_twice.yaml:5:54: descriptors[2].networks[1]: key "address" with network 2001:db8::/48 is already at networks_twice.yaml:4:5, allowed is one descriptor per key and value`,
	},
	"not_utf8.yaml": {
		"not_utf8.yaml:3: the byte 0xe9 is not text, allowed is UTF-8 without control characters",
	},
	"otherwise_both.yaml": {
		`otherwise_both.yaml:3:46: otherwise.rate_limit.requests_per_unit: "many" is not allowed, allowed are whole numbers from 0 to 1125899906842624`,
		"otherwise_both.yaml:4:16: otherwise.rate_limits: there is a rate_limit, too, allowed is one of rate_limit and rate_limits",
	},
	"otherwise_null.yaml": {
		"otherwise_null.yaml:2:11: otherwise: null is not allowed, a mapping is needed",
	},
	"otherwise_without_limit.yaml": {
		`otherwise_without_limit.yaml:4:5: descriptors[0]: unknown field "otherwise" (it belongs to the file), allowed are ` + descriptorFieldsText,
		"otherwise_without_limit.yaml:6:3: otherwise: a limit is needed, allowed are rate_limit and rate_limits",
		`otherwise_without_limit.yaml:6:3: otherwise: unknown field "key" (it belongs to a descriptor), allowed are ` + otherwiseFieldsText,
		`otherwise_without_limit.yaml:9:3: otherwise: unknown field "descriptors" (it belongs to a descriptor), allowed are ` + otherwiseFieldsText,
	},
	"override.yaml": {
		"override.yaml:3:38: descriptors[0].override.burst_ratio: fixed_window has no burst_ratio, allowed is one with algorithm token_bucket",
		"override.yaml:4:65: descriptors[1].override.burst_ratio: sliding_window has no burst_ratio, allowed is one with algorithm token_bucket",
		`override.yaml:5:63: descriptors[2].override.burst_ratio: "0" is not allowed, allowed are numbers from 0.000001 to 1`,
		`override.yaml:6:63: descriptors[3].override.burst_ratio: "1.5" is not allowed, allowed are numbers from 0.000001 to 1`,
		`override.yaml:7:63: descriptors[4].override.burst_ratio: the text "0.5" (in quotes) is not allowed, allowed are numbers from 0.000001 to 1`,
		`override.yaml:8:36: descriptors[5].override.algorithm: "token_buckets" is not allowed (did you mean token_bucket?), allowed are ` + algorithmsText,
		"override.yaml:9:58: descriptors[6].override.anchor: token_bucket has no anchor, allowed is one with algorithm fixed_window",
		`override.yaml:10:48: descriptors[7].override.max_requests_per_unit: "0" is not allowed, allowed are whole numbers from 1 to 1125899906842624`,
		"override.yaml:11:31: descriptors[8].override.unit: there is no max_requests_per_unit, allowed is unit beside it",
		"override.yaml:12:68: descriptors[9].override.unit_multiplier: there is no unit, allowed is unit_multiplier beside it",
		"override.yaml:13:24: descriptors[10].override: nothing is said of limits that requests bring along, allowed are " + overrideFieldsText,
		`override.yaml:14:24: descriptors[11].override: "5" is not allowed, a mapping is needed`,
		`override.yaml:15:25: descriptors[12].override: unknown field "burst" (did you mean burst_ratio?), allowed are ` + overrideFieldsText,
		`override.yaml:16:14: descriptors[13]: unknown field "burst_ratio" (it belongs to an override), allowed are ` + descriptorFieldsText,
		`override.yaml:17:63: descriptors[14].override.burst_ratio: "0.0000001" is not allowed, allowed are numbers from 0.000001 to 1`,
		"override.yaml:18:24: descriptors[15].override: null is not allowed, a mapping is needed",
	},
	"override_too_large.yaml": {
		"override_too_large.yaml:3:24: descriptors[0].override: 4294967295 per year needs numbers above 2^53, which cannot be counted exactly; a smaller amount, a shorter period or a fixed window can",
		"override_too_large.yaml:4:24: descriptors[1].override: a period of 101 years is too long, at most 100 years are allowed",
	},
	"override_without_unit.yaml": {
		"override_without_unit.yaml:3:24: descriptors[0].override: the rule has no limit with a period, so max_requests_per_unit needs a unit, allowed are " + unitsText,
		"override_without_unit.yaml:4:24: descriptors[1].override: the rule has no limit with a period, so max_requests_per_unit needs a unit, allowed are " + unitsText,
		"override_without_unit.yaml:6:15: descriptors[2].override: the rule has limits of several periods, so max_requests_per_unit needs a unit, allowed are " + unitsText,
		`override_without_unit.yaml:10:24: descriptors[3].rate_limit.unit: unknown unit "eon", allowed are ` + unitsText,
	},
	"period_too_long.yaml": {
		"period_too_long.yaml:4:17: descriptors[0].rate_limit: a period of 101 years is too long, at most 100 years are allowed",
	},
	"rate_limit_and_rate_limits.yaml": {
		"rate_limit_and_rate_limits.yaml:6:7: descriptors[0].rate_limits: there is a rate_limit, too, allowed is one of rate_limit and rate_limits",
		"rate_limit_and_rate_limits.yaml:8:18: descriptors[1].rate_limits: there is a rate_limit, too, allowed is one of rate_limit and rate_limits",
		`rate_limit_and_rate_limits.yaml:9:51: descriptors[1].rate_limit.requests_per_unit: "many" is not allowed, allowed are whole numbers from 0 to 1125899906842624`,
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
		"rate_limits_item.yaml:7:9: descriptors[0].rate_limits[2].requests_per_unit: a number is needed, allowed are whole numbers from 0 to 1125899906842624, or unlimited: true instead",
		`rate_limits_item.yaml:7:24: descriptors[0].rate_limits[2]: unknown field "requests_per_units" (did you mean requests_per_unit?), allowed are ` + limitFieldsText,
	},
	"rate_limits_mapping.yaml": {
		"rate_limits_mapping.yaml:4:18: descriptors[0].rate_limits: a mapping is not allowed, a list is needed; put it in brackets, [{...}]",
	},
	"rate_limits_same_counter.yaml": {
		"rate_limits_same_counter.yaml:7:9: descriptors[0].rate_limits[2]: rate_limits[0] has the same counter, allowed are limits that differ in algorithm, anchor, time_zone, period or shadow_mode",
		"rate_limits_same_counter.yaml:11:9: descriptors[0].rate_limits[6]: rate_limits[5] has the same counter, allowed are limits that differ in algorithm, anchor, time_zone, period or shadow_mode",
		"rate_limits_same_counter.yaml:16:13: descriptors[0].descriptors[0].rate_limits[1]: rate_limits[0] has the same counter, allowed are limits that differ in algorithm, anchor, time_zone, period or shadow_mode",
		"rate_limits_same_counter.yaml:17:13: descriptors[0].descriptors[0].rate_limits[2]: rate_limits[0] has the same counter, allowed are limits that differ in algorithm, anchor, time_zone, period or shadow_mode",
	},
	"rate_limits_same_name.yaml": {
		`rate_limits_same_name.yaml:7:33: descriptors[0].rate_limits[2].name: "steady" is already the name of rate_limits[0], allowed is one limit of a rule per name`,
		`rate_limits_same_name.yaml:8:40: descriptors[0].rate_limits[3].requests_per_unit: "none" is not allowed, allowed are whole numbers from 0 to 1125899906842624`,
		`rate_limits_same_name.yaml:8:52: descriptors[0].rate_limits[3].name: "steady" is already the name of rate_limits[0], allowed is one limit of a rule per name`,
	},
	"regex_invalid.yaml": {
		`regex_invalid.yaml:3:24: descriptors[0].regex: "(a)(b" is no regular expression: missing closing ) at character 4`,
		`regex_invalid.yaml:4:24: descriptors[1].regex: "a)(b" is no regular expression: unexpected ) at character 2`,
		`regex_invalid.yaml:5:24: descriptors[2].regex: "b*|*" is no regular expression: missing argument to repetition operator at character 4`,
		`regex_invalid.yaml:6:24: descriptors[3].regex: "[z-a]" is no regular expression: invalid character class range at character 1`,
		`regex_invalid.yaml:7:24: descriptors[4].regex: "ü(?=a)" is no regular expression: invalid or unsupported Perl syntax at character 2`,
		`regex_invalid.yaml:8:24: descriptors[5].regex: "(a)\\1" is no regular expression: invalid escape sequence at character 4`,
		"regex_invalid.yaml:9:24: descriptors[6].regex: \"\\\\Qa\" is no regular expression within \\A(?s: and )\\z: error parsing regexp: missing closing ): `\\A(?s:\\Qa)\\z`",
		"regex_invalid.yaml:10:24: descriptors[7].regex: a regular expression is needed, allowed is any but the empty one",
		"regex_invalid.yaml:11:24: descriptors[8].regex: a regular expression is needed, allowed is any but the empty one",
		"regex_invalid.yaml:12:24: descriptors[9].regex: a list is not allowed, text is needed",
	},
	"regex_too_long.yaml": {
		"regex_too_long.yaml:3:24: descriptors[0].regex: 5004 steps are too many, at most 2000 are allowed for all regular expressions of a key on one level: a character is about one, and {n} repeats",
		"regex_too_long.yaml:5:24: descriptors[2].regex: 2408 steps are too many, at most 2000 are allowed for all regular expressions of a key on one level: a character is about one, and {n} repeats",
	},
	"regex_twice.yaml": {
		`regex_twice.yaml:5:5: descriptors[2]: key "path" with regex "/v[0-9]+" is already at regex_twice.yaml:3:5, allowed is one descriptor per key and value`,
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
		`requests_per_unit_fraction.yaml:6:26: descriptors[0].rate_limit.requests_per_unit: "0.5" is not allowed, allowed are whole numbers from 0 to 1125899906842624`,
	},
	"requests_per_unit_missing.yaml": {
		"requests_per_unit_missing.yaml:5:7: descriptors[0].rate_limit.requests_per_unit: a number is needed, allowed are whole numbers from 0 to 1125899906842624, or unlimited: true instead",
	},
	"requests_per_unit_negative.yaml": {
		`requests_per_unit_negative.yaml:6:26: descriptors[0].rate_limit.requests_per_unit: "-1" is not allowed, allowed are whole numbers from 0 to 1125899906842624`,
	},
	"requests_per_unit_null.yaml": {
		"requests_per_unit_null.yaml:5:7: descriptors[0].rate_limit.requests_per_unit: a number is needed, allowed are whole numbers from 0 to 1125899906842624, or unlimited: true instead",
	},
	"requests_per_unit_quoted.yaml": {
		`requests_per_unit_quoted.yaml:4:51: descriptors[0].rate_limit.requests_per_unit: the text "10" (in quotes) is not allowed, allowed are whole numbers from 0 to 1125899906842624`,
	},
	"requests_per_unit_text.yaml": {
		`requests_per_unit_text.yaml:6:26: descriptors[0].rate_limit.requests_per_unit: "many" is not allowed, allowed are whole numbers from 0 to 1125899906842624`,
	},
	"requests_per_unit_too_large.yaml": {
		`requests_per_unit_too_large.yaml:6:26: descriptors[0].rate_limit.requests_per_unit: "1125899906842625" is not allowed, allowed are whole numbers from 0 to 1125899906842624`,
	},
	"root_list.yaml": {
		"root_list.yaml:1:1: a list is not allowed, a mapping is needed",
	},
	"root_text.yaml": {
		"root_text.yaml:1:1: text alone is not allowed, a mapping is needed", // without the text: it may be a secret in the wrong directory
	},
	"root_alias": {
		"root_alias:1: invalid YAML: unknown anchor; a value that begins with * or & must be in quotes",
	},
	"root_blank_missing.yaml": {
		"root_blank_missing.yaml:1:1: text alone is not allowed (a blank is needed after the colon), a mapping is needed",
	},
	"root_lines": {
		"root_lines:1:1: text alone is not allowed, a mapping is needed",
	},
	"root_tag": {
		"root_tag:1:1: text alone is not allowed, a mapping is needed",
	},
	"share_threshold_without_wildcard.yaml": {
		"share_threshold_without_wildcard.yaml:4:22: descriptors[0].share_threshold: nothing to share, allowed beside values, networks, regex and a value with a wildcard (*)",
		"share_threshold_without_wildcard.yaml:8:22: descriptors[1].share_threshold: nothing to share, allowed beside values, networks, regex and a value with a wildcard (*)",
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
	"time_zone_unknown.yaml": {
		`time_zone_unknown.yaml:5:72: descriptors[0].rate_limits[0].time_zone: unknown time zone "Europe/Berlim", ` + zonesText,
		`time_zone_unknown.yaml:6:73: descriptors[0].rate_limits[1].time_zone: unknown time zone "Local", ` + zonesText,
		"time_zone_unknown.yaml:7:74: descriptors[0].rate_limits[2].time_zone: a time zone is needed, " + zonesText,
		"time_zone_unknown.yaml:8:73: descriptors[0].rate_limits[3].time_zone: a list is not allowed, text is needed",
		`time_zone_unknown.yaml:9:57: descriptors[1].override.time_zone: unknown time zone "Europe/Berlim", ` + zonesText,
	},
	"time_zone_without_calendar.yaml": {
		"time_zone_without_calendar.yaml:5:54: descriptors[0].rate_limits[0].time_zone: only a calendar has a time zone, allowed is one with anchor calendar",
		"time_zone_without_calendar.yaml:6:73: descriptors[0].rate_limits[1].time_zone: only a calendar has a time zone, allowed is one with anchor calendar",
		"time_zone_without_calendar.yaml:7:79: descriptors[0].rate_limits[2].time_zone: only a calendar has a time zone, allowed is one with anchor calendar",
		"time_zone_without_calendar.yaml:8:49: descriptors[0].rate_limits[3].time_zone: an unlimited limit has no time_zone, allowed is one of time_zone and unlimited",
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
	"value_and_values.yaml": {
		"value_and_values.yaml:3:39: descriptors[0].values: there is value, too, allowed is one of value, values, networks, regex",
		"value_and_values.yaml:4:41: descriptors[1].value: there is values, too, allowed is one of value, values, networks, regex",
		"value_and_values.yaml:5:40: descriptors[2].networks: there is regex, too, allowed is one of value, values, networks, regex",
		"value_and_values.yaml:6:52: descriptors[3].values: there is networks, too, allowed is one of value, values, networks, regex",
		"value_and_values.yaml:6:64: descriptors[3].regex: there is networks, too, allowed is one of value, values, networks, regex",
	},
	"values_item.yaml": {
		"values_item.yaml:3:26: descriptors[0].values[0]: a value is needed, allowed is any text but the empty one",
		"values_item.yaml:3:37: descriptors[0].values[2]: a value is needed, allowed is any text but the empty one",
		"values_item.yaml:3:40: descriptors[0].values[3]: a list is not allowed, text is needed",
		`values_item.yaml:3:47: descriptors[0].values[4]: "a*" has a wildcard (*), allowed are exact values; a wildcard needs a descriptor of its own, with value`,
	},
	"values_twice.yaml": {
		`values_twice.yaml:7:9: descriptors[1].values[1]: key "user" with value "alice" is already at values_twice.yaml:3:5, allowed is one descriptor per key and value`,
		`values_twice.yaml:9:9: descriptors[1].values[3]: value "bob" is repeated, allowed is once`,
		`values_twice.yaml:10:32: descriptors[2].values[1]: key "user" with value "carol" is already at values_twice.yaml:4:5, allowed is one descriptor per key and value`,
		`values_twice.yaml:11:5: descriptors[3]: key "user" with value "dave" is already at values_twice.yaml:10:5, allowed is one descriptor per key and value`,
	},
	"values_without_key.yaml": {
		"values_without_key.yaml:3:5: descriptors[0].key: a key is needed, allowed is any text but the empty one",
		"values_without_key.yaml:4:5: descriptors[1].key: a key is needed, allowed is any text but the empty one",
		"values_without_key.yaml:5:5: descriptors[2].key: a key is needed, allowed is any text but the empty one",
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
		"value_list.yaml:4:12: descriptors[0].value: a list is not allowed (did you mean values?), text is needed",
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
	for _, field := range format.limit.names {
		documents["rate_limit."+field] = fmt.Sprintf("domain: d\ndescriptors:\n- key: k\n  rate_limit: {%s: %s}\n", field, value)
	}
	for _, field := range format.descriptor.names {
		documents["descriptors[0]."+field] = fmt.Sprintf("domain: d\ndescriptors:\n- {%s: %s}\n", field, value)
	}
	for _, field := range format.override.names {
		documents["override."+field] = fmt.Sprintf("domain: d\ndescriptors:\n- {key: k, override: {%s: %s}}\n", field, value)
	}
	for _, field := range format.otherwise.names {
		documents["otherwise."+field] = fmt.Sprintf("domain: d\notherwise: {%s: %s}\n", field, value)
	}
	for _, field := range format.file.names {
		documents[field] = fmt.Sprintf("%s: %s\n", field, value)
	}
	return documents
}
