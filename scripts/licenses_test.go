package scripts

import (
	"bufio"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// TestLicensesOfLinkedModules compares what licenses.sh copies with the modules that
// the program is linked with.
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
	for lines := bufio.NewScanner(strings.NewReader(string(out))); lines.Scan(); {
		name, source, _ := strings.Cut(lines.Text(), " ")
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
		err := fs.WalkDir(os.DirFS(filepath.Join(dir, name)), ".", func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && read(t, filepath.Join(dir, name, path)) != read(t, filepath.Join(source, path)) {
				t.Errorf("%s of %s is not that of the module", path, name)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	// A module may hold code of others, with a licence beside it, and a notice.
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
	text := testenv.Must(os.ReadFile(file))(t)
	return string(text)
}
