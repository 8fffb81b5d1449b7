// Package scripts tests the scripts of its directory.
package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// TestMissingToolsNameOnlyLogsThatExist runs tools.sh where nothing is installed.
func TestMissingToolsNameOnlyLogsThatExist(t *testing.T) {
	shell := testenv.Shell(t)
	root, bin := t.TempDir(), t.TempDir()
	write := func(path, text string) {
		t.Helper()
		testenv.OK(t, os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755))
		testenv.OK(t, os.WriteFile(filepath.Join(root, path), []byte(text), 0o644))
	}
	write("scripts/tools.sh", read(t, "tools.sh"))
	dirname := testenv.Must(exec.LookPath("dirname"))(t) // the script finds its place with it
	testenv.OK(t, os.Symlink(dirname, filepath.Join(bin, "dirname")))
	missing := func() string {
		t.Helper()
		command := exec.Command(shell, filepath.Join(root, "scripts/tools.sh"), "missing")
		command.Env = []string{"PATH=" + bin}
		out, err := command.CombinedOutput()
		if err != nil || strings.Count(string(out), "LEFT OUT: ") != 5 {
			t.Fatalf("got %s, want five suites left out (error: %v)", out, err)
		}
		return string(out)
	}

	if out := missing(); strings.Contains(out, ".log") {
		t.Errorf("names a log that was never written:\n%s", out)
	}
	write(".tools/envoy.log", "no network")
	if out := missing(); !strings.Contains(out, "see .tools/envoy.log") || strings.Contains(out, "redis.log") {
		t.Errorf("names the wrong logs:\n%s", out)
	}
}
