package client

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"weir/internal/descriptors/plaintext"
	"weir/internal/operators"
)

// view is from where answers are seen.
type view struct {
	operators.Times
	flags string // that suggested commands need
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

// in words how long to wait, nil for ever.
func in(s *float64) string {
	switch {
	case s == nil:
		return "never"
	case *s <= 0:
		return "now"
	default:
		return "in " + operators.Span(operators.Seconds(*s))
	}
}

// count words a number that may be too large by err.
func count(n, err uint64) string {
	if err == 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d to %d", n-min(err, n), n)
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
