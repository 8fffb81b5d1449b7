package limittest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/descriptors/strictyaml"
)

const (
	stepFieldsText   = "at, send, every, request, hits_addend, expect"
	expectFieldsText = "admitted, denied, statuses, " + statusFieldsText
	statusFieldsText = "code, remaining, reset, retry_after, limit"
	timesText        = "multiples of 1µs up to 100 years, such as 30s, 1m30s, 24h"
	startsText       = "times of 100 years from 1970 on, such as 2026-03-29T00:00:00+01:00"
	secondsText      = "multiples of 1s up to 290 years, such as 30s, 1m30s, 24h"
	unitsText        = "second, minute, hour, day, month, year"
)

// bad holds for each file in testdata/bad the whole report.
var bad = map[string][]string{
	"descriptors.yaml": {
		"descriptors.yaml:6:19: tests[0].steps[0].request: a mapping is not allowed, a list is needed; put it in brackets, [{...}]",
		`descriptors.yaml:7:20: tests[0].steps[1].request[0]: "user=a" is not allowed, a mapping of keys and values is needed`,
		"descriptors.yaml:8:20: tests[0].steps[2].request[0]: the descriptor has no entries, at least one is needed",
		"descriptors.yaml:9:21: tests[0].steps[3].request[0]: a key is needed, allowed is any text but the empty one",
		`descriptors.yaml:10:30: tests[0].steps[4].request[0]: key "user" is repeated, allowed is once in a mapping; repeat it in a list: entries: [{user: ...}, {user: ...}]`,
		"descriptors.yaml:11:27: tests[0].steps[5].request[0].user: a list is not allowed, text is needed",
		`descriptors.yaml:12:27: tests[0].steps[6].request[0].user: !!binary "%" is not base64, which !!binary needs`,
		"descriptors.yaml:13:21: tests[0].steps[7].request[0]: a list is not allowed, text is needed",
		`descriptors.yaml:14:31: tests[0].steps[8].request[0].entries[0]: "user" is not allowed, a mapping of keys and values is needed`,
		"descriptors.yaml:15:20: tests[0].steps[9].request[0]: the descriptor has no entries, at least one is needed",
		`descriptors.yaml:16:43: tests[0].steps[10].request[0]: field "entries" is repeated, allowed is once`,
	},
	"domain_unknown.yaml": {
		`domain_unknown.yaml:4:25: tests[1].domain: there are no rules for the domain "shopping", there are: shop`,
	},
	"empty.yaml": {
		"empty.yaml: the file is empty, rules and tests are needed",
	},
	"expectations.yaml": {
		`expectations.yaml:6:47: tests[0].steps[0].expect.code: unknown code "ok", allowed are OK and OVER_LIMIT`,
		"expectations.yaml:7:48: tests[0].steps[1].expect.limit: a name is needed, allowed is that of a limit, or null if none shall be counted",
		"expectations.yaml:8:73: tests[0].steps[2].expect: the request has 2 descriptors, allowed is this in statuses only",
		"expectations.yaml:9:62: tests[0].steps[3].expect.statuses: 1 statuses, allowed are as many as the request has descriptors, 2; null expects nothing",
		`expectations.yaml:10:52: tests[0].steps[4].expect.statuses[0]: "OK" is not allowed, a mapping is needed`,
		`expectations.yaml:11:40: tests[0].steps[5].expect: "5" is not allowed, a mapping is needed`,
		"expectations.yaml:12:47: tests[0].steps[6].expect.code: a list is not allowed, text is needed",
		"expectations.yaml:13:71: tests[0].steps[7].expect: admitted and denied sum up to 12, allowed is at most send, 3",
		"expectations.yaml:14:51: tests[0].steps[8].expect: admitted and denied sum up to 2, allowed is at most send, 1",
	},
	"expectations_empty.yaml": {
		"expectations_empty.yaml:7:40: tests[0].steps[1].expect: nothing is expected, allowed are " + expectFieldsText,
		"expectations_empty.yaml:8:40: tests[0].steps[2].expect: null is not allowed, a mapping is needed",
		"expectations_empty.yaml:9:51: tests[0].steps[3].expect.statuses: 0 statuses, allowed are as many as the request has descriptors, 1; null expects nothing",
		"expectations_empty.yaml:10:61: tests[0].steps[4].expect.statuses: 0 statuses, allowed are as many as the request has descriptors, 1; null expects nothing",
		"expectations_empty.yaml:11:52: tests[0].steps[5].expect.statuses[0]: nothing is expected, allowed are " + statusFieldsText + "; null says so",
		"expectations_empty.yaml:12:75: tests[0].steps[6].expect.statuses[1]: nothing is expected, allowed are " + statusFieldsText + "; null says so",
		"expectations_empty.yaml:13:51: tests[0].steps[7].expect: nothing is expected, allowed are " + expectFieldsText,
	},
	"fields_unknown.yaml": {
		`fields_unknown.yaml:2:1: unknown field "test" (did you mean tests?), allowed are rules, tests`,
		`fields_unknown.yaml:6:5: tests[0]: unknown field "step" (did you mean steps?), allowed are name, domain, start, steps`,
		`fields_unknown.yaml:8:9: tests[0].steps[0]: unknown field "sent" (did you mean send?), allowed are ` + stepFieldsText,
		`fields_unknown.yaml:11:18: tests[0].steps[0].expect: unknown field "admittet" (did you mean admitted?), allowed are ` + expectFieldsText,
		`fields_unknown.yaml:11:31: tests[0].steps[0].expect: unknown field "retry" (did you mean retry_after?), allowed are ` + expectFieldsText,
		`fields_unknown.yaml:12:46: tests[0].steps[1].request[0]: unknown field "hits" (did you mean hits_addend?), allowed are entries, hits_addend, is_negative_hits, limit`,
		`fields_unknown.yaml:13:9: tests[0].steps[1]: unknown field "admitted" (it belongs to expect), allowed are ` + stepFieldsText,
		`fields_unknown.yaml:14:30: tests[0].steps[1].expect.statuses[0]: unknown field "codes" (did you mean code?), allowed are code, remaining, reset, retry_after, limit`,
	},
	"missing.yaml": {
		"missing.yaml:3:5: tests[0].domain: a domain is needed, allowed are those of the rules",
		"missing.yaml:3:5: tests[0].name: a name is needed, allowed is any text but the empty one",
		"missing.yaml:4:9: tests[0].steps[0].request: a request is needed, allowed is a list of at least one descriptor",
		"missing.yaml:5:11: tests[1].name: a name is needed, allowed is any text but the empty one",
		"missing.yaml:6:12: tests[1].domain: a domain is needed, allowed are those of the rules",
		"missing.yaml:8:9: tests[1].steps[0].request: a request is needed, allowed is a list of at least one descriptor",
	},
	"names_twice.yaml": {
		`names_twice.yaml:5:12: tests[2].name: "one" is already the name of the test in line 3, allowed is one test per name`,
	},
	"nothing_expected.yaml": {
		"nothing_expected.yaml:3:5: tests[0].steps: nothing is expected, at least one step with expect is needed",
		"nothing_expected.yaml:8:5: tests[1].steps: nothing is expected, at least one step with expect is needed",
	},
	"nothing_in_it.yaml": {
		"nothing_in_it.yaml:1:1: rules: rules are needed, allowed are paths of files and directories, relative to this file",
		"nothing_in_it.yaml:1:1: tests: a test is needed",
	},
	"numbers.yaml": {
		`numbers.yaml:6:16: tests[0].steps[0].send: "0" is not allowed, allowed are whole numbers from 1 to 1000000`,
		`numbers.yaml:6:60: tests[0].steps[0].expect.admitted: "-1" is not allowed, allowed are whole numbers from 0 to 1000000`,
		`numbers.yaml:7:16: tests[0].steps[1].send: "1000001" is not allowed, allowed are whole numbers from 1 to 1000000`,
		`numbers.yaml:7:64: tests[0].steps[1].expect.denied: "many" is not allowed, allowed are whole numbers from 0 to 1000000`,
		`numbers.yaml:8:23: tests[0].steps[2].hits_addend: "4294967296" is not allowed, allowed are whole numbers from 0 to 4294967295`,
		`numbers.yaml:8:77: tests[0].steps[2].expect.remaining: "1.5" is not allowed, allowed are whole numbers from 0 to 1125899906842624`,
		`numbers.yaml:9:56: tests[0].steps[3].request[0].hits_addend: "18446744073709551616" is not allowed, allowed are whole numbers from 0 to 18446744073709551615`,
		`numbers.yaml:9:96: tests[0].steps[3].request[0].is_negative_hits: "1" is not allowed, allowed are true and false`,
	},
	"override.yaml": {
		`override.yaml:6:57: tests[0].steps[0].request[0].limit.unit: unknown unit "week", allowed are ` + unitsText,
		"override.yaml:7:50: tests[0].steps[1].request[0].limit.unit: a unit is needed, allowed are " + unitsText,
		`override.yaml:8:79: tests[0].steps[2].request[0].limit.unit_multiplier: "0" is not allowed, allowed are whole numbers from 1 to 4294967295`,
		`override.yaml:9:50: tests[0].steps[3].request[0].limit: "5 per minute" is not allowed, a mapping is needed`,
		"override.yaml:10:50: tests[0].steps[4].request[0].limit: a period of 101 years is too long, at most 100 years are allowed",
	},
	"rules_bad.yaml": {
		`rules/bad.yaml:4:24: descriptors[0].rate_limit.unit: unknown unit "fortnight", allowed are second, minute, hour, day, week, month, year`,
		`rules_bad.yaml:3:76: tests[0].steps[0].expect.code: unknown code "fine", allowed are OK and OVER_LIMIT`,
	},
	"rules_missing.yaml": {
		"rules_missing.yaml:3:5: rules[1]: reading rules: stat ../no_such_file.yaml: no such file or directory",
		"rules_missing.yaml:4:5: rules[2]: reading rules: stat empty_directory: no such file or directory",
		"rules_missing.yaml:5:5: rules[3]: a list is not allowed, text is needed",
		"rules_missing.yaml:6:5: rules[4]: a path is needed, allowed are files and directories of rules",
	},
	"syntax.yaml": {
		"syntax.yaml:4: invalid YAML: did not find expected node content",
	},
	"times.yaml": {
		`times.yaml:6:14: tests[0].steps[0].at: "30" is not allowed, allowed are ` + timesText,
		`times.yaml:7:14: tests[0].steps[1].at: "-1s" is not allowed, allowed are ` + timesText,
		`times.yaml:8:14: tests[0].steps[2].at: "1ns" is not allowed, allowed are ` + timesText,
		"times.yaml:9:14: tests[0].steps[3].at: a list is not allowed, text is needed",
		"times.yaml:11:14: tests[0].steps[5].at: 19s is before the last request of the step above, at 20s",
		"times.yaml:12:39: tests[0].steps[6].every: the last request comes too late, at most 100 years are allowed",
		`times.yaml:13:61: tests[0].steps[7].expect.reset: "1500ms" is not allowed, allowed are ` + secondsText,
		`times.yaml:13:82: tests[0].steps[7].expect.retry_after: "soon" is not allowed, allowed are ` + secondsText,
		`times.yaml:14:39: tests[1].start: "2026-03-29" is not allowed, allowed are ` + startsText,
		`times.yaml:15:39: tests[2].start: "1969-12-31T23:59:59Z" is not allowed, allowed are ` + startsText,
		"times.yaml:16:39: tests[3].start: a list is not allowed, text is needed",
	},
}

func TestLoadReportsEveryProblem(t *testing.T) {
	t.Chdir("testdata/bad")
	names, err := filepath.Glob("*.yaml")
	if err != nil || len(names) != len(bad) {
		t.Errorf("%d bad files, %d reports, %v", len(names), len(bad), err)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			f, err := Load(name, Options{})
			var problems strictyaml.Problems
			if f != nil || !errors.As(err, &problems) {
				t.Fatalf("got %v, want Problems", err)
			}
			if got, want := err.Error(), strings.Join(bad[name], "\n"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestLoadOfNoFile(t *testing.T) {
	if _, err := Load(filepath.Join(t.TempDir(), "none_test.yaml"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
