package settings

import (
	"os"
	"regexp"
	"testing"
)

// TestMigratingNamesWhatExists looks for the tests and variables in MIGRATING.md.
func TestMigratingNamesWhatExists(t *testing.T) {
	text, err := os.ReadFile("../../MIGRATING.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := testTexts(t)
	for _, name := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(string(text), -1) {
		if tests[name[1]] == nil {
			t.Errorf("there is no test %s", name[1])
		}
	}
	known := map[string]bool{}
	for _, flag := range flags(t) {
		known[flag.Envs[0]] = true
	}
	for _, c := range counterparts {
		known[c.name] = true
	}
	for _, name := range regexp.MustCompile("`([A-Z]+(?:_[A-Z]+)+|PORT)[`=]").FindAllStringSubmatch(string(text), -1) {
		if !known[name[1]] {
			t.Errorf("%s is no setting", name[1])
		}
	}
}
