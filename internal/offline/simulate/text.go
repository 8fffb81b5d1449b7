package simulate

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

const timeLayout = "2006-01-02 15:04:05"

// WriteText writes the report for people to read.
func (r *Report) WriteText(w io.Writer) error {
	b := bufio.NewWriter(w)
	for _, warning := range r.Warnings {
		fmt.Fprintf(b, "warning: %s\n", warning)
	}
	for _, line := range r.Summary() {
		fmt.Fprintln(b, line)
	}
	for _, wrong := range r.WrongLines {
		fmt.Fprintf(b, "  %s\n", wrong)
	}
	limits := [][]string{{"\nRULE", "LIMIT", "REQUESTS", "DENIED", "CLIENTS", "CLIENTS DENIED", "WORST MINUTE (UTC)"}}
	amounts := [][]string{{"\namounts at which clients would be denied at least once\nRULE", "LIMIT"}}
	for _, s := range shares {
		amounts[0] = append(amounts[0], shareTitle(s))
	}
	for i := range r.Limits {
		l := &r.Limits[i]
		limits = append(limits, []string{l.Rule, l.Title(), number(l.Requests), number(l.Denied), number(l.Clients), l.Once(), l.Worst()})
		if len(l.Amounts) > 0 {
			row := []string{l.Rule, l.Title()}
			for _, a := range l.Amounts {
				row = append(row, a.String())
			}
			amounts = append(amounts, row)
		}
	}
	writeRows(b, limits)
	for i := range r.Limits {
		if l := &r.Limits[i]; len(l.WorstClients) > 0 {
			fmt.Fprintf(b, "\nworst clients of %s, %s\n", l.Rule, l.Title())
			writeClients(b, l.WorstClients)
		}
	}
	if len(amounts) > 1 {
		writeRows(b, amounts)
	}
	if c := r.Compared; c != nil {
		fmt.Fprintf(b, "\nthe old rules deny %s requests\n", number(c.DeniedBefore))
		for _, p := range c.Parts() {
			fmt.Fprintf(b, "%s: %s\n", p.Title, p.Sentence)
			writeClients(b, p.WorstClients)
		}
	}
	for i, n := range r.Notes {
		if i == 0 {
			fmt.Fprintln(b)
		}
		fmt.Fprintf(b, "note: %s\n", n)
	}
	return b.Flush()
}

// writeRows writes rows in columns.
func writeRows(w io.Writer, rows [][]string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	_ = t.Flush() // w keeps its error
}

func writeClients(w io.Writer, clients []Client) {
	var rows [][]string
	for _, c := range clients {
		rows = append(rows, []string{"  " + c.Client, c.Count()})
	}
	writeRows(w, rows)
}

// Summary returns some sentences about all that was read.
func (r *Report) Summary() []string {
	s := []string{fmt.Sprintf("%s lines, of which %s cannot be read and %s ask for no limit", number(r.Lines), number(r.Unreadable), number(r.Idle))}
	if r.Requests > 0 {
		s = append(s, fmt.Sprintf("%s requests from %s to %s UTC, of which %s (%s) would be denied",
			number(r.Requests), r.First.Format(timeLayout), r.Last.Format(timeLayout), number(r.Denied), percent(float64(r.Denied)/float64(r.Requests))))
	}
	if r.Refused > 0 {
		s = append(s, fmt.Sprintf("%s requests that a server would not decide, the first at %s", number(r.Refused), r.Refusal))
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

func shareTitle(share float64) string {
	if share == 0 {
		return "NONE"
	}
	return percent(share)
}

// String returns the amount.
func (a Amount) String() string {
	if a.Burst > 0 {
		return fmt.Sprintf("%s (burst %s)", number(a.Amount), number(a.Burst))
	}
	return number(a.Amount)
}

// Part is a difference in words.
type Part struct {
	Title, Sentence string
	WorstClients    []Client
}

// Parts returns both differences.
func (c *Comparison) Parts() []Part {
	return []Part{
		{"denied now, and not by the old rules", c.NowOnly.sentence("were never denied before"), c.NowOnly.WorstClients},
		{"denied by the old rules, and not now", c.BeforeOnly.sentence("are never denied now"), c.BeforeOnly.WorstClients},
	}
}

// sentence returns how much it is. only says what the clients are of whom the other rules deny no request.
func (d *Difference) sentence(only string) string {
	if d.Requests == 0 {
		return "0 requests"
	}
	return fmt.Sprintf("%s requests of %s clients, of whom %s %s", number(d.Requests), number(d.Clients), number(d.ClientsOnly), only)
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

// Line shows progress in one line.
func (p Progress) Line() string {
	line := fmt.Sprintf("%s lines", number(p.Lines))
	if p.Size > 0 {
		const width = 30
		done := int(min(p.Read*width/p.Size, width))
		line = fmt.Sprintf("[%-*s] %3d %%  %s", width, strings.Repeat("=", done), min(p.Read*100/p.Size, 100), line)
	}
	if p.Read > 0 && p.Size > p.Read {
		left := time.Duration(float64(p.Elapsed) * float64(p.Size-p.Read) / float64(p.Read))
		line += fmt.Sprintf("  %v left", left.Round(time.Second))
	}
	return line
}
