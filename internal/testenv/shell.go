package testenv

import "testing"

// Shell returns the path of bash, for tests that run the commands of documents.
// Without it, or without curl, which those commands use, the test is skipped.
func Shell(t testing.TB) string {
	t.Helper()
	program(t, "curl")
	return program(t, "bash")
}
