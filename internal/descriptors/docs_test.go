package descriptors

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// Every YAML block of docs/rules.md is a complete file.
func TestRuleReferenceLoads(t *testing.T) {
	text := testenv.Must(os.ReadFile("../../docs/rules.md"))(t)
	blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllStringSubmatchIndex(string(text), -1)
	if len(blocks) == 0 {
		t.Fatal("docs/rules.md has no YAML")
	}
	for _, block := range blocks {
		name := fmt.Sprintf("docs/rules.md after line %d", strings.Count(string(text[:block[2]]), "\n"))
		if _, err := Load([]File{{name, text[block[2]:block[3]]}}, Options{}); err != nil {
			t.Error(err)
		}
	}
	for _, fields := range [][]string{format.file.names, format.descriptor.names, format.limit.names, format.override.names, limiter.UnitNames(), limiter.AlgorithmNames(), charges, limiter.FailureModeNames()} {
		for _, field := range fields {
			testenv.Contains(t, string(text), "`"+field+"`")
		}
	}
}

// The tables of fields in docs/rules.md have the descriptions of the schema, which editors show.
func TestDocumentedFields(t *testing.T) {
	text := testenv.Must(os.ReadFile("../../docs/rules.md"))(t)
	link := regexp.MustCompile("\\[([^]]*)\\]\\([^)]*\\)|\\*\\*|`")
	documented := make(map[string]bool)
	for _, row := range regexp.MustCompile("(?m)^\\|`(\\w+)`\\|.*\\|(.*)\\|$").FindAllStringSubmatch(string(text), -1) {
		documented[row[1]+": "+link.ReplaceAllString(row[2], "$1")] = true
	}
	type mapping struct {
		Properties map[string]struct{ Description string }
	}
	var schema struct {
		mapping
		Definitions map[string]mapping
	}
	testenv.OK(t, json.Unmarshal(Schema, &schema))
	for place, names := range map[string][]string{"": format.file.names, "rule": format.descriptor.names, "limit": format.limit.names, "override": format.override.names} {
		said := schema.Properties
		if place != "" {
			said = schema.Definitions[place].Properties
		}
		testenv.EqualLists(t, slices.Sorted(maps.Keys(said)), slices.Sorted(slices.Values(names)), "fields of %q in the schema", place)
		for name, property := range said {
			if row := name + ": " + property.Description; !documented[row] {
				t.Errorf("docs/rules.md does not say\n%s", row)
			}
		}
	}
}

// The worked example of lists, networks and regular expressions names the rule for each entry.
func TestDocumentedLists(t *testing.T) {
	text := testenv.Must(os.ReadFile("../../docs/rules.md"))(t)
	_, section, _ := strings.Cut(string(text), "### Lists, networks and regular expressions\n")
	section, _, _ = strings.Cut(section, "\n#")
	block := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindStringSubmatch(section)
	if block == nil {
		t.Fatal("the section has no YAML")
	}
	tree := load(t, block[1])
	for _, test := range []struct{ documented, entry, want string }{
		{"|`remote_address=10.0.0.2`|the list: no limit|", "remote_address=10.0.0.2", "shop|remote_address=[10.0.0.1+1]"},
		{"|`remote_address=10.1.2.3`, `::ffff:10.1.2.3`|`10.1.0.0/16`, the longest prefix|", "remote_address=10.1.2.3", "shop|remote_address=[10.1.0.0/16]"},
		{"`::ffff:10.1.2.3`", "remote_address=::ffff:10.1.2.3", "shop|remote_address=[10.1.0.0/16]"},
		{"|`remote_address=2001:db8::1`, with a zone such as `%eth0`, too|`2001:db8::/32`|", "remote_address=2001:db8::1%eth0", "shop|remote_address=[10.0.0.0/8+1]"},
		{"|`remote_address=10.1.2.3:443`|none", "remote_address=10.1.2.3:443", ""},
		{"|`remote_address=010.1.2.3`, or with a blank after it|none", "remote_address=010.1.2.3", ""},
		{"or with a blank after it", "remote_address=10.1.2.3 ", ""},
		{"|`path=/v2/users`|the regular expression|", "path=/v2/users", "shop|path=\"~/v[0-9]+/(orders|users)\""},
		{"|`path=/v2/users/7`|none", "path=/v2/users/7", ""},
	} {
		got := ""
		if rule := tree.match("shop", entries(test.entry)); rule != nil {
			got = rule.String()
		}
		if got != test.want || !strings.Contains(section, test.documented) {
			t.Errorf("%s leads to %q, want %q; documented is not\n%s", test.entry, got, test.want, test.documented)
		}
	}
	testenv.Contains(t, section, fmt.Sprintf("may have %d steps together", maxRegexSteps))
}

// docs/metrics.md shows the labels of its rule, with and without detailed_metric.
func TestDocumentedLabels(t *testing.T) {
	text := testenv.Must(os.ReadFile("../../docs/metrics.md"))(t)
	block := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindSubmatch(text)
	if block == nil {
		t.Fatal("docs/metrics.md has no YAML")
	}
	request := entries("tenant=acme", "path=/files/a")
	series := load(t, string(block[1])).match("shop", request).Limits[0].Series.Labels()
	testenv.Contains(t, string(text),
		fmt.Sprintf("{domain=%q, key1=%q, key2=%q}", series.Domain, series.Key1, series.Key2),
		fmt.Sprintf("{domain=%q, rule=%q, limit=%q}", series.Domain, series.Rule, series.Limit),
		fmt.Sprintf("key2=%q", limiter.NewLabelSet("shop", detailedLabels(t, string(block[1]), request)).Key2),
	)
}

// detailedLabels adds detailed_metric to a rule, and then returns the labels of a request.
func detailedLabels(t *testing.T, rules string, request []limiter.Entry) string {
	t.Helper()
	rules = strings.Replace(rules, "        rate_limit:", "        detailed_metric: true\n        rate_limit:", 1)
	return string(load(t, rules).match("shop", request).AppendLabels(nil, request))
}

// TestMigratingNamesOwnFields checks that MIGRATING.md lists all fields to remove before a
// return to envoyproxy/ratelimit, which refuses these fields.
func TestMigratingNamesOwnFields(t *testing.T) {
	text := testenv.Must(os.ReadFile("../../MIGRATING.md"))(t)
	_, back, found := strings.Cut(string(text), "## Back again")
	if !found {
		t.Fatal("MIGRATING.md does not tell how to go back")
	}
	reference := []string{
		"domain", "key", "value", "descriptors", "rate_limit", "unit", "requests_per_unit", "unlimited", "name", "replaces",
		"shadow_mode", "quota_mode", "detailed_metric", "value_to_metric", "share_threshold", "metadata",
	}
	for _, field := range slices.Concat(format.file.names, format.descriptor.names, format.limit.names) {
		if !slices.Contains(reference, field) && !strings.Contains(back, "`"+field+"`") {
			t.Errorf("%s is not named, which envoyproxy/ratelimit refuses", field)
		}
	}
}
