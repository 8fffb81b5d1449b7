package testenv

import (
	"flag"
	"os"
	"strings"
	"testing"
)

// Update is the flag -update. If it is set, tests write the files that they compare with.
var Update = flag.Bool("update", false, "write the files that tests compare with")

// Golden compares got with the content of a file, which -update writes. The error shows both
// texts from the first line that differs.
func Golden(tb testing.TB, name, got string) {
	tb.Helper()
	if *Update {
		OK(tb, os.WriteFile(name, []byte(got), 0o644))
	}
	want := string(Must(os.ReadFile(name))(tb))
	if got == want {
		return
	}
	same := 0
	for same < min(len(got), len(want)) && got[same] == want[same] {
		same++
	}
	line := strings.LastIndex(got[:same], "\n") + 1
	tb.Errorf("%s, which -update writes: got from there\n%s\nwant\n%s", name, got[line:], want[line:])
}
