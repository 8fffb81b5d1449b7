package limittest

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"weir/internal/testenv"
)

func TestWriteJUnit(t *testing.T) {
	failures := []string{
		`a_test.yaml:7:9: <one> & "two": step 1 at 0s: code: expected OK, got OVER_LIMIT`,
		"a_test.yaml:8:9: <one> & \"two\": step 2 at 0s: remaining: expected 1, got 0\n    user=a",
	}
	var b bytes.Buffer
	testenv.OK(t, WriteJUnit(&b, []Report{
		{File: "a_test.yaml", Results: []Result{{Test: "good", Line: 3, Took: 1500 * time.Millisecond}, {Test: `<one> & "two"`, Line: 6, Took: time.Millisecond, Failures: failures}}},
		{File: "b_test.yaml", Err: errors.New("b_test.yaml:1:1: wrong\nb_test.yaml:2:1: wrong, too")},
	}))
	testenv.Golden(t, "testdata/junit.xml", b.String())
}
