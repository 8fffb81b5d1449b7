package testenv

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// requireVariable is the environment variable with the names of required programs.
const requireVariable = "WEIR_TEST_REQUIRE"

// Program returns the path of an executable. If it is not installed, Program skips
// the test or benchmark.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	Unavailable(t, name, err)
	return ""
}

// Unavailable skips a test because of err. If name is required, it fails the test
// instead.
func Unavailable(t testing.TB, name string, err error) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv(requireVariable), ","), name) {
		t.Fatalf("%s requires %s: %v", requireVariable, name, err)
	}
	t.Skipf("%s is not available: %v", name, err)
}

// Shell returns the path of bash, for tests that run the commands in documents.
// Without bash, or without curl, which the commands use, the test is skipped.
func Shell(t testing.TB) string {
	t.Helper()
	Program(t, "curl")
	return Program(t, "bash")
}
