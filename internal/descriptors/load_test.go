package descriptors

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// load loads a valid file.
func load(t testing.TB, data string) *Tree {
	t.Helper()
	tree, err := Load([]File{{Name: "rules.yaml", Data: []byte(data)}}, Options{})
	if err != nil {
		t.Fatalf("loading rules:\n%v", err)
	}
	return tree
}

// dump returns the limits in the output of Dump, without locations.
func dump(t testing.TB, tree *Tree) string {
	t.Helper()
	var all, limits bytes.Buffer
	testenv.OK(t, tree.Dump(&all))
	for line := range strings.Lines(all.String()) {
		if !strings.HasPrefix(line, "# ") {
			limits.WriteString(line[:strings.LastIndex(line, ", from: ")] + "\n")
		}
	}
	return limits.String()
}

func TestLoadReportsProblemsOfAllFilesInOrder(t *testing.T) {
	_, err := Load([]File{
		{Name: "b.yaml", Data: []byte("domain: api\ndescriptors:\n  - metadata:\n")},
		{Name: "a.yaml", Data: []byte("domain: [\n")},
		{Name: "c.yaml", Data: []byte("domain: other\n")},
		{Name: "d.yaml", Data: []byte("domain: api\n")},
	}, Options{})
	var got Problems
	if !errors.As(err, &got) {
		t.Fatalf("got a %T, want Problems", err)
	}
	want := Problems{
		{File: "a.yaml", Line: 1, Message: "invalid YAML: did not find expected node content", Excerpt: " >   1 | domain: [\n     2 | \n"},
		{File: "b.yaml", Line: 3, Column: 5, Path: "descriptors[0].key", Message: "add a key, or a rate_limit for everything that no other rule on this level matches"},
		{File: "d.yaml", Line: 1, Column: 9, Path: "domain", Message: `"api" is already the domain of b.yaml:1:9; use another, or set MERGE_DOMAIN_CONFIG=true`},
	}
	testenv.EqualLists(t, got, want, "problems")
}

// compareBeside loads each file in a directory, and each subdirectory as files to merge. It
// compares the result of say with the text file beside the file or subdirectory.
func compareBeside(t *testing.T, root string, say func(*Tree) string) {
	t.Helper()
	for _, entry := range testenv.Must(os.ReadDir(root))(t) {
		name := filepath.Join(root, entry.Name())
		if !entry.IsDir() && !isRuleFile(name) {
			continue
		}
		t.Run(entry.Name(), func(t *testing.T) {
			tree := testenv.Must(Load(readBelow(t, root, name), Options{MergeDomains: entry.IsDir()}))(t)
			testenv.Golden(t, strings.TrimSuffix(name, filepath.Ext(name))+".txt", say(tree))
		})
	}
}

func TestLoadGood(t *testing.T) {
	compareBeside(t, "testdata/good", func(tree *Tree) string { return dump(t, tree) })
}

// With CalendarMonths, months without an algorithm are calendar months.
func TestCalendarMonthsOfRules(t *testing.T) {
	for fields, want := range map[string]limiter.Algorithm{
		"unit: month":                                limiter.ByCalendar,
		"unit: month, unit_multiplier: 3":            limiter.ByCalendar,
		"unit: month, time_zone: Asia/Tokyo":         limiter.ByCalendar,
		"unit: month, algorithm: fixed_window":       limiter.FixedWindow,
		"unit: month, algorithm: first_hit":          limiter.FirstHit,
		"unit: month, algorithm: sliding_window":     limiter.SlidingWindow,
		"unit: year":                                 limiter.FixedWindow,
		"unit: month, algorithm: , shadow_mode: yes": limiter.ByCalendar,
	} {
		rules := "{domain: api, descriptors: [{key: user, rate_limit: {" + fields + ", requests_per_unit: 1}}]}"
		tree := testenv.Must(Load([]File{{"rules.yaml", []byte(rules)}}, Options{CalendarMonths: true}))(t)
		testenv.Equal(t, tree.match("api", entries("user=a")).Limits[0].Algorithm, want, "%s: algorithm", fields)
	}
}

// The fields of a rule apply to all its limits. Each limit has its own metrics.
func TestLoadSeveralLimits(t *testing.T) {
	tree := load(t, `
domain: api
descriptors:
  - key: user
    descriptors:
      - key: q
        value: !!binary /3w=
        quota_mode: true
        rate_limit:
          - {name: burst, unit: second, requests_per_unit: 5}
          - {unit: minute, unit_multiplier: 5, requests_per_unit: 100, algorithm: sliding_window}
          - {unit: minute, unit_multiplier: 5, requests_per_unit: 90, algorithm: sliding_window, shadow_mode: true}
          - {unlimited: true}
`)
	of := func(limit string) limiter.Spec {
		return limiter.Spec{
			Mode:   limiter.Quota,
			Series: limiter.LabelSet{Domain: "api", Key1: "user", Key2: "q___", Rule: `user|q="\xff|"`, Limit: limit}.Series(),
		}
	}
	burst, steady := of("burst"), of("5 minutes sliding_window")
	trial, unlimited := of("5 minutes sliding_window 2"), of("unlimited")
	burst.Name, burst.Unit, burst.RequestsPerUnit = "burst", limiter.Second, 5
	steady.Unit, steady.UnitMultiplier, steady.RequestsPerUnit = limiter.Minute, 5, 100
	steady.Algorithm = limiter.SlidingWindow
	trial.Unit, trial.UnitMultiplier, trial.RequestsPerUnit = limiter.Minute, 5, 90
	trial.Algorithm, trial.Nth, trial.Mode, trial.ShadowQuota = limiter.SlidingWindow, 2, limiter.Shadow, true
	unlimited.Unlimited = true
	rule, specs := tree.match("api", entries("user=alice", "q=\xff|")), []limiter.Spec{burst, steady, trial, unlimited}
	if rule == nil || len(rule.Limits) != len(specs) {
		t.Fatalf("got the rule %v, want one with %d limits", rule, len(specs))
	}
	for i, spec := range specs {
		testenv.EqualDeep(t, rule.Limits[i].Spec, testenv.Must(limiter.NewLimit(spec))(t).Spec, "limit %d", i)
	}
}

func TestLoadMergesDomains(t *testing.T) {
	tree := testenv.Must(Load([]File{
		{"1.yaml", []byte("{domain: api, descriptors: [{key: user, value: a*}]}")},
		{"2.yaml", []byte("{domain: web, descriptors: [{key: user}]}")},
		{"3.yaml", []byte("{domain: api, descriptors: [{key: user, value: '*'}, {key: path}]}")},
	}, Options{MergeDomains: true}))(t)
	testenv.Equal(t, dump(t, tree), "api.user_a*: no limit\nweb.user: no limit\napi.user_*: no limit\napi.path: no limit\n", "dump")
	if tree.Domains() != 2 || tree.Rules() != 4 || !tree.HasDomain("api") || tree.HasDomain("") {
		t.Errorf("got %d domains, %d rules", tree.Domains(), tree.Rules())
	}
	testenv.Equal(t, tree.DomainLabel("api")+tree.DomainLabel("none"), "api", "labels, of which only the known domain has one")
	testenv.Equal(t, tree.match("api", []limiter.Entry{{Key: "user", Value: "abc"}}).String(), "api|user=a*", "rule, the wildcard of the first file")
}
