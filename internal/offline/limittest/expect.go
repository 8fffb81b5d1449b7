package limittest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/limiter"
	"weir/internal/plan"
)

// check is one expectation. What is expected and what was got are compared as
// they are shown.
type check struct {
	at   strictyaml.Position
	what string // such as statuses[1].remaining
	want string
	got  func(*outcome) string
}

// statusFields are what may be expected of a status.
var statusFields = []string{"code", "remaining", "reset", "retry_after", "limit"}

// expectation is the field expect.
type expectation struct {
	checks []check
	// Of the only status and of statuses, where the last field is. The zero value is nowhere.
	statusAt, statusesAt strictyaml.Position
	statuses             int
	// outcomes is the sum of admitted and denied, the last of which is at countAt.
	outcomes uint64
	countAt  strictyaml.Position
}

func (d *decoder) expectation(n *yaml.Node) expectation {
	var c expectation
	add := func(n *yaml.Node, name, want string, got func(*outcome) string) {
		c.checks = append(c.checks, check{strictyaml.At(n), name, want, got})
	}
	count := func(n *yaml.Node, name string, got func(*outcome) int) {
		want := d.Whole(n, 0, maxSend)
		c.outcomes, c.countAt = c.outcomes+want, strictyaml.At(n)
		add(n, name, strconv.FormatUint(want, 10), func(o *outcome) string { return strconv.Itoa(got(o)) })
	}
	status := func(n *yaml.Node, name string, i int, field string) {
		want, got := d.statusField(field, n)
		add(n, name, want, func(o *outcome) string { return got(&o.last.Statuses[i]) })
	}
	found := d.Found()
	rows := []row{
		{"admitted", func(n *yaml.Node) { count(n, "admitted", func(o *outcome) int { return o.admitted }) }},
		{"denied", func(n *yaml.Node) { count(n, "denied", func(o *outcome) int { return o.denied }) }},
		{"statuses", func(n *yaml.Node) {
			c.statusesAt = strictyaml.At(n)
			d.Items(n, func(n *yaml.Node) {
				i := c.statuses
				c.statuses++
				if strictyaml.IsNull(n) {
					return
				}
				var rows []row
				for _, field := range statusFields {
					rows = append(rows, row{field, func(n *yaml.Node) { status(n, fmt.Sprintf("statuses[%d].%s", i, field), i, field) }})
				}
				found := d.Found()
				if there := d.fields(n, rows...); len(there.Fields) == 0 && d.Found() == found {
					d.Problem(strictyaml.At(n), "nothing is expected; use one of %s; write null to expect nothing", strings.Join(statusFields, ", "))
				}
			})
		}},
		{"code", func(n *yaml.Node) { add(n, "code", d.code(n), func(o *outcome) string { return code(o.last.Denied) }) }},
	}
	for _, field := range statusFields[1:] {
		rows = append(rows, row{field, func(n *yaml.Node) {
			c.statusAt = strictyaml.At(n)
			status(n, field, 0, field)
		}})
	}
	d.fields(n, rows...)
	// An empty list of statuses is something: its length is wrong.
	if len(c.checks) == 0 && (c.statuses > 0 || c.statusesAt == strictyaml.Position{}) && d.Found() == found {
		d.Problem(strictyaml.At(n), "nothing is expected; use one of admitted, denied, statuses, %s", strings.Join(statusFields, ", "))
	}
	return c
}

// statusField decodes what is expected of a status, and returns how to show what was got.
func (d *decoder) statusField(name string, n *yaml.Node) (want string, got func(*plan.Status) string) {
	switch name {
	case "code":
		return d.code(n), func(s *plan.Status) string { return code(s.OverLimit) }
	case "remaining":
		want = strconv.FormatUint(d.Whole(n, 0, limiter.MaxAmount), 10)
		return want, func(s *plan.Status) string { return strconv.FormatUint(s.Remaining, 10) }
	case "reset":
		return d.duration(n, time.Second, maxWait).String(), reset
	case "retry_after":
		if n.Value == never {
			return never, retryAfter
		}
		return d.duration(n, time.Second, maxWait).String(), retryAfter
	default:
		return d.limit(n), limit
	}
}

// fits checks an expectation of a request that has so many descriptors.
func (d *decoder) fits(c *expectation, descriptors int) {
	d.Enter(strictyaml.Step{Field: "expect"})
	defer d.Leave()
	nowhere := strictyaml.Position{}
	if c.statusAt != nowhere && descriptors != 1 {
		d.Problem(c.statusAt, "the request has %d descriptors, use statuses to expect this of one", descriptors)
	}
	if c.statusesAt != nowhere && c.statuses != descriptors {
		d.ProblemIn("statuses", c.statusesAt, "%d statuses, but the request has %d descriptors; null expects nothing", c.statuses, descriptors)
	}
}

const (
	codeOK        = "OK"
	codeOverLimit = "OVER_LIMIT"
	never         = "never"
	none          = "none"
)

func (d *decoder) code(n *yaml.Node) string {
	text, ok := d.Text(n)
	if ok && text != codeOK && text != codeOverLimit {
		d.Problem(strictyaml.At(n), "unknown code %q; use %s or %s", text, codeOK, codeOverLimit)
	}
	return text
}

// limit decodes the name of a limit. It is quoted, so that none is taken for none.
func (d *decoder) limit(n *yaml.Node) string {
	if strictyaml.IsNull(n) {
		return none
	}
	text, ok := d.Text(n)
	if ok && text == "" {
		d.Problem(strictyaml.At(n), "a name is required, or null if no limit is counted")
	}
	return strconv.Quote(text)
}
