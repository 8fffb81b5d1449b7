package limittest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/plan"
)

func load(t *testing.T, name string, opts Options) *File {
	t.Helper()
	f, err := Load(name, opts)
	if err != nil {
		t.Fatalf("loading %s:\n%v", name, err)
	}
	return f
}

// run runs all tests of a file.
func run(t *testing.T, f *File) []Result {
	t.Helper()
	results, err := f.Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// pass fails the test with every failure of the file's tests.
func pass(t *testing.T, f *File) {
	t.Helper()
	results := run(t, f)
	if len(results) == 0 {
		t.Errorf("%s: no test was run", f.Name)
	}
	for _, r := range results {
		for _, failure := range r.Failures {
			t.Error(failure)
		}
	}
}

func TestEveryField(t *testing.T) {
	f := load(t, "testdata/every_field_test.yaml", Options{})
	pass(t, f)
	pass(t, f) // a file keeps nothing of a run
}

// A test can start when the clocks of a time zone change.
func TestStart(t *testing.T) { pass(t, load(t, "testdata/calendar_test.yaml", Options{})) }

// Every expectation matters: if it is changed, it fails, and it alone.
func TestEveryExpectationCanFail(t *testing.T) {
	f := load(t, "testdata/every_field_test.yaml", Options{})
	for i := range f.tests {
		for j := range f.tests[i].steps {
			for k := range f.tests[i].steps[j].checks {
				c := &f.tests[i].steps[j].checks[k]
				right := c.want
				c.want = "something else"
				var failures []Failure
				for _, r := range run(t, f) {
					failures = append(failures, r.Failures...)
				}
				c.want = right
				if len(failures) != 1 || failures[0].What != c.what || failures[0].Step != j+1 || failures[0].Got != right {
					t.Errorf("line %d: %s changed: got %v", c.at.Line, c.what, failures)
				}
			}
		}
	}
}

func TestFailures(t *testing.T) {
	f := load(t, "testdata/failing_test.yaml", Options{})
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
	results := run(t, f)
	if len(results) != len(want) {
		t.Errorf("%d results, want %d", len(results), len(want))
	}
	for _, r := range results {
		var got strings.Builder
		for _, failure := range r.Failures {
			got.WriteString("\n" + failure.String())
		}
		if got, want := strings.TrimSpace(got.String()), strings.TrimSpace(want[r.Test]); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", r.Test, got, want)
		}
	}
}

// A request that the server refuses ends its test.
func TestRefusedRequest(t *testing.T) {
	rules, err := filepath.Abs("testdata/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "refused_test.yaml")
	text := "rules: [" + rules + "]\ntests:\n- name: refused\n  domain: shop\n  steps:\n" +
		"  - {request: [" + strings.Repeat("{user: a}, ", 101) + "], expect: {code: OK}}\n" +
		"  - {request: [{user: a}], expect: {admitted: 0}}\n"
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	results := run(t, load(t, name, Options{}))
	const want = ":6:5: refused: step 1 at 0s: request: expected an answer, got the request has more than the 100 descriptors that are permitted"
	if len(results) != 1 || len(results[0].Failures) != 1 || results[0].Failures[0].String() != name+want {
		t.Errorf("got %v, want %s%s", results, name, want)
	}
}

func TestFilter(t *testing.T) {
	f := load(t, "testdata/failing_test.yaml", Options{})
	for filter, want := range map[string]int{"": 2, "^passes$": 1, "s": 2, "none|fails": 1, "Passes": 0} {
		if got, err := f.Run(t.Context(), regexp.MustCompile(filter)); err != nil || len(got) != want {
			t.Errorf("%q: %d tests, %v, want %d", filter, len(got), err, want)
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if results, err := load(t, "testdata/every_field_test.yaml", Options{}).Run(ctx, nil); len(results) > 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("got %d results, %v", len(results), err)
	}
}

// The server's settings make a difference.
func TestOptions(t *testing.T) {
	failed := func(opts Options) (failures int) {
		for _, r := range run(t, load(t, "testdata/charge_test.yaml", opts)) {
			failures += len(r.Failures)
		}
		return failures
	}
	merge := descriptors.Options{MergeDomains: true}
	if n := failed(Options{Rules: merge}); n != 0 {
		t.Errorf("%d failures", n)
	}
	if n := failed(Options{Rules: merge, Options: plan.Options{Charge: limiter.Always}}); n != 1 {
		t.Errorf("%d failures where denied requests are charged, want 1", n)
	}
	if _, err := Load("testdata/charge_test.yaml", Options{}); err == nil || !strings.Contains(err.Error(), "MERGE_DOMAIN_CONFIG") {
		t.Errorf("two files of one domain: got %v", err)
	}
}
