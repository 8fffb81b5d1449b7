package client

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"weir/internal/descriptors/plaintext"
)

// view is from where answers are seen.
type view struct {
	now   time.Time // in the zone in which times are shown
	flags string    // that suggested commands need
}

// table writes rows, whose cells have tabs between them, in columns.
func table(w io.Writer, indent, rows string) {
	var aligned bytes.Buffer
	columns := tabwriter.NewWriter(&aligned, 0, 0, 2, ' ', 0)
	_, _ = io.WriteString(columns, rows) // into memory
	_ = columns.Flush()
	for line := range strings.Lines(aligned.String()) {
		fmt.Fprintln(w, strings.TrimRight(indent+line, " \n"))
	}
}

// maxCell is the most columns of text of others in a cell, so that the next are seen.
const maxCell = 40

// cell returns text of others for a column that is not the last.
func cell(s string) string { return short(s, maxCell) }

// maxText is the most columns of text of others elsewhere, which may be long to harm.
const maxText = 500

func text(s string) string { return short(s, maxText) }

// short returns at most n characters of s, to be shown.
func short(s string, n int) string {
	if len(s) > utf8.UTFMax*n {
		s = s[:utf8.UTFMax*n] // enough, and cheap to escape
	}
	s = plaintext.Line(s)
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// clock returns the time of day, with the date unless it is that of today.
func (v view) clock(t time.Time) string {
	t = t.In(v.now.Location())
	if y, m, d := v.now.Date(); t.Year() == y && t.Month() == m && t.Day() == d {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}

// ago returns a time in the past, and how long ago it is.
func (v view) ago(t time.Time) string {
	return fmt.Sprintf("%s %s (%s ago)", v.clock(t), v.zone(), Span(v.now.Sub(t)))
}

// since returns when something began, and how long it lasts.
func (v view) since(t time.Time) string {
	return fmt.Sprintf("since %s %s (%s)", v.clock(t), v.zone(), Span(v.now.Sub(t)))
}

// until returns when something ends, and how long that takes.
func (v view) until(t time.Time) string {
	left := "expired"
	if t.After(v.now) {
		left = Span(t.Sub(v.now)) + " left"
	}
	return fmt.Sprintf("until %s %s (%s)", v.clock(t), v.zone(), left)
}

// zone names the zone of times.
func (v view) zone() string { return v.now.Format("MST") }

// Span words a duration, in two units at most.
func Span(d time.Duration) string {
	d = max(d, 0)
	minutes := int(d.Round(time.Minute).Minutes())
	switch {
	case d > 0 && d < time.Second:
		return fmt.Sprintf("%d ms", max(d.Milliseconds(), 1))
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Round(time.Second).Seconds()))
	case minutes < 120:
		return fmt.Sprintf("%d min", minutes)
	case minutes < 48*60 && minutes%60 == 0:
		return fmt.Sprintf("%d h", minutes/60)
	case minutes < 48*60:
		return fmt.Sprintf("%d h %d min", minutes/60, minutes%60)
	default:
		return fmt.Sprintf("%d days", minutes/60/24)
	}
}

// Seconds is a duration of JSON, which may be any number.
func Seconds(s float64) time.Duration {
	const most = 1 << 33 // below what a Duration holds
	if !(s > 0) {
		return 0
	}
	return time.Duration(min(s, most) * float64(time.Second))
}

// in words how long to wait, nil for ever.
func in(s *float64) string {
	switch {
	case s == nil:
		return "never"
	case *s <= 0:
		return "now"
	default:
		return "in " + Span(Seconds(*s))
	}
}

// count words a number that may be too large by err.
func count(n, err uint64) string {
	if err == 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d to %d", n-min(err, n), n)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// ruled words a rule and where it is written.
func ruled(rule, place string) string {
	if place == "" {
		return text(rule)
	}
	return fmt.Sprintf("%s (%s)", text(rule), text(place))
}

// limited words a limit: its name says little if it is how it counts.
func limited(name, rate string) string {
	switch {
	case rate == "":
		return text(name)
	case name == "" || strings.HasSuffix(rate, " "+name):
		return text(rate)
	}
	return fmt.Sprintf("%s, %s", text(name), text(rate))
}

// suggest writes a command that may be wanted next.
func (v view) suggest(w io.Writer, what, format string, args ...any) {
	fmt.Fprintf(w, "\n%s: weir %s%s\n", what, fmt.Sprintf(format, args...), v.flags)
}
