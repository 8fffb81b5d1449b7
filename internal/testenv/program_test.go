package testenv

import (
	"fmt"
	"runtime"
	"testing"
)

// recorder stands in for a test that needs a program, and records how that test ends.
type recorder struct {
	testing.TB
	outcome string
}

func (r *recorder) Helper() {}

func (r *recorder) Skipf(format string, args ...any)  { r.end("skipped: "+format, args...) }
func (r *recorder) Fatalf(format string, args ...any) { r.end("failed: "+format, args...) }

func (r *recorder) end(format string, args ...any) {
	r.outcome = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestProgramIsSkippedUnlessRequired(t *testing.T) {
	const missing = "no-such-program"
	for _, c := range []struct{ require, want string }{
		{"", `skipped: no-such-program is not available: exec: "no-such-program": executable file not found in $PATH`},
		{"redis-server,no-such", `skipped: no-such-program is not available: exec: "no-such-program": executable file not found in $PATH`},
		{"redis-server,no-such-program", `failed: WEIR_TEST_REQUIRE requires no-such-program: exec: "no-such-program": executable file not found in $PATH`},
	} {
		t.Setenv(requireVariable, c.require)
		r := &recorder{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			Program(r, missing)
		}()
		<-done
		Equal(t, r.outcome, c.want, "with %q required", c.require)
	}
}
