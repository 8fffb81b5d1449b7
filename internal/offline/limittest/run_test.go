package limittest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/plan"
)

// run runs all tests of a file.
func run(t *testing.T, path string, opts Options) []Result {
	t.Helper()
	r := Run(t.Context(), path, opts, nil)
	if r.Err != nil || len(r.Results) == 0 {
		t.Fatalf("%s: %d tests were run\n%v", path, len(r.Results), r.Err)
	}
	return r.Results
}

// failures runs all tests of a file and returns what failed.
func failures(t *testing.T, path string, opts Options) (failures []string) {
	t.Helper()
	for _, r := range run(t, path, opts) {
		failures = append(failures, r.Failures...)
	}
	return failures
}

// pass fails the test with every failure of the file's tests.
func pass(t *testing.T, path string) {
	t.Helper()
	for _, failure := range failures(t, path, Options{}) {
		t.Error(failure)
	}
}

// written writes a file of tests beside its rules.yaml, and returns its path.
func written(t *testing.T, rules, tests string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"rules.yaml": rules, "rules_test.yaml": "rules: [rules.yaml]\n" + tests} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "rules_test.yaml")
}

// Every expectation matters: if it is changed, it fails, and it alone. A file keeps nothing
// of a run.
func TestEveryExpectationCanFail(t *testing.T) {
	f, err := Load("testdata/every_field_test.yaml", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.tests {
		test := &f.tests[i]
		if failures, err := f.run(t.Context(), test); err != nil || len(failures) > 0 {
			t.Errorf("%v, %v", failures, err)
		}
		for j := range test.steps {
			for k := range test.steps[j].checks {
				c := &test.steps[j].checks[k]
				right := c.want
				c.want = "something else"
				failures, err := f.run(t.Context(), test)
				c.want = right
				step, what := fmt.Sprintf(": step %d at ", j+1), fmt.Sprintf(": %s: expected something else, got %s", c.what, right)
				if err != nil || len(failures) != 1 || !strings.Contains(failures[0], step) || !strings.Contains(failures[0], what+"\n") {
					t.Errorf("line %d: %s changed: got %v, %v", c.at.Line, c.what, failures, err)
				}
			}
		}
	}
}

func TestFailures(t *testing.T) {
	want := map[string]string{
		"passes": "",
		"fails": `
testdata/failing_test.yaml:15:21: fails: step 1 at 400ms: admitted: expected 5, got 3
testdata/failing_test.yaml:16:19: fails: step 1 at 400ms: denied: expected 0, got 2
testdata/failing_test.yaml:17:17: fails: step 1 at 400ms: code: expected OK, got OVER_LIMIT
testdata/failing_test.yaml:19:22: fails: step 1 at 400ms: statuses[0].code: expected OVER_LIMIT, got OK
testdata/failing_test.yaml:19:45: fails: step 1 at 400ms: statuses[0].remaining: expected 3, got 2
testdata/failing_test.yaml:19:55: fails: step 1 at 400ms: statuses[0].reset: expected 1m0s, got 1s
testdata/failing_test.yaml:19:73: fails: step 1 at 400ms: statuses[0].retry_after: expected never, got none, because the code is OK
testdata/failing_test.yaml:19:87: fails: step 1 at 400ms: statuses[0].limit: expected "steady", got "burst"
testdata/failing_test.yaml:20:22: fails: step 1 at 400ms: statuses[1].code: expected OK, got OVER_LIMIT
testdata/failing_test.yaml:20:37: fails: step 1 at 400ms: statuses[1].remaining: expected 1, got 0
testdata/failing_test.yaml:20:47: fails: step 1 at 400ms: statuses[1].reset: expected 59s, got none, because the code is OVER_LIMIT with retry_after 1m0s
testdata/failing_test.yaml:20:65: fails: step 1 at 400ms: statuses[1].retry_after: expected 1s, got 1m0s
testdata/failing_test.yaml:20:76: fails: step 1 at 400ms: statuses[1].limit: expected none, got one without a name, of 3 per minute
    user=alice: OK, limit "burst" of 5 per second, remaining 2, reset 1s
    user=alice, path="a|b": OVER_LIMIT, limit of 3 per minute, remaining 0, retry_after 1m0s
testdata/failing_test.yaml:23:25: fails: step 2 at 1h0m0s: limit: expected "burst", got none
testdata/failing_test.yaml:23:39: fails: step 2 at 1h0m0s: reset: expected 1s, got none, because no limit was counted
testdata/failing_test.yaml:23:56: fails: step 2 at 1h0m0s: retry_after: expected never, got none, because the code is OK
    free=x: OK, no limit was counted
testdata/failing_test.yaml:25:25: fails: step 3 at 1h0m0s: reset: expected 1s, got none, because the code is OVER_LIMIT with retry_after never
testdata/failing_test.yaml:25:42: fails: step 3 at 1h0m0s: retry_after: expected 1m0s, got never
    bytes=x: OVER_LIMIT, limit of 0 per day, remaining 0, retry_after never
testdata/failing_test.yaml:27:25: fails: step 4 at 1h0m0s: limit: expected none, got one without a name, of 7 per 5 minutes
    user=bob: OK, limit of 7 per 5 minutes, remaining 6, reset 5m0s
`,
	}
	results := run(t, "testdata/failing_test.yaml", Options{})
	for _, r := range results {
		if got, want := strings.Join(r.Failures, "\n"), strings.TrimSpace(want[r.Test]); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", r.Test, got, want)
		}
	}
	for filter, want := range map[string]int{"": 2, "^passes$": 1, "s": 2, "none|fails": 1, "Passes": 0} {
		if got := Run(t.Context(), "testdata/failing_test.yaml", Options{}, regexp.MustCompile(filter)); got.Err != nil || len(got.Results) != want {
			t.Errorf("%q: got %+v, want %d tests", filter, got, want)
		}
	}
}

