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
	const want = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
  <testsuite name="a_test.yaml" tests="2" failures="1" errors="0">
    <testcase name="good" classname="a_test.yaml" file="a_test.yaml" line="3" time="1.500"></testcase>
    <testcase name="&lt;one&gt; &amp; &#34;two&#34;" classname="a_test.yaml" file="a_test.yaml" line="6" time="0.001"><failure message="a_test.yaml:7:9: &lt;one&gt; &amp; &#34;two&#34;: step 1 at 0s: code: expected OK, got OVER_LIMIT">a_test.yaml:7:9: &lt;one&gt; &amp; &#34;two&#34;: step 1 at 0s: code: expected OK, got OVER_LIMIT&#xA;a_test.yaml:8:9: &lt;one&gt; &amp; &#34;two&#34;: step 2 at 0s: remaining: expected 1, got 0&#xA;    user=a</failure></testcase>
  </testsuite>
  <testsuite name="b_test.yaml" tests="1" failures="0" errors="1">
    <testcase name="file" classname="b_test.yaml" file="b_test.yaml"><error message="b_test.yaml:1:1: wrong">b_test.yaml:1:1: wrong&#xA;b_test.yaml:2:1: wrong, too</error></testcase>
  </testsuite>
</testsuites>
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
