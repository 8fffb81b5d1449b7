package testenv

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Must wraps calls in tests that must succeed. For example, Must(os.ReadFile(name))(t) returns the
// content or fails the test.
func Must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		OK(tb, err)
		return v
	}
}

// OK stops the test and fails it if err is not nil.
func OK(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Equal fails the test unless got is want. format and args describe the compared values.
func Equal[T comparable](tb testing.TB, got, want T, format string, args ...any) {
	tb.Helper()
	if got != want {
		tb.Errorf("%s\n got %+v\nwant %+v", fmt.Sprintf(format, args...), got, want)
	}
}

// EqualLists is like Equal, but compares lists.
func EqualLists[T comparable](tb testing.TB, got, want []T, format string, args ...any) {
	tb.Helper()
	if !slices.Equal(got, want) {
		tb.Errorf("%s\n got %#v\nwant %#v", fmt.Sprintf(format, args...), got, want)
	}
}

// EqualDeep is Equal for values of any type, which reflect.DeepEqual compares.
func EqualDeep(tb testing.TB, got, want any, format string, args ...any) {
	tb.Helper()
	if !reflect.DeepEqual(got, want) {
		tb.Errorf("%s\n got %+v\nwant %+v", fmt.Sprintf(format, args...), got, want)
	}
}

// Contains fails the test unless text contains all of wants.
func Contains(tb testing.TB, text string, wants ...string) {
	tb.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			tb.Errorf("%q is not in\n%s", want, text)
		}
	}
}

// Lacks fails the test if text contains any of unwanted.
func Lacks(tb testing.TB, text string, unwanted ...string) {
	tb.Helper()
	for _, part := range unwanted {
		if strings.Contains(text, part) {
			tb.Errorf("%q is in\n%s", part, text)
		}
	}
}
