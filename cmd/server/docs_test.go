package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// The commands of the documents print what is printed below them. The program
// is this test's binary, not built anew.
func TestCommandsOfDocuments(t *testing.T) {
	shell := testenv.Shell(t)
	console := regexp.MustCompile("(?ms)^```console\n\\$ go run ./cmd/server (.*?)\n(.*?)^```")
	for name, least := range map[string]int{"README.md": 1, "docs/testing-rules.md": 2, "docs/examples.md": 1} {
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

// Links between documents lead to files and headings that exist.
func TestLinksOfDocuments(t *testing.T) {
	names, err := filepath.Glob("../../*.md")
	for _, pattern := range []string{"../../docs/*.md", "../../examples/*/*.md"} {
		more, globErr := filepath.Glob(pattern)
		if err = errors.Join(err, globErr); len(more) == 0 {
			t.Errorf("no document is %s", pattern)
		}
		names = append(names, more...)
	}
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^)#:\s]*)(?:#([^)\s]*))?\)`)
	for _, name := range names {
		for _, found := range link.FindAllStringSubmatch(readText(t, name), -1) {
			target := name
			if found[1] != "" {
				target = filepath.Join(filepath.Dir(name), found[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", name, err)
			} else if found[2] != "" && !slices.Contains(anchors(readText(t, target)), found[2]) {
				t.Errorf("%s: %s has no heading for #%s", name, target, found[2])
			}
		}
	}
}

func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// anchors returns what links to the headings of a document end with.
func anchors(text string) (anchors []string) {
	text = regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(text, "")
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		anchor := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		anchors = append(anchors, strings.ReplaceAll(anchor, " ", "-"))
	}
	return anchors
}
