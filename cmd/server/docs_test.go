package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// The commands in the documents print the output below them. The test runs its own binary as
// the program.
func TestCommandsOfDocuments(t *testing.T) {
	shell := testenv.Shell(t)
	console := regexp.MustCompile("(?ms)^```console\n\\$ go run ./cmd/server (.*?)\n(.*?)^```")
	run := 0
	for _, name := range testenv.Documents(t) {
		text := testenv.Read(t, name)
		found := console.FindAllStringSubmatch(text, -1)
		testenv.Equal(t, len(found), strings.Count(text, "```console\n"), "%s: commands that are run", name)
		for _, block := range found {
			run++
			command := exec.Command(shell, "-c", `"$0" `+block[1], os.Args[0])
			command.Dir, command.Env = "../..", append(os.Environ(), asProgram+"=1")
			out, err := command.CombinedOutput()
			if _, failed := err.(*exec.ExitError); err != nil && !failed {
				t.Fatal(err)
			}
			testenv.Equal(t, string(out), block[2], "%s: output of %s", name, block[1])
		}
	}
	if run < 4 {
		t.Errorf("only %d commands were run", run)
	}
}

// The problems in the documents are the output of validate for rules such as these.
func TestProblemsInDocuments(t *testing.T) {
	rules := map[string]string{
		"README.md":     strings.Replace(testenv.Read(t, "../../config/api.yaml"), "unit: minute", "unit: minuet", 1),
		"docs/rules.md": "domain: api\ndescriptors:\n  - key: user\n    rate_limit:\n      unit: minute\n      requests_per_unit: 5\n      charge: allways\n",
	}
	for name, text := range rules {
		t.Run(name, func(t *testing.T) {
			document := testenv.Must(os.ReadFile(filepath.Join("../..", name)))(t)
			t.Chdir(t.TempDir())
			testenv.Write(t, "config/api.yaml", text)
			_, stdout, _ := call(t, "validate", "config/")
			want := regexp.MustCompile(`(?m)^(.)`).ReplaceAllString(stdout, "    $1")
			if !strings.Contains(string(document), "\n\n"+want+"\n") || strings.Count(want, "\n") != 1 {
				t.Errorf("the document does not show\n%s", want)
			}
		})
	}
}

// Links between documents lead to files and headings that exist, and source files that
// documents name exist.
func TestLinksOfDocuments(t *testing.T) {
	var sources []string
	for _, dir := range []string{"../../cmd", "../../internal", "../../bench", "../../e2e", "../../docs"} {
		testenv.OK(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			sources = append(sources, path)
			return err
		}))
	}
	source := regexp.MustCompile("`([\\w/]+\\.(?:go|lua))`")
	link := regexp.MustCompile(`\]\(([^)#:\s]*)(?:#([^)\s]*))?\)`)
	for _, name := range testenv.Documents(t) {
		for _, found := range link.FindAllStringSubmatch(testenv.Read(t, name), -1) {
			target := name
			if found[1] != "" {
				target = filepath.Join(filepath.Dir(name), found[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", name, err)
			} else if found[2] != "" && !slices.Contains(anchors(testenv.Read(t, target)), found[2]) {
				t.Errorf("%s: %s has no heading for #%s", name, target, found[2])
			}
		}
		for _, found := range source.FindAllStringSubmatch(testenv.Read(t, name), -1) {
			if !slices.ContainsFunc(sources, func(file string) bool { return strings.HasSuffix(file, "/"+found[1]) }) && !strings.Contains(found[1], "some_word") {
				t.Errorf("%s: there is no file %s", name, found[1])
			}
		}
	}
}

// anchors returns the fragments of links to the headings of a document.
func anchors(text string) (anchors []string) {
	text = regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(text, "")
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		anchor := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		anchors = append(anchors, strings.ReplaceAll(anchor, " ", "-"))
	}
	return anchors
}
