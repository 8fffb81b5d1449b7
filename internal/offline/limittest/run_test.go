package limittest

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/plan"
	"weir/internal/testenv"
)

// run runs all tests of a file. The test fails if they do not run.
func run(t *testing.T, path string, opts Options) []Result {
	t.Helper()
	r := Run(t.Context(), path, opts, nil)
	if r.Err != nil || len(r.Results) == 0 {
		t.Fatalf("%s: %d tests were run\n%v", path, len(r.Results), r.Err)
	}
	return r.Results
}

// failures runs all tests of a file and returns their failures.
func failures(t *testing.T, path string, opts Options) (failures []string) {
	t.Helper()
	for _, r := range run(t, path, opts) {
		failures = append(failures, r.Failures...)
	}
	return failures
}

// pass runs all tests of a file, and fails the test with each of their failures.
func pass(t *testing.T, path string) {
	t.Helper()
	for _, failure := range failures(t, path, Options{}) {
		t.Error(failure)
	}
}

// written writes rules and their tests to a temporary directory, and returns the path of the tests.
func written(t *testing.T, rules, tests string) string {
	t.Helper()
	dir := t.TempDir()
	testenv.Write(t, dir+"/rules.yaml", rules)
	testenv.Write(t, dir+"/rules_test.yaml", tests)
	return dir + "/rules_test.yaml"
}

// If an expectation is changed, only that expectation fails. A loaded file can be run many times.
func TestEveryExpectationCanFail(t *testing.T) {
	f := testenv.Must(Load("testdata/every_field_test.yaml", Options{}))(t)
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
	testenv.Golden(t, "testdata/failing.txt", strings.Join(failures(t, "testdata/failing_test.yaml", Options{}), "\n")+"\n")
	for filter, want := range map[string]int{"": 2, "^passes$": 1, "s": 2, "none|fails": 1, "Passes": 0} {
		if got := Run(t.Context(), "testdata/failing_test.yaml", Options{}, regexp.MustCompile(filter)); got.Err != nil || len(got.Results) != want {
			t.Errorf("%q: got %+v, want %d tests", filter, got, want)
		}
	}
}

// A failure ends with the last answer, or with the reason why there is none.
func TestEndsOfFailures(t *testing.T) {
	const below = "domain: shop\ndescriptors: [{key: user, below: true, rate_limit: {unit: day, requests_per_unit: 1}, descriptors: [{key: path}]}]\n"
	for want, tests := range map[string]string{
		// The limit of the parent rule decided.
		"user=a, path=/: OVER_LIMIT, limit of 1 per day from shop|user, remaining 0, retry_after 24h0m0s": "  - {send: 2, request: [{user: a, path: /}], expect: {admitted: 2}}\n",
		// The server refuses the request, which ends the test.
		"rules_test.yaml:6:5: it: step 1 at 0s: request: expected an answer, got the request has more than the 100 descriptors allowed": "  - {request: [" +
			strings.Repeat("{user: a}, ", 101) + "], expect: {code: OK}}\n  - {request: [{user: a}], expect: {admitted: 0}}\n",
	} {
		path := written(t, below, "rules: [rules.yaml]\ntests:\n- name: it\n  domain: shop\n  steps:\n"+tests)
		if got := failures(t, path, Options{}); len(got) != 1 || !strings.HasSuffix(got[0], want) {
			t.Errorf("got %q, want %s", got, want)
		}
	}
}

// The results depend on the server's settings.
func TestOptions(t *testing.T) {
	const path = "testdata/charge_test.yaml"
	merge := descriptors.Options{MergeDomains: true}
	testenv.EqualLists(t, failures(t, path, Options{Rules: merge}), nil, "failures")
	got := failures(t, path, Options{Rules: merge, Options: plan.Options{Charge: limiter.Always}})
	testenv.Equal(t, len(got), 1, "failures where denied requests are charged: %v", got)
	if got := Run(t.Context(), path, Options{}, nil); got.Err == nil || !strings.Contains(got.Err.Error(), "MERGE_DOMAIN_CONFIG") {
		t.Errorf("two files of one domain: got %v", got.Err)
	}
}