// The end of a failure says more than what was expected and got.
func TestEndsOfFailures(t *testing.T) {
	const below = "domain: shop\ndescriptors: [{key: user, below: true, rate_limit: {unit: day, requests_per_unit: 1}, descriptors: [{key: path}]}]\n"
	for want, tests := range map[string]string{
		// The rule above whose limit decided.
		"user=a, path=/: OVER_LIMIT, limit of 1 per day from shop|user, remaining 0, retry_after 24h0m0s": "  - {send: 2, request: [{user: a, path: /}], expect: {admitted: 2}}\n",
		// What the server refuses. It ends the test.
		"rules_test.yaml:6:5: it: step 1 at 0s: request: expected an answer, got the request has more than the 100 descriptors that are permitted": "  - {request: [" +
			strings.Repeat("{user: a}, ", 101) + "], expect: {code: OK}}\n  - {request: [{user: a}], expect: {admitted: 0}}\n",
	} {
		path := written(t, below, "tests:\n- name: it\n  domain: shop\n  steps:\n"+tests)
		if got := failures(t, path, Options{}); len(got) != 1 || !strings.HasSuffix(got[0], want) {
			t.Errorf("got %q, want %s", got, want)
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := Run(ctx, "testdata/every_field_test.yaml", Options{}, nil); len(got.Results) > 0 || !errors.Is(got.Err, context.Canceled) {
		t.Errorf("got %+v", got)
	}
}

// The server's settings make a difference.
func TestOptions(t *testing.T) {
	const path = "testdata/charge_test.yaml"
	merge := descriptors.Options{MergeDomains: true}
	if got := failures(t, path, Options{Rules: merge}); len(got) != 0 {
		t.Error(got)
	}
	if got := failures(t, path, Options{Rules: merge, Options: plan.Options{Charge: limiter.Always}}); len(got) != 1 {
		t.Errorf("where denied requests are charged: got %v, want one failure", got)
	}
	if got := Run(t.Context(), path, Options{}, nil); got.Err == nil || !strings.Contains(got.Err.Error(), "MERGE_DOMAIN_CONFIG") {
		t.Errorf("two files of one domain: got %v", got.Err)
	}
}
