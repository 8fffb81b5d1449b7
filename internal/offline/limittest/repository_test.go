package limittest

import (
	"slices"
	"strings"
	"testing"

	"weir/internal/descriptors"
	"weir/internal/plan"
	"weir/internal/testenv"
)

// All rules in this repository outside testdata have tests, and the tests pass.
func TestRulesOfThisRepository(t *testing.T) {
	paths := []string{"../../../config", "../../../docs", "../../../examples"}
	files, _, err := descriptors.ReadFiles(paths...)
	testenv.OK(t, err)
	tests := testenv.Must(Find(append(paths, "testdata/asked_test.yaml")...))(t)
	rules := 0
	for _, f := range files {
		text := "\n" + string(f.Data)
		if !strings.Contains(text, "\ndomain:") || strings.Contains(text, "\nrate_limits:") { // a configuration of Envoy
			continue
		}
		rules++
		if test := strings.TrimSuffix(f.Name, ".yaml") + Suffix; !slices.Contains(tests, test) {
			t.Errorf("%s has no %s", f.Name, test)
		}
	}
	if rules < 20 {
		t.Errorf("only %d files were found to be rules", rules)
	}
	opts := Options{Options: plan.Options{GroupKeys: []string{"backend_name", "model_name_override"}}} // the default of the setting
	for _, path := range tests {
		t.Run(path, func(t *testing.T) {
			for _, failure := range failures(t, path, opts) {
				t.Error(failure)
			}
		})
	}
}
