package simulate

import (
	_ "embed"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"text/template"
	"time"
)

//go:embed report.txt
var reportText string

// functions are those of the templates.
var functions = map[string]any{
	"number": number[uint64], "share": percent, "shares": func() []float64 { return shares },
	"time": func(t time.Time) string { return t.Format(timeLayout) },
}

var textPage = template.Must(template.New("report").Funcs(functions).Parse(reportText))

// WriteText writes the report for people to read.
func (r *Report) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if err := textPage.Execute(t, r); err != nil {
		return err
	}
	return t.Flush()
}

const timeLayout = "2006-01-02 15:04:05"

// Summary returns some sentences about all that was read.
func (r *Report) Summary() []string {
	s := []string{fmt.Sprintf("%s lines: %s unreadable, %s that match no limit", number(r.Lines), number(r.Unreadable), number(r.Idle))}
	if r.Requests > 0 {
		s = append(s, fmt.Sprintf("%s requests from %s to %s UTC, of which %s (%s) would be denied",
			number(r.Requests), r.First.Format(timeLayout), r.Last.Format(timeLayout), number(r.Denied), percent(float64(r.Denied)/float64(r.Requests))))
	}
	if r.Refused > 0 {
		s = append(s, fmt.Sprintf("%s requests that a server would reject, the first at %s", number(r.Refused), r.Refusal))
	}
	return s
}

// Title returns the limit in words.
func (l *LimitReport) Title() string {
	title := l.Limit
	if l.Name != "" {
		title = l.Name + ": " + title
	}
	if l.Shadow {
		title += " (shadow)"
	}
	return title
}

// Once returns how many clients were denied at least once.
func (l *LimitReport) Once() string {
	return fmt.Sprintf("%s (%s)", number(l.ClientsDenied), percent(l.Share))
}

// Worst returns the worst minute in words.
func (l *LimitReport) Worst() string {
	m := l.WorstMinute
	if m == nil {
		return "-"
	}
	return fmt.Sprintf("%s: %s of %s denied", m.At.Format("2006-01-02 15:04"), number(m.Denied), number(m.Requests))
}

// Count returns how often a client was denied.
func (c Client) Count() string {
	if c.Uncertain > 0 {
		return fmt.Sprintf("%s to %s denied", number(c.Denied-c.Uncertain), number(c.Denied))
	}
	return number(c.Denied) + " denied"
}

// String returns the amount.
func (a Amount) String() string {
	if a.Burst > 0 {
		return fmt.Sprintf("%s (burst %s)", number(a.Amount), number(a.Burst))
	}
	return number(a.Amount)
}

// Parts returns both differences.
func (c *Comparison) Parts() []Difference { return []Difference{c.NowOnly, c.BeforeOnly} }

// String returns the difference in words.
func (d Difference) String() string {
	if d.Requests == 0 {
		return "0 requests"
	}
	return fmt.Sprintf("%s requests of %s clients, of whom the %s rules never deny %s", number(d.Requests), number(d.Clients), d.Others, number(d.ClientsOnly))
}

// number writes a number with commas.
func number[T int64 | uint64](n T) string {
	s := strconv.FormatUint(uint64(n), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// percent writes a share to a tenth of a percent, or below 1 % with two significant digits.
func percent(share float64) string {
	p := share * 100
	digits := 1
	for limit := 1.0; p > 0 && p < limit && digits < 6; limit /= 10 {
		digits++
	}
	s := strconv.FormatFloat(p, 'f', digits, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".") + " %"
}
