package testenv

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// requireVariable names the programs whose tests must not be skipped.
const requireVariable = "WEIR_TEST_REQUIRE"

// Program returns the path of an executable, or skips the test or benchmark
// that needs it.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	unavailable(t, name, err)
	return ""
}

// unavailable skips a test, because of err, that needs what has this name, or
// fails it if that is required.
func unavailable(t testing.TB, name string, err error) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv(requireVariable), ","), name) {
		t.Fatalf("%s requires %s: %v", requireVariable, name, err)
	}
	t.Skipf("%s is not available: %v", name, err)
}

// Shell returns the path of bash, for tests that run the commands of documents.
// Without it, or without curl, which those commands use, the test is skipped.
func Shell(t testing.TB) string {
	t.Helper()
	Program(t, "curl")
	return Program(t, "bash")
}
