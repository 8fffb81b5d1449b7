package limittest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// The examples in docs/rules.md work as it describes. Each file in testdata/document is named after
// a heading, and tests the rules below it. Package descriptors tests the examples of lists.
func TestRulesOfDocument(t *testing.T) {
	text := testenv.Must(os.ReadFile("../../../docs/rules.md"))(t)
	sections := map[string]string{}
	for _, section := range regexp.MustCompile(`(?m)^#+ `).Split(string(text), -1) {
		title, body, _ := strings.Cut(section, "\n")
		sections[anchor(title)] = body
	}
	files, err := filepath.Glob("testdata/document/*" + Suffix)
	if err != nil || len(files) < 9 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		heading := strings.TrimSuffix(filepath.Base(file), Suffix)
		t.Run(heading, func(t *testing.T) {
			rules := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindStringSubmatch(sections[heading])
			tests, err := os.ReadFile(file)
			if rules == nil || err != nil {
				t.Fatalf("docs/rules.md has no such example, or %v", err)
			}
			pass(t, written(t, rules[1], string(tests)))
		})
	}
}
