package limittest

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/internal/descriptors"
	"weir/internal/testenv"
)

// The rules in this repository that are not those of a test come with tests, which
// pass.
func TestRulesOfThisRepository(t *testing.T) {
	const root = "../../.."
	var rules []string
	tests := []string{"testdata/asked_test.yaml"}
	for _, dir := range []string{"config", "docs", "examples"} {
		testenv.OK(t, filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			switch {
			case strings.HasSuffix(path, "_test.yaml"):
				tests = append(tests, path)
			case filepath.Ext(path) == ".yaml" && holdsRules(t, path):
				rules = append(rules, path)
			}
			return err
		}))
	}
	for _, path := range rules {
		if test := strings.TrimSuffix(path, ".yaml") + "_test.yaml"; !slices.Contains(tests, test) {
			t.Errorf("%s has no %s", path, filepath.Base(test))
		}
	}
	if len(rules) < 3 {
		t.Errorf("only %v were found to be rules", rules)
	}
	for _, path := range tests {
		t.Run(path, func(t *testing.T) { pass(t, path) })
	}
}

// holdsRules reports whether a file has rules, and not what Envoy sends for a
// request.
func holdsRules(t *testing.T, path string) bool {
	files, _, err := descriptors.ReadFiles(path)
	if err != nil {
		t.Fatal(err)
	}
	text := "\n" + string(files[0].Data)
	return strings.Contains(text, "\ndomain:") && !strings.Contains(text, "\nrate_limits:")
}
