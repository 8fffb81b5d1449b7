package limittest

import (
	"fmt"
	"strconv"
	"time"

	"gopkg.in/yaml.v3"

	"weir/internal/descriptors/strictyaml"
	"weir/internal/limiter"
	"weir/internal/plan"
)

// check is one expectation. It compares the expected and the actual value as the
// texts that a failure shows.
type check struct {
	at     strictyaml.Position
	what   string // such as statuses[1].remaining
	field  string
	status int // index of the status that has the field, in the last answer of the step
	want   string
}

const (
	codeOK        = "OK"
	codeOverLimit = "OVER_LIMIT"
	never         = "never"
	none          = "none"
)

// statusFields are the fields of a status that a test may check.
var statusFields = []string{"code", "remaining", "reset", "retry_after", "limit"}

// bucketField is the field for the rule that an RLQS bucket ID with the descriptor's entries matches.
const bucketField = "quota_service"

func (d *decoder) expect(n *yaml.Node, s *step) {
	count := func(field string) row {
		return row{field, func(n *yaml.Node) {
			want := d.Whole(n, 0, maxSend)
			s.outcomes += int(want)
			s.checks = append(s.checks, check{strictyaml.At(n), field, field, 0, strconv.FormatUint(want, 10)})
		}}
	}
	fields := func(before string, status int) (rows []row) {
		for _, field := range statusFields {
			rows = append(rows, row{field, func(n *yaml.Node) {
				s.checks = append(s.checks, check{strictyaml.At(n), before + field, field, status, d.want(field, n)})
			}})
		}
		return rows
	}
	statuses := row{"statuses", func(n *yaml.Node) {
		s.statusesAt = strictyaml.At(n)
		d.Items(n, func(n *yaml.Node) {
			if !strictyaml.IsNull(n) {
				d.fields(n, fields(fmt.Sprintf("statuses[%d].", s.statuses), s.statuses)...)
			}
			s.statuses++
		})
	}}
	bucket := row{bucketField, func(n *yaml.Node) {
		want, _ := d.Text(n)
		s.checks = append(s.checks, check{strictyaml.At(n), bucketField, bucketField, 0, want})
	}}
	d.fields(n, append([]row{count("admitted"), count("denied"), statuses, bucket}, fields("", 0)...)...)
}

// want decodes the expected value of a status field.
func (d *decoder) want(field string, n *yaml.Node) string {
	switch {
	case field == "code":
		d.Word(n, []string{codeOK, codeOverLimit})
		return n.Value
	case field == "remaining":
		return strconv.FormatUint(d.Whole(n, 0, limiter.MaxAmount), 10)
	case field == "limit" && strictyaml.IsNull(n):
		return none
	case field == "limit":
		text, _ := d.Text(n)
		return strconv.Quote(text) // quoted, because a limit's name may be "none"
	case field == "retry_after" && n.Value == never:
		return never
	default:
		return d.duration(n, time.Second, maxWait).String()
	}
}

// got returns the actual value of the checked field.
func (c *check) got(o *outcome) string {
	switch c.field {
	case "admitted":
		return strconv.Itoa(o.admitted)
	case "denied":
		return strconv.Itoa(o.denied)
	case bucketField:
		return o.bucket
	}
	switch s := &o.last.Statuses[c.status]; c.field {
	case "code":
		return code(s.OverLimit && c.what != "code" || o.last.Denied && c.what == "code")
	case "remaining":
		return strconv.FormatUint(s.Remaining, 10)
	case "reset":
		return reset(s)
	case "retry_after":
		return retryAfter(s)
	default:
		if s.Limit == nil {
			return none
		}
		return strconv.Quote(s.Limit.Name)
	}
}

func code(over bool) string {
	if over {
		return codeOverLimit
	}
	return codeOK
}

// reset returns the time until the limit of an admitted descriptor is fully available again,
// or none if the descriptor is denied or has no limit.
func reset(s *plan.Status) string {
	if s.OverLimit || s.Limit == nil {
		return none
	}
	return s.UntilReset.String()
}

// retryAfter returns the time after which a denied descriptor would be admitted, or never if
// there is no such time. It returns none if the descriptor is admitted.
func retryAfter(s *plan.Status) string {
	switch {
	case !s.OverLimit:
		return none
	case s.UntilReset == 0:
		return never
	default:
		return s.UntilReset.String()
	}
}
