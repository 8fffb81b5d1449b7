// Package scripts tests the scripts of its directory.
package scripts

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"weir/internal/testenv"
)

// TestGovulncheckFailsByFindings runs the script with outputs and exit codes of
// govulncheck.
func TestGovulncheckFailsByFindings(t *testing.T) {
	shell := testenv.Shell(t)
	for _, tt := range []struct {
		name, says, exit string
		fails, leftOut   bool
	}{
		{name: "nothing", says: "No vulnerabilities found.", exit: "0"},
		{name: "a finding", says: "Vulnerability #1: GO-2024-0001", exit: "3", fails: true},
		{name: "a finding that names the database", says: "govulncheck: fetching vulnerabilities: GO-2024-0001", exit: "3", fails: true},
		{name: "no database", says: "govulncheck: fetching vulnerabilities: Get \"https://vuln.go.dev/index/modules.json.gz\": no such host", exit: "1", leftOut: true},
		{name: "does not compile", says: "govulncheck: loading packages: There are errors", exit: "1", fails: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stub := filepath.Join(t.TempDir(), "go")
			testenv.OK(t, os.WriteFile(stub, []byte("#!"+shell+"\necho \"$SAYS\" >&2; exit $EXIT\n"), 0o755))
			command := exec.Command(shell, "govulncheck.sh")
			command.Env = append(os.Environ(), "GO="+stub, "SAYS="+tt.says, "EXIT="+tt.exit)
			out, err := command.CombinedOutput()
			if (err != nil) != tt.fails || !strings.Contains(string(out), tt.says) || strings.Contains(string(out), "left out: ") != tt.leftOut {
				t.Errorf("got %v and %s", err, out)
			}
		})
	}
}

// TestLicensesOfLinkedModules compares the files that licenses.sh copies with the linked
// modules of the program.
func TestLicensesOfLinkedModules(t *testing.T) {
	dir := t.TempDir()
	command := exec.Command(testenv.Shell(t), "licenses.sh", dir)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("licenses.sh: %v\n%s", err, out)
	}
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}@{{.Version}} {{.Dir}}{{end}}{{end}}", "../cmd/server")
	out := testenv.Must(list.Output())(t)
	environment := testenv.Must(exec.Command("go", "env", "GOVERSION", "GOROOT").Output())(t)
	version, root, _ := strings.Cut(strings.TrimSpace(string(environment)), "\n")
	sources := map[string]string{"stdlib@" + version: root}
	for line := range strings.Lines(string(out)) {
		name, source, _ := strings.Cut(strings.TrimSpace(line), " ")
		sources[name] = source
	}
	if len(sources) < 10 {
		t.Fatalf("the program is linked with %d modules", len(sources))
	}
	for name, source := range sources {
		if copied, err := os.ReadDir(filepath.Join(dir, name)); err != nil || len(copied) == 0 {
			t.Errorf("there is no licence of %s (error: %v)", name, err)
			continue
		}
		testenv.OK(t, fs.WalkDir(os.DirFS(filepath.Join(dir, name)), ".", func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && read(t, filepath.Join(dir, name, path)) != read(t, filepath.Join(source, path)) {
				t.Errorf("%s of %s is not that of the module", path, name)
			}
			return err
		}))
	}
	// A module may contain third-party code with its own licence, and a notice.
	for _, pattern := range []string{
		"github.com/prometheus/client_golang@*/LICENSE", "github.com/prometheus/client_golang@*/NOTICE",
		"github.com/prometheus/client_golang@*/internal/github.com/golang/gddo/LICENSE",
	} {
		if found, err := filepath.Glob(filepath.Join(dir, pattern)); err != nil || len(found) != 1 {
			t.Errorf("%s matches %v (error: %v), want one file", pattern, found, err)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	return string(testenv.Must(os.ReadFile(file))(t))
}

// TestReleaseHasWhatDocumentsLinkTo checks that the links in the documents that release.sh
// packs lead to files that it packs, too.
func TestReleaseHasWhatDocumentsLinkTo(t *testing.T) {
	found := regexp.MustCompile(`(?s)\npacked=\(([^)]*)\)\n`).FindStringSubmatch(read(t, "release.sh"))
	if found == nil {
		t.Fatal("release.sh does not say what is packed")
	}
	list := exec.Command("git", append([]string{"ls-files", "--"}, strings.Fields(found[1])...)...)
	list.Dir = ".."
	out := testenv.Must(list.Output())(t)
	files := strings.Fields(string(out))
	isPacked := func(path string) bool {
		return slices.ContainsFunc(files, func(file string) bool { return file == path || strings.HasPrefix(file, path+"/") })
	}
	for _, file := range []string{"LICENSE", "CHANGELOG.md", "deploy/chart/README.md", "deploy/prometheus/alerts.yaml", "deploy/grafana/weir.json"} {
		if !isPacked(file) {
			t.Errorf("%s is not packed", file)
		}
	}
	links := 0
	for _, file := range files {
		if target, err := os.Readlink(filepath.Join("..", file)); err == nil {
			if target = filepath.Join(filepath.Dir(file), target); !isPacked(target) {
				t.Errorf("%s is a symbolic link to %s, which is not packed", file, target)
			}
			continue
		}
		if filepath.Ext(file) != ".md" {
			continue
		}
		for _, link := range regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)\s]*)?\)`).FindAllStringSubmatch(read(t, filepath.Join("..", file)), -1) {
			links++
			if target := filepath.Join(filepath.Dir(file), link[1]); !isPacked(target) {
				t.Errorf("%s links to %s, which is not packed", file, target)
			}
		}
	}
	if links < 200 {
		t.Errorf("there are %d links", links)
	}
}

// TestReleasesAreTested checks the order of the release workflow: nothing is published
// before all tests have passed, and no image without the archives.
func TestReleasesAreTested(t *testing.T) {
	type workflow struct {
		On   map[string]any `yaml:"on"`
		Jobs map[string]struct {
			Uses  string   `yaml:"uses"`
			Needs []string `yaml:"needs"`
		} `yaml:"jobs"`
	}
	parse := func(file string) (w workflow) {
		testenv.OK(t, yaml.Unmarshal([]byte(read(t, file)), &w))
		return w
	}
	jobs := parse("../.github/workflows/release.yml").Jobs
	const tests = "./.github/workflows/test.yml"
	testenv.Equal(t, jobs["test"].Uses, tests, "the job test uses")
	if _, callable := parse("../.github/workflows/test.yml").On["workflow_call"]; !callable {
		t.Error("test.yml has no workflow_call, by which others use it")
	}
	for job, needs := range map[string]string{"archives": "test", "image": "archives"} {
		if !slices.Contains(jobs[job].Needs, needs) {
			t.Errorf("%s needs %v, want %s", job, jobs[job].Needs, needs)
		}
	}
	testenv.Equal(t, len(jobs), 3, "jobs that this test knows")
}
