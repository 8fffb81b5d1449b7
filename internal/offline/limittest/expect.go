package limittest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/limiter"
	"weir/internal/plan"
)

// outcome is what became of the requests of a step.
type outcome struct {
	admitted, denied int
	last             plan.Result // of the last request
}

// settle adds a request that was decided.
func (o *outcome) settle(denied bool) {
	o.last.SetStatuses(denied)
	if denied {
		o.denied++
	} else {
		o.admitted++
	}
}

// check is one expectation. What is expected and what was got are compared as
// they are shown.
type check struct {
	at   strictyaml.Position
	what string // such as statuses[1].remaining
	want string
	got  func(*outcome) string
}

// expectation is the field expect as it is written.
type expectation struct {
	request  []check // about the step's requests and the last one as a whole
	status   []statusCheck
	statuses [][]statusCheck // of each descriptor
	// statusAt and statusesAt are where status and statuses are, of the first
	// that is there. The zero value is nowhere.
	statusAt, statusesAt strictyaml.Position
	// outcomes is the sum of admitted and denied, the last of which is at countAt.
	outcomes uint64
	countAt  strictyaml.Position
}

// statusCheck is an expectation about the status of some descriptor.
type statusCheck struct {
	at         strictyaml.Position
	what, want string
	got        func(plan.Status) string
}

func (d *decoder) expectation(n *yaml.Node) expectation {
	var c expectation
	found := d.Found()
	d.Fields(n, expectFields, func(name string, n *yaml.Node) {
		at := strictyaml.At(n)
		count := func(got func(*outcome) int) {
			want := d.Whole(n, 0, maxSend)
			c.outcomes, c.countAt = c.outcomes+want, at
			c.request = append(c.request, check{at, name, strconv.FormatUint(want, 10), func(o *outcome) string { return strconv.Itoa(got(o)) }})
		}
		switch name {
		case "admitted":
			count(func(o *outcome) int { return o.admitted })
		case "denied":
			count(func(o *outcome) int { return o.denied })
		case "code":
			c.request = append(c.request, check{at, name, d.code(n), func(o *outcome) string { return code(o.last.Denied) }})
		case "statuses":
			c.statusesAt = at
			d.Items(n, func(n *yaml.Node) { c.statuses = append(c.statuses, d.status(n)) })
		default:
			c.statusAt = at
			c.status = append(c.status, d.statusField(name, n))
		}
	})
	if c.isEmpty() && d.Found() == found {
		d.Problem(strictyaml.At(n), "nothing is expected, allowed are %s", strings.Join(expectFields, ", "))
	}
	return c
}

// isEmpty reports whether nothing is expected, however that is written. An empty
// list of statuses is not, because its length is wrong.
func (c *expectation) isEmpty() bool {
	some := func(status []statusCheck) bool { return len(status) > 0 }
	wrongLength := c.statusesAt != strictyaml.Position{} && len(c.statuses) == 0
	return len(c.request) == 0 && len(c.status) == 0 && !slices.ContainsFunc(c.statuses, some) && !wrongLength
}

// status decodes what is expected of one descriptor.
func (d *decoder) status(n *yaml.Node) []statusCheck {
	var list []statusCheck
	if strictyaml.IsNull(n) {
		return nil
	}
	found := d.Found()
	d.Fields(n, statusFields, func(name string, n *yaml.Node) { list = append(list, d.statusField(name, n)) })
	if len(list) == 0 && d.Found() == found {
		d.Problem(strictyaml.At(n), "nothing is expected, allowed are %s; null says so", strings.Join(statusFields, ", "))
	}
	return list
}

func (d *decoder) statusField(name string, n *yaml.Node) statusCheck {
	c := statusCheck{at: strictyaml.At(n), what: name}
	switch name {
	case "code":
		c.want = d.code(n)
		c.got = func(s plan.Status) string { return code(s.OverLimit) }
	case "remaining":
		c.want = strconv.FormatUint(d.Whole(n, 0, limiter.MaxAmount), 10)
		c.got = func(s plan.Status) string { return strconv.FormatUint(s.Remaining, 10) }
	case "reset":
		c.want = d.duration(n, time.Second, maxWait).String()
		c.got = reset
	case "retry_after":
		if c.want = never; n.Value != never {
			c.want = d.duration(n, time.Second, maxWait).String()
		}
		c.got = retryAfter
	case "limit":
		c.want = d.limit(n)
		c.got = limit
	}
	return c
}

// checks makes the checks of a step whose requests have so many descriptors.
func (d *decoder) checks(c expectation, descriptors int) []check {
	d.Enter(strictyaml.Step{Field: "expect"})
	defer d.Leave()
	checks := c.request
	if len(c.status) > 0 && descriptors != 1 {
		d.Problem(c.statusAt, "the request has %d descriptors, allowed is this in statuses only", descriptors)
	}
	if written := c.statusesAt != (strictyaml.Position{}); written && len(c.statuses) != descriptors {
		d.ProblemIn("statuses", c.statusesAt, "%d statuses, allowed are as many as the request has descriptors, %d; null expects nothing", len(c.statuses), descriptors)
	}
	for _, s := range c.status {
		checks = append(checks, s.of(0, s.what))
	}
	for i, status := range c.statuses {
		for _, s := range status {
			checks = append(checks, s.of(i, fmt.Sprintf("statuses[%d].%s", i, s.what)))
		}
	}
	return checks
}

// of is the check of descriptor i's status.
func (c statusCheck) of(i int, what string) check {
	return check{c.at, what, c.want, func(o *outcome) string { return c.got(o.last.Statuses[i]) }}
}

const (
	codeOK        = "OK"
	codeOverLimit = "OVER_LIMIT"
	never         = "never"
	none          = "none"
)

func code(over bool) string {
	if over {
		return codeOverLimit
	}
	return codeOK
}

func (d *decoder) code(n *yaml.Node) string {
	text, ok := d.Text(n)
	if ok && text != codeOK && text != codeOverLimit {
		d.Problem(strictyaml.At(n), "unknown code %q, allowed are %s and %s", text, codeOK, codeOverLimit)
	}
	return text
}

// reset is the time until the limit of an admitted descriptor is whole again.
func reset(s plan.Status) string {
	switch {
	case s.OverLimit:
		return "none, because the code is OVER_LIMIT with retry_after " + retryAfter(s)
	case s.Limit == nil:
		return "none, because no limit was counted"
	default:
		return s.UntilReset.String()
	}
}

// retryAfter is the time after which a denied descriptor would be admitted.
func retryAfter(s plan.Status) string {
	switch {
	case !s.OverLimit:
		return "none, because the code is OK"
	case s.UntilReset == 0:
		return never
	default:
		return s.UntilReset.String()
	}
}

// limit spells the limit that decided. A name is quoted, so that none is taken
// for none.
func limit(s plan.Status) string {
	switch l := s.Limit; {
	case l == nil:
		return none
	case l.Name == "":
		return fmt.Sprintf("one without a name, of %s", amount(l))
	default:
		return strconv.Quote(l.Name)
	}
}

func (d *decoder) limit(n *yaml.Node) string {
	if strictyaml.IsNull(n) {
		return none
	}
	text, ok := d.Text(n)
	if ok && text == "" {
		d.Problem(strictyaml.At(n), "a name is needed, allowed is that of a limit, or null if none shall be counted")
	}
	return strconv.Quote(text)
}
