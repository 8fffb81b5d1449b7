package descriptors

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"weir/internal/limiter"
)

// Every YAML block of the rule reference is a complete file.
func TestRuleReferenceLoads(t *testing.T) {
	text, err := os.ReadFile("../../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
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
	for _, fields := range [][]string{fileFields, descriptorFields, limitFields, limiter.UnitNames(), algorithms, anchors, charges} {
		for _, field := range fields {
			if !strings.Contains(string(text), "`"+field+"`") {
				t.Errorf("docs/rules.md does not explain %s", field)
			}
		}
	}
}

// README.md promises what the rules in config/ do.
func TestDefaultRules(t *testing.T) {
	files, skipped, err := ReadFiles("../../config")
	if err != nil || len(skipped) > 0 {
		t.Fatal(skipped, err)
	}
	tree, err := Load(files, Options{})
	if err != nil {
		t.Fatal(err)
	}
	rule := tree.Match("api", entries("user=anybody"))
	if rule == nil || len(rule.Limits) != 1 {
		t.Fatal("users of the domain api do not have one limit")
	}
	if l := rule.Limits[0]; l.RequestsPerUnit != 5 || l.Unit != limiter.Minute || l.Mode != limiter.Enforced {
		t.Errorf("users have %d per %v in mode %v, want 5 per minute", l.RequestsPerUnit, l.Unit, l.Mode)
	}
}
