package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// TestFailures runs tests, one of which fails among others that say much, and
// asks the script what failed.
func TestFailures(t *testing.T) {
	shell, dir := testenv.Shell(t), t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example\n\ngo 1.26\n",
		"some_test.go": `package example

import "testing"

func TestPasses(t *testing.T) { t.Log("all is well") }

func TestSome(t *testing.T) {
	t.Run("good", func(t *testing.T) { t.Parallel(); t.Log("fine") })
	t.Run("bad", func(t *testing.T) {
		t.Parallel()
		for i := range 1000 {
			t.Logf("try %d", i)
		}
		t.Error("got 1,\nwant 2")
	})
}
`,
	} {
		testenv.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for _, tt := range []struct{ name, run, want string }{
		{"nothing failed", "TestPasses", ""},
		{"a subtest failed", ".", "    some_test.go:14: got 1,\n        want 2\n    --- FAIL: TestSome/bad"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tests := exec.Command("go", "test", "-v", "-run="+tt.run, ".")
			tests.Dir = dir
			log, testErr := tests.CombinedOutput()
			if (testErr != nil) != (tt.want != "") {
				t.Fatalf("%v: %s", testErr, log)
			}
			path := filepath.Join(dir, "log")
			testenv.OK(t, os.WriteFile(path, log, 0o600))
			out, err := exec.Command(shell, "failures.sh", path).CombinedOutput()
			if err != nil || !strings.Contains(string(out), tt.want) || tt.want == "" && len(out) > 0 {
				t.Errorf("got %v and\n%s\nof\n%s", err, out, log)
			}
			for _, other := range []string{"fine", "all is well", "try 900"} {
				if strings.Contains(string(out), other) {
					t.Errorf("%q, which is not of the last lines of a failed test, is in\n%s", other, out)
				}
			}
		})
	}
}
