package testenv

import (
	"fmt"
	"testing"
	"time"
)

const (
	patience = time.Minute          // with what is sure to come, on a machine that is busy
	pause    = 2 * time.Millisecond // between two looks
)

// Eventually asks check until it returns nil, for what others have to do first,
// and fails the test with its last error if that takes a minute.
func Eventually(tb testing.TB, check func() error) {
	tb.Helper()
	for end := time.Now().Add(patience); ; <-time.After(pause) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			tb.Fatalf("after %v: %v", patience, err)
		}
	}
}

// InTime runs f, and fails the test if it never takes less than bound. It has
// five tries, because the machine may be busy with something else.
func InTime(tb testing.TB, bound time.Duration, f func()) {
	tb.Helper()
	var took time.Duration
	for range 5 {
		start := time.Now()
		f()
		if took = time.Since(start); took < bound {
			return
		}
	}
	tb.Errorf("takes %v, want less than %v", took, bound)
}

// eventually is Eventually for what has no error to tell.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	Eventually(tb, func() error {
		if !ok() {
			return fmt.Errorf("waited in vain until %s", what)
		}
		return nil
	})
}
