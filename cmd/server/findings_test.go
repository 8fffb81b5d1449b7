package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"weir/internal/descriptors"
	"weir/internal/testenv"
)

func TestValidateAsJSON(t *testing.T) {
	t.Chdir(rules(t, "bad.yaml", bad, "good.yaml", "domain: web\n", "\x1b[31m\u009b.yaml", "domain: \"\"", "notes.txt", ""))
	for _, test := range []struct {
		path string
		code int
		want report
	}{
		{"bad.yaml", exitFailed, report{Files: 1, Problems: []finding{
			{"error", descriptors.Problem{File: "bad.yaml", Line: 4, Column: 24, Path: "descriptors[0].rate_limit.unit", Message: `unknown unit "minuet" (did you mean minute?); use one of second, minute, hour, day, week, month, year`}},
			{"error", descriptors.Problem{File: "bad.yaml", Line: 6, Column: 5, Path: "descriptors[1]", Message: ""}},
		}}},
		{"good.yaml", exitOK, report{Valid: true, Files: 1, Domains: 1, Problems: []finding{
			{"warning", descriptors.Problem{File: "good.yaml", Line: 1, Column: 9, Path: "domain", Message: `the domain "web" has no rules, everything is admitted`}},
		}}},
		{"\x1b[31m\u009b.yaml", exitFailed, report{Files: 1, Problems: []finding{
			{"error", descriptors.Problem{File: "\x1b[31m\u009b.yaml", Line: 1, Column: 9, Path: "domain", Message: "domain must not be empty"}},
		}}},
		{"missing", exitUsage, report{Problems: []finding{{"error", descriptors.Problem{File: "missing"}}}}},
	} {
		code, stdout, stderr := call(t, "validate", "--output=json", test.path)
		var got report
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || strings.ContainsAny(stdout, "\x1b\u009b") {
			t.Fatalf("%q: %q: %v", test.path, stdout, err)
		}
		for i := range got.Problems {
			if i < len(test.want.Problems) && test.want.Problems[i].Message == "" && got.Problems[i].Message != "" {
				got.Problems[i].Message = "" // long, and tested elsewhere
			}
		}
		same := slices.Equal(got.Problems, test.want.Problems)
		got.Problems, test.want.Problems = nil, nil
		if a, _ := json.Marshal(got); code != test.code || stderr != "" || !same || string(a) != string(testenv.Must(json.Marshal(test.want))(t)) {
			t.Errorf("%q: exit code %d, want %d, stderr %q, stdout\n%s", test.path, code, test.code, stderr, stdout)
		}
	}
}

// Names and values that look like workflow commands stay data.
func TestValidateForGitHub(t *testing.T) {
	dir := rules(t, "good.yaml", good)
	name := "a,b=c:100%\n::error::x.yaml"
	for file, text := range map[string]string{
		name:                        "domain: api\ndescriptors:\n  - key: a\n    \"x\\n::add-mask::y%\\r\": 1\n",
		"empty.yaml":                "domain: web\n",
		"::stop-commands::t.txt":    "",
		"b\r::set-output name=x.go": "",
	} {
		testenv.OK(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
	}
	t.Chdir(dir)
	for _, test := range []struct {
		path, want string
		code       int
	}{
		{"good.yaml", "valid: files=1 domains=1 rules=1\n", exitOK},
		{"empty.yaml", "::warning file=empty.yaml,line=1,col=9::domain: the domain \"web\" has no rules, everything is admitted\nvalid: files=1 domains=1 rules=0\n", exitOK},
		{name, `::error file=a%2Cb=c%3A100%25\n%3A%3Aerror%3A%3Ax.yaml,line=4,col=5::descriptors[0]: unknown field "x\n::add-mask::y%25\r"`, exitFailed},
		{"missing\n::error::x", `::error file=missing\n%3A%3Aerror%3A%3Ax::reading rules: stat missing`, exitUsage},
		{"../nowhere", "::error file=../nowhere::", exitUsage},
		{".", `::notice file=%3A%3Astop-commands%3A%3At.txt::skipped, `, exitFailed},
		{".", `::notice file=b\r%3A%3Aset-output name=x.go::skipped, `, exitFailed},
	} {
		code, stdout, stderr := call(t, "validate", "--output=github", test.path)
		if code != test.code || stderr != "" || !strings.Contains(stdout, test.want) {
			t.Errorf("%q: exit code %d, want %d, stderr %q, stdout\n%s\nwant\n%s", test.path, code, test.code, stderr, stdout, test.want)
		}
		for line := range strings.Lines(stdout) {
			known := slices.ContainsFunc([]string{"::error ", "::warning ", "::notice ", "valid: "}, func(start string) bool { return strings.HasPrefix(line, start) })
			if !known || strings.Contains(line, "\r") {
				t.Errorf("%q: a line of its own: %q", test.path, line)
			}
		}
	}
}

// hook is one of pre-commit.
type hook struct {
	ID, Name, Language, Entry, Files string
	Args                             []string
	PassFilenames                    bool `yaml:"pass_filenames"`
}

func preCommitHook(t *testing.T) hook {
	t.Helper()
	var hooks []hook
	if err := yaml.Unmarshal([]byte(readText(t, "../../.pre-commit-hooks.yaml")), &hooks); err != nil || len(hooks) != 1 {
		t.Fatalf("%d hooks, %v", len(hooks), err)
	}
	return hooks[0]
}

// The hook of pre-commit runs when a file changes that may be read by default, and
// not for any file of a repository.
func TestPreCommitFiles(t *testing.T) {
	files := regexp.MustCompile(preCommitHook(t).Files)
	for path, runs := range map[string]bool{
		"config/api": true, "config/a/b/api": true, "config/api.yaml": true, "rules/api.yml": true, "api.json": true,
		"Makefile": false, "cmd/main.go": false, "src/config/api": false, "configure": false,
	} {
		if got := files.MatchString(path); got != runs {
			t.Errorf("%s: the hook runs: %v, want %v", path, got, runs)
		}
	}
}

// The hook of pre-commit names a program that go install makes of this module, and runs
// it as the program itself does.
func TestPreCommitHook(t *testing.T) {
	hook := preCommitHook(t)
	here := testenv.Must(os.Getwd())(t)
	entry := strings.Fields(hook.Entry)
	if hook.Language != "golang" || entry[0] != filepath.Base(here) {
		t.Errorf("%s is not what go install makes of this directory", entry[0])
	}
	for _, test := range []struct {
		paths []string // after args, as pre-commit adds them
		code  int
	}{
		{nil, exitOK},
		{[]string{"../examples/envoy/rules/api.yaml"}, exitFailed}, // the domain twice
	} {
		t.Chdir(filepath.Join(here, "../.."))
		for i := range test.paths {
			test.paths[i] = strings.TrimPrefix(test.paths[i], "../")
		}
		args := slices.Concat(entry[1:], hook.Args, test.paths)
		if code, stdout, stderr := call(t, args...); code != test.code {
			t.Errorf("%v: exit code %d, want %d\n%s%s", args, code, test.code, stdout, stderr)
		}
	}
}
