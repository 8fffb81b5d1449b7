package descriptors

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"testing"

	"weir/internal/descriptors/plaintext"
	"weir/internal/testenv"
)

// TestDumpExplainsItself parses the lines as scripts for envoyproxy/ratelimit do, and checks
// that the dump explains its fields and has each rule's location.
func TestDumpExplainsItself(t *testing.T) {
	tree := testenv.Must(Load([]File{
		{Name: "config/a.yaml", Data: []byte("domain: api\ndescriptors:\n- key: user\n  rate_limit: {unit: minute, requests_per_unit: 5}\n- key: login\n  rate_limit: {unit: minute, requests_per_unit: 5, deny_for: 1h0m0s}\n- key: free\n  rate_limit: {unlimited: true}\n")},
		{Name: "config/b\n\x1b[31m.yaml", Data: []byte("domain: web\ndescriptors:\n- key: known\n  metadata: {note: \"\\u009b31m\"}\n")},
	}, Options{}))(t)
	var page bytes.Buffer
	testenv.OK(t, tree.Dump(&page))
	testenv.Contains(t, page.String(),
		"# requests_per_unit is the amount per period",
		"# unlimited: true admits everything",
		"# from is where the rule is written",
		"\napi.user: unit=MINUTE requests_per_unit=5, shadow_mode: false, quota_mode: false, from: config/a.yaml:3:3\n",
		"\napi.login: unit=MINUTE requests_per_unit=5, shadow_mode: false, quota_mode: false, deny_for: 1h, from: config/a.yaml:5:3\n",
		"\napi.free: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: false, unlimited: true, from: config/a.yaml:7:3\n",
		"\nweb.known: no limit, metadata: {\"note\":\"\\u009b31m\"}, from: config/b\\n\\x1b[31m.yaml:3:3\n",
	)
	testenv.Equal(t, plaintext.Lines(page.String()), page.String(), "the page without control characters")
	reference := regexp.MustCompile(`(?m)^(\S+): unit=(\w+) requests_per_unit=(\d+), shadow_mode: (true|false)`)
	testenv.Equal(t, len(reference.FindAllString(page.String(), -1)), 3, "limits that a script for the reference finds")
}

// The dumps of the rules in testdata/good show every field of a limit.
func TestDumpShowsEveryField(t *testing.T) {
	text := slices.Concat(testenv.Must(os.ReadFile("testdata/good/every_field.txt"))(t), testenv.Must(os.ReadFile("testdata/good/limits.txt"))(t))
	for _, field := range format.limit.names {
		if !regexp.MustCompile("\\b" + field + "[:=]").Match(text) {
			t.Errorf("%s is not shown", field)
		}
	}
}
