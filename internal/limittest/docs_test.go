package limittest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const document = "../../docs/testing-rules.md"

// The document's test passes, and fails as it is told there.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllSubmatch(text, -1)
	failures := regexp.MustCompile(`(?m)^    (config/api_test\.yaml:.*\n(?:        .*\n)*)`).FindAllSubmatch(text, -1)
	if len(blocks) != 1 || len(failures) != 1 {
		t.Fatalf("%s shows %d tests and %d failures, want one of each", document, len(blocks), len(failures))
	}
	rules, err := os.ReadFile("../../config/api.yaml")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.Mkdir("config", 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join("config", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	good := string(blocks[0][1])
	write("api.yaml", string(rules))
	write("api_test.yaml", good)
	pass(t, load(t, "config/api_test.yaml", Options{}))

	write("api_test.yaml", strings.Replace(good, "admitted: 2", "admitted: 3", 1))
	var got string
	for _, r := range run(t, load(t, "config/api_test.yaml", Options{})) {
		for _, f := range r.Failures {
			got += f.String() + "\n"
		}
	}
	if want := strings.ReplaceAll(string(failures[0][1]), "\n    ", "\n"); got != want {
		t.Errorf("failed with\n%s\nthe document says\n%s", got, want)
	}
}

func TestDocumentExplainsEveryField(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	for _, fields := range [][]string{fileFields, testFields, stepFields, descriptorFields, overrideFields, expectFields} {
		for _, field := range fields {
			if !strings.Contains(string(text), "`"+field+"`") {
				t.Errorf("%s does not explain %s", document, field)
			}
		}
	}
}
