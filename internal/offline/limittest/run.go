package limittest

import (
	"context"
	_ "embed"
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"time"

	"weir/internal/descriptors"
	"weir/internal/limiter/memory"
	"weir/internal/plan"
)

// Report contains the results of the tests in one file.
type Report struct {
	File    string
	Err     error // why tests did not run, or nil if all ran
	Results []Result
}

// Result is the result of one test, which passed if there are no failures.
type Result struct {
	Test string
	Line int           // line of the test in its file
	Took time.Duration // real time, not the time of the test's clock
	// Failures are the expectations that were not met. Each text begins with the location
	// of the expectation. The last failure of a step ends with the step's last answer, in
	// an indented line for each descriptor.
	Failures []string
}

// Failed returns the number of tests that failed.
func (r *Report) Failed() (n int) {
	for _, result := range r.Results {
		n += min(len(result.Failures), 1)
	}
	return n
}

//go:embed junit.xml
var junitText string

var junit = template.Must(template.New("junit").Funcs(template.FuncMap{
	"xml": func(s string) (string, error) {
		var b strings.Builder
		err := xml.EscapeText(&b, []byte(s))
		return b.String(), err
	},
	"first": func(lines string) string {
		first, _, _ := strings.Cut(lines, "\n")
		return first
	},
	"join": strings.Join,
	"cases": func(r Report) int {
		if r.Err != nil {
			return len(r.Results) + 1
		}
		return len(r.Results)
	},
}).Parse(junitText))

// WriteJUnit writes the reports in the XML format of JUnit, which most build servers
// read. It writes a suite for each file, and a case for each test and for the error of a
// Report.
func WriteJUnit(w io.Writer, reports []Report) error { return junit.Execute(w, reports) }

// Run loads a file and runs the tests whose names match filter, or all tests if filter is
// nil. If ctx is done before the end, the report has the results so far and ctx's error.
func Run(ctx context.Context, path string, opts Options, filter *regexp.Regexp) Report {
	r := Report{File: path}
	f, err := Load(path, opts)
	if err != nil {
		r.Err = err
		return r
	}
	for i := range f.tests {
		t, start := &f.tests[i], time.Now()
		if filter != nil && !filter.MatchString(t.name) {
			continue
		}
		failures, err := f.run(ctx, t)
		if err != nil {
			r.Err = fmt.Errorf("interrupted: %w", err)
			break
		}
		r.Results = append(r.Results, Result{t.name, t.line, time.Since(start), failures})
	}
	return r
}

type outcome struct {
	admitted, denied int
	last             plan.Result // result of the step's last request
	bucket           string      // rule that a bucket ID with the entries of the first descriptor matches, or none
}

// run runs one test, and returns its failures. It fails only if ctx is done.
func (f *File) run(ctx context.Context, t *test) (failures []string, err error) {
	var now time.Duration // since the start of the test
	decider := plan.Decider{
		Planner: plan.New(f.opts.Options),
		Rules:   func() *descriptors.Tree { return f.tree },
		Store:   memory.New(memory.Options{Now: func() time.Time { return time.Unix(0, int64(t.start+now)) }}),
	}
	for i := range t.steps {
		s := &t.steps[i]
		fail := func(c *check, got string) {
			failures = append(failures, fmt.Sprintf("%s:%d:%d: %s: step %d at %v: %s: expected %s, got %s",
				f.Name, c.at.Line, c.at.Column, t.name, i+1, now, c.what, c.want, got))
		}
		o := outcome{bucket: none}
		if r, _ := f.tree.MatchBucket(t.domain, s.request.Descriptors[0].Entries); r != nil {
			o.bucket = r.Way()
		}
		for n := range s.send {
			now = s.first + time.Duration(n)*s.every
			err = decider.Decide(ctx, &s.request, &o.last)
			switch {
			case ctx.Err() != nil:
				return nil, ctx.Err()
			case err != nil: // from the planner, because the memory store never fails
				fail(&check{at: s.at, what: "request", want: "an answer"}, err.Error())
				return failures, nil
			case o.last.Denied:
				o.denied++
			default:
				o.admitted++
			}
		}
		before := len(failures)
		for j := range s.checks {
			if got := s.checks[j].got(&o); got != s.checks[j].want {
				fail(&s.checks[j], got)
			}
		}
		if last := len(failures) - 1; last >= before {
			failures[last] += describe(&s.request, o.last.Statuses)
		}
	}
	return failures, nil
}

// describe returns the statuses as text. Each status begins with a line break.
func describe(request *plan.Request, statuses []plan.Status) string {
	var b strings.Builder
	for i := range statuses {
		s := &statuses[i]
		var entries []string
		for _, e := range request.Descriptors[i].Entries {
			entries = append(entries, descriptors.Spell(e))
		}
		fmt.Fprintf(&b, "\n    %s: %s, ", strings.Join(entries, ", "), code(s.OverLimit))
		if s.Limit == nil {
			b.WriteString("no limit was counted")
			continue
		}
		name := "limit"
		if s.Limit.Name != "" {
			name = fmt.Sprintf("limit %q", s.Limit.Name)
		}
		when := "reset " + reset(s)
		if s.OverLimit {
			when = "retry_after " + retryAfter(s)
		}
		fmt.Fprintf(&b, "%s of %s%s, remaining %d, %s", name, s.Limit.Rate(), above(s), s.Remaining, when)
	}
	return b.String()
}

// above names the rule whose limit decided, if it is a rule above the descriptor's rule.
// Otherwise it returns "".
func above(s *plan.Status) string {
	for r := s.Rule; r != nil; r = r.Above {
		if r != s.Rule && slices.Contains(r.Limits, s.Limit) {
			return " from " + r.String()
		}
	}
	return ""
}
