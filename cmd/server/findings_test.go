package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"weir/internal/testenv"
)

func TestValidateAsJSON(t *testing.T) {
	t.Chdir(rules(t, "bad.yaml", bad, "good.yaml", "domain: web\n", "\x1b[31m\u009b.yaml", "domain: \"\"", "notes.txt", ""))
	for _, test := range []struct {
		path string
		code int
		want string // pattern of the report without line breaks
	}{
		{"bad.yaml", exitFailed, `^{"valid":false,"files":1,"domains":0,"rules":0,"problems":\[` +
			`{"severity":"error","file":"bad.yaml","line":4,"column":24,"path":"descriptors\[0\].rate_limit.unit","message":"unknown unit \\"minuet\\"[^}]*"},` +
			`{"severity":"error","file":"bad.yaml","line":6,"column":5,"path":"descriptors\[1\]","message":"[^}]+"}\]}$`},
		{"good.yaml", exitOK, `^{"valid":true,"files":1,"domains":1,"rules":0,"problems":\[` +
			`{"severity":"warning","file":"good.yaml","line":1,"column":9,"path":"domain","message":"the domain \\"web\\" has no rules, everything is admitted"}\]}$`},
		{"\x1b[31m\u009b.yaml", exitFailed, `"file":"\\u001b\[31m\\u009b.yaml","line":1,"column":9,"path":"domain","message":"domain must not be empty"}\]}$`},
		{"missing", exitUsage, `^{"valid":false,"files":0,"domains":0,"rules":0,"problems":\[{"severity":"error","file":"missing","message":"[^}]+"}\]}$`},
	} {
		code, stdout, stderr := call(t, "validate", "--output=json", test.path)
		var report bytes.Buffer
		err := json.Compact(&report, []byte(stdout))
		if err != nil || code != test.code || stderr != "" || !regexp.MustCompile(test.want).Match(report.Bytes()) {
			t.Errorf("%q: exit code %d, want %d, stderr %q, %v\n%s\nwant\n%s", test.path, code, test.code, stderr, err, report.String(), test.want)
		}
	}
}

// Names and values that look like workflow commands are escaped.
func TestValidateForGitHub(t *testing.T) {
	const name = "a,b=c:100%\n::error::x.yaml"
	t.Chdir(rules(t, "good.yaml", good, "empty.yaml", "domain: web\n", "::stop-commands::t.txt", "", "b\r::set-output name=x.go", "",
		name, "domain: api\ndescriptors:\n  - key: a\n    \"x\\n::add-mask::y%\\r\": 1\n"))
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
		testenv.Equal(t, regexp.MustCompile(`(?m)^(::(error|warning|notice) [^\r\n]*|valid: .*)\n`).ReplaceAllString(stdout, ""), "", "%q: lines of its own", test.path)
	}
}

// The pre-commit hook runs if a changed file may be a rule file in a usual place, and not for
// other files of a repository. It names the program that go install builds from this directory,
// with valid arguments.
func TestPreCommitHook(t *testing.T) {
	var hooks []struct {
		ID, Name, Language, Entry, Files string
		Args                             []string
	}
	testenv.OK(t, yaml.Unmarshal([]byte(testenv.Read(t, "../../.pre-commit-hooks.yaml")), &hooks))
	hook := hooks[0]
	for path, runs := range map[string]bool{
		"config/api": true, "config/a/b/api": true, "config/api.yaml": true, "rules/api.yml": true, "api.json": true,
		"Makefile": false, "cmd/main.go": false, "src/config/api": false, "configure": false,
	} {
		testenv.Equal(t, regexp.MustCompile(hook.Files).MatchString(path), runs, "%s: the hook runs", path)
	}
	here := testenv.Must(os.Getwd())(t)
	entry := strings.Fields(hook.Entry)
	if hook.Language != "golang" || entry[0] != filepath.Base(here) {
		t.Errorf("%s is not what go install makes of this directory", entry[0])
	}
	t.Chdir(filepath.Join(here, "../.."))
	args := slices.Concat(entry[1:], hook.Args)
	code, stdout, stderr := call(t, args...)
	compare(t, exitOK, nil, nil, code, stdout, stderr)
	code, stdout, stderr = call(t, append(args, "examples/envoy/rules/api.yaml")...) // pre-commit appends the changed file, so the domain occurs twice
	compare(t, exitFailed, nil, nil, code, stdout, stderr)
}
