package testenv

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// Log stores the output of a program or a logger. It may be read while it is written.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String returns the output so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// WaitFor waits until the log contains text.
func (l *Log) WaitFor(tb testing.TB, text string) {
	tb.Helper()
	Eventually(tb, func() error {
		if log := l.String(); !strings.Contains(log, text) {
			return fmt.Errorf("%q is not in the log:\n%s", text, log)
		}
		return nil
	})
}
