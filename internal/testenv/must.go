package testenv

import "testing"

// Must is for calls in tests that must succeed: Must(os.ReadFile(name))(t) returns the
// content, or fails the test.
func Must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		OK(tb, err)
		return v
	}
}

// OK fails the test at once if there is an error.
func OK(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
