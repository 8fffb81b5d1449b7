package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// The commands of the documents print what is printed below them. The program
// is this test's binary, not built anew.
func TestCommandsOfDocuments(t *testing.T) {
	shell := testenv.Shell(t)
	console := regexp.MustCompile("(?ms)^```console\n\\$ go run ./cmd/server (.*?)\n(.*?)^```")
	for name, least := range map[string]int{"README.md": 1, "docs/testing-rules.md": 3, "docs/examples.md": 1} {
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		found := console.FindAllStringSubmatch(string(text), -1)
		if all := strings.Count(string(text), "```console\n"); len(found) != all || all < least {
			t.Errorf("%s: %d of %d commands are run, want all and at least %d", name, len(found), all, least)
		}
		for _, block := range found {
			command := exec.Command(shell, "-c", `"$0" `+block[1], os.Args[0])
			command.Dir, command.Env = "../..", append(os.Environ(), asProgram+"=1")
			out, err := command.CombinedOutput()
			if _, failed := err.(*exec.ExitError); err != nil && !failed {
				t.Fatal(err)
			}
			if got, want := string(out), block[2]; got != want {
				t.Errorf("%s: %s printed\n%s\nwant\n%s", name, block[1], got, want)
			}
		}
	}
}

// The problems that documents show are what validate prints of rules such as
// these.
func TestProblemsInDocuments(t *testing.T) {
	rules := map[string]string{
		"README.md":     "domain: api\ndescriptors:\n  - key: user\n    rate_limit: {unit: minuet, requests_per_unit: 5}\n",
		"docs/rules.md": "domain: api\ndescriptors:\n  - key: user\n    rate_limit:\n      unit: minute\n      requests_per_unit: 5\n      charge: allways\n",
	}
	for name, text := range rules {
		t.Run(name, func(t *testing.T) {
			document, err := os.ReadFile(filepath.Join("../..", name))
			if err != nil {
				t.Fatal(err)
			}
			t.Chdir(t.TempDir())
			if err := os.Mkdir("config", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile("config/api.yaml", []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			_, stdout, _ := call(t, "validate", "config/")
			want := regexp.MustCompile(`(?m)^(.)`).ReplaceAllString(stdout, "    $1")
			if !strings.Contains(string(document), "\n\n"+want+"\n") || strings.Count(want, "\n") != 1 {
				t.Errorf("the document does not show\n%s", want)
			}
		})
	}
}
