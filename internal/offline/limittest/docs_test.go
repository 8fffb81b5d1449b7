package limittest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir/internal/descriptors"
	"weir/internal/plan"
	"weir/internal/testenv"
)

const document = "../../../docs/testing-rules.md"

// The test in the document passes, and with a changed expectation it fails as the document shows.
func TestDocument(t *testing.T) {
	text := testenv.Must(os.ReadFile(document))(t)
	blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllSubmatch(text, -1)
	shown := regexp.MustCompile(`(?m)^    (config/api_test\.yaml:.*\n(?:        .*\n)*)`).FindAllSubmatch(text, -1)
	if len(blocks) != 1 || len(shown) != 1 {
		t.Fatalf("%s shows %d tests and %d failures, want one of each", document, len(blocks), len(shown))
	}
	rules := testenv.Must(os.ReadFile("../../../config/api.yaml"))(t)
	t.Chdir(t.TempDir())
	good := string(blocks[0][1])
	testenv.Write(t, "config/api.yaml", string(rules))
	testenv.Write(t, "config/api_test.yaml", good)
	pass(t, "config/api_test.yaml")

	testenv.Write(t, "config/api_test.yaml", strings.Replace(good, "admitted: 2", "admitted: 3", 1))
	got := strings.Join(failures(t, "config/api_test.yaml", Options{}), "\n") + "\n"
	testenv.Equal(t, got, strings.ReplaceAll(string(shown[0][1]), "\n    ", "\n"), "the failure, and what the document says")
}

func TestDocumentExplainsEveryField(t *testing.T) {
	text := testenv.Must(os.ReadFile(document))(t)
	// The report of an unknown field lists all allowed fields.
	report := testenv.Must(os.ReadFile("testdata/bad/fields_unknown.txt"))(t)
	for _, allowed := range regexp.MustCompile(`use one of (.*)`).FindAllStringSubmatch(string(report), -1) {
		for field := range strings.SplitSeq(allowed[1], ", ") {
			testenv.Contains(t, string(text), "`"+field+"`")
		}
	}
}

// Each example of docs/examples.md shows a rule file in docs/examples. Each line of
// its list is the name of a test of these rules, which sends the request in that line.
// TestRulesOfThisRepository runs these tests.
func TestExamples(t *testing.T) {
	text := testenv.Must(os.ReadFile("../../../docs/examples.md"))(t)
	examples := map[string]string{}
	for _, example := range strings.Split(string(text), "\n## ")[1:] {
		title, body, _ := strings.Cut(example, "\n")
		examples[anchor(title)] = body
	}
	files := testenv.Must(filepath.Glob("../../../docs/examples/*_test.yaml"))(t)
	if len(examples) < 13 {
		t.Errorf("there are %d examples, want 13 or more", len(examples))
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), "_test.yaml")
		t.Run(name, func(t *testing.T) { checkExample(t, strings.TrimSuffix(file, "_test.yaml"), examples[name]) })
		delete(examples, name)
	}
	for name := range examples {
		t.Errorf("the example %s has no docs/examples/%s_test.yaml", name, name)
	}
}

// Each sentence of the first table in docs/algorithms.md is the name of a test of its limit, in
// docs/algorithms/sentences_test.yaml. TestRulesOfThisRepository runs these tests.
func TestSentences(t *testing.T) {
	text := testenv.Must(os.ReadFile("../../../docs/algorithms.md"))(t)
	rules := string(testenv.Must(os.ReadFile("../../../docs/algorithms/sentences.yaml"))(t))
	table, _, _ := strings.Cut(string(text), "\n\nA limit's")
	var said, names []string
	for _, row := range regexp.MustCompile("(?m)^\\|\"(.*)\"\\|`([^`]*)`\\|").FindAllStringSubmatch(table, -1) {
		said = append(said, row[1])
		testenv.Contains(t, rules, "    rate_limit: "+row[2]+"\n")
	}
	for _, tt := range testenv.Must(Load("../../../docs/algorithms/sentences_test.yaml", Options{}))(t).tests {
		names = append(names, tt.name)
	}
	if len(said) == 0 || !slices.Equal(said, names) {
		t.Errorf("the table says %q, the tests are named %q", said, names)
	}
}

// checkExample compares the text below the heading of an example with its files.
func checkExample(t *testing.T, name, body string) {
	rules := testenv.Must(os.ReadFile(name + ".yaml"))(t)
	testenv.Contains(t, body, "```yaml\n"+string(rules)+"```\n")
	var lines, names []string
	for _, line := range regexp.MustCompile(`(?m)^- (.*)$`).FindAllStringSubmatch(strings.SplitAfter(body, "```\n")[1], -1) {
		lines = append(lines, line[1])
	}
	f := testenv.Must(Load(name+"_test.yaml", Options{}))(t)
	for _, tt := range f.tests {
		names = append(names, tt.name)
		request, _, _ := strings.Cut(tt.name, ": ")
		if !slices.ContainsFunc(tt.steps, func(s step) bool { return spell(s.request) == request && len(s.checks) > 0 }) {
			t.Errorf("the test of %q expects nothing of this request", tt.name)
		}
	}
	if len(lines) == 0 || !slices.Equal(lines, names) {
		t.Errorf("the example says\n%s\nthe tests are named\n%s", strings.Join(lines, "\n"), strings.Join(names, "\n"))
	}
}

// anchor returns the fragment of a link to a heading.
func anchor(heading string) string {
	heading = regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(heading), "")
	return strings.ReplaceAll(heading, " ", "-")
}

// spell returns the descriptors of a request in the notation of the examples.
func spell(r plan.Request) string {
	var spelled []string
	for _, d := range r.Descriptors {
		var entries []string
		for _, e := range d.Entries {
			entries = append(entries, descriptors.Spell(e))
		}
		spelled = append(spelled, "`"+strings.Join(entries, ",")+"`")
	}
	return strings.Join(spelled, " + ")
}
