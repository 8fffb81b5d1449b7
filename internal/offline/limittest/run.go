package limittest

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"weir/internal/descriptors"
	"weir/internal/descriptors/strictyaml"
	"weir/internal/limiter"
	"weir/internal/limiter/memory"
	"weir/internal/plan"
)

// Result is what became of one test. It passed if there are no failures.
type Result struct {
	Test     string
	Line     int           // of the test in its file
	Took     time.Duration // by the clock on the wall
	Failures []Failure
}

// Failure is one expectation that was not met.
type Failure struct {
	File     string
	At       strictyaml.Position // of the expectation
	Test     string
	Step     int           // from 1
	Time     time.Duration // of the step's last request, since the start of the test
	What     string        // what was compared, such as statuses[1].remaining
	Expected string
	Got      string
	Answer   []string // the step's last answer, a line for each descriptor; of its last failure
}

// String returns the failure in a line that begins with the expectation's place,
// and the answer in indented lines below.
func (f Failure) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: %s: step %d at %v: %s: expected %s, got %s",
		f.File, f.At.Line, f.At.Column, f.Test, f.Step, f.Time, f.What, f.Expected, f.Got)
	for _, line := range f.Answer {
		b.WriteString("\n    " + line)
	}
	return b.String()
}

// Run runs the tests whose names match filter, all if it is nil. If ctx ends
// meanwhile it returns the results so far and ctx's error.
func (f *File) Run(ctx context.Context, filter *regexp.Regexp) ([]Result, error) {
	var results []Result
	for i := range f.tests {
		t := &f.tests[i]
		if filter != nil && !filter.MatchString(t.name) {
			continue
		}
		start := time.Now()
		failures, err := f.run(ctx, t)
		if err != nil {
			return results, err
		}
		results = append(results, Result{t.name, t.line, time.Since(start), failures})
	}
	return results, nil
}

// run runs one test. The error is that of ctx.
func (f *File) run(ctx context.Context, t *test) ([]Failure, error) {
	var failures []Failure
	var now time.Duration // since the start of the test
	planner := plan.New(f.opts.Options)
	counters := memory.New(memory.Options{Now: func() time.Time { return time.Unix(0, int64(t.start+now)) }})
	for i, s := range t.steps {
		var o outcome
		for n := range s.send {
			now = s.first + time.Duration(n)*s.every
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err := planner.Prepare(&o.last, f.tree, &s.request); err != nil {
				return append(failures, Failure{
					File: f.Name, At: s.at, Test: t.name, Step: i + 1, Time: now,
					What: "request", Expected: "an answer", Got: err.Error(),
				}), nil
			}
			denied := false // the memory store never fails
			if len(o.last.Hits) > 0 {
				denied, _ = counters.Decide(ctx, o.last.Hits, o.last.Decisions)
			}
			o.settle(denied)
		}
		failures = append(failures, f.compare(t, i, &o, now)...)
	}
	return failures, nil
}

// compare checks the outcome of step i.
func (f *File) compare(t *test, i int, o *outcome, now time.Duration) []Failure {
	var failures []Failure
	s := &t.steps[i]
	for _, c := range s.checks {
		if got := c.got(o); got != c.want {
			failures = append(failures, Failure{
				File: f.Name, At: c.at, Test: t.name, Step: i + 1, Time: now,
				What: c.what, Expected: c.want, Got: got,
			})
		}
	}
	if n := len(failures); n > 0 {
		failures[n-1].Answer = describe(&s.request, o.last.Statuses)
	}
	return failures
}

// describe returns each descriptor's status.
func describe(request *plan.Request, statuses []plan.Status) []string {
	var lines []string
	for i, s := range statuses {
		var entries []string
		for _, e := range request.Descriptors[i].Entries {
			entries = append(entries, descriptors.Spell(e))
		}
		line := strings.Join(entries, ", ") + ": " + code(s.OverLimit)
		switch l := s.Limit; {
		case l == nil:
			line += ", no limit was counted"
		case s.OverLimit:
			line += fmt.Sprintf(", %s, remaining %d, retry_after %s", title(l)+above(s), s.Remaining, retryAfter(s))
		default:
			line += fmt.Sprintf(", %s, remaining %d, reset %s", title(l)+above(s), s.Remaining, reset(s))
		}
		lines = append(lines, line)
	}
	return lines
}

// above names the rule whose limit decided if it is one above that of the descriptor.
func above(s plan.Status) string {
	for r := s.Rule; r != nil; r = r.Above {
		if r != s.Rule && slices.Contains(r.Limits, s.Limit) {
			return " from " + r.String()
		}
	}
	return ""
}

func title(l *limiter.Limit) string {
	if l.Name == "" {
		return "limit of " + amount(l)
	}
	return fmt.Sprintf("limit %q of %s", l.Name, amount(l))
}

func amount(l *limiter.Limit) string {
	return l.Rate()
}
