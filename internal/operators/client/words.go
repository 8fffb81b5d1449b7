package client

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"text/template"
	"time"

	"weir/internal/operators"
	"weir/internal/operators/api"
	"weir/internal/plan/explain"
)

// Answer is what a server has answered.
type Answer struct {
	operators.Times        // as they are seen here
	Note            string // that a person should read, "" for none
	NoRule          bool   // no rule matches the descriptor
	Value           any
	Window          *operators.Window // of Value, that is to be shown
	Reset           bool              // Value is what a reset has left

	Server, Flags string // that was asked; that suggested commands need

	// Of the descriptors that a text shows: what some lack to be pasted, and the first that
	// can be, as arguments of a command.
	Lacking map[string]bool
	First   string

	text string // its template
}

// MarshalJSON implements json.Marshaler.
func (a *Answer) MarshalJSON() ([]byte, error) { return json.Marshal(a.Value) }

//go:embed answers.txt
var answersText string

var answers = template.Must(template.New("").Funcs(api.Words).Funcs(template.FuncMap{
	"count":  count,
	"domain": func(domain string) string { return explain.Quote(explain.FormatDomain(domain)) },
	"limit":  limit,
	"notes":  notes,
	"quote":  func(s string) string { return explain.Quote(api.Short(s, 500)) },
	"short":  api.Short,
	"wait":   wait,
	"whole":  whole,
}).Parse(answersText))

// WriteText writes the answer for people.
func (a *Answer) WriteText(w io.Writer) error {
	var aligned bytes.Buffer
	columns := tabwriter.NewWriter(&aligned, 0, 0, 2, ' ', 0)
	if err := answers.ExecuteTemplate(columns, a.text, a); err != nil {
		return err
	}
	_ = columns.Flush() // into memory
	for line := range strings.Lines(aligned.String()) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
	return nil
}

// Left words the time from one time to another.
func (a *Answer) Left(from, to time.Time) string { return operators.Span(to.Sub(from)) }

// Key returns what is kept of a descriptor as an argument of commands, or to be read with a
// mark that says why it is none.
func (a *Answer) Key(domain string, d operators.Excerpt) string {
	shown, lacks := d.Spell()
	if lacks == "" {
		shown = explain.Quote(shown)
		a.First = cmp.Or(a.First, explain.Quote(explain.FormatDomain(domain))+" "+shown)
		return shown
	}
	if a.Lacking == nil {
		a.Lacking = map[string]bool{}
	}
	a.Lacking[lacks] = true
	if lacks == "cut" {
		shown += "…"
		if d.Digest != "" { // which tells apart excerpts that begin alike
			shown += " #" + api.Short(d.Digest, 500)
		}
	}
	return strings.TrimSpace(shown + " (" + lacks + ")")
}

// arguments are a domain and a descriptor as a command takes them.
type arguments struct{ Domain, Text string }

func whole(d operators.Descriptor) arguments {
	domain, entries, _ := d.Bytes() // none, if the server sends what is no base64
	return arguments{explain.Quote(explain.FormatDomain(domain)), explain.Quote(explain.FormatDescriptor(entries))}
}

// wait words how many seconds to wait, nil for ever.
func wait(before string, s *float64) string {
	switch {
	case s == nil:
		return "never"
	case *s <= 0:
		return "now"
	default:
		return before + operators.Span(operators.Seconds(*s))
	}
}

// count words a number that may be too large by err.
func count(n, err uint64) string {
	if err == 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d to %d", n-min(err, n), n)
}

// limit words a limit: its name says little if it is how it counts.
func limit(name, rate string) string {
	switch {
	case rate == "":
		return name
	case name == "" || strings.HasSuffix(rate, " "+name):
		return rate
	}
	return name + ", " + rate
}

// notes says what is special about a limit of a descriptor whose rule is given.
func notes(l operators.Counter, rule string) string {
	var notes []string
	if l.Unlimited && l.Limit != "unlimited" {
		notes = append(notes, "unlimited")
	}
	if l.Replaced {
		notes = append(notes, "replaced by another limit")
	}
	if l.BannedFor > 0 {
		notes = append(notes, "banned for "+operators.Span(operators.Seconds(l.BannedFor)))
	}
	if l.Mode != "" && l.Mode != "enforced" {
		notes = append(notes, api.Short(l.Mode, 500))
	}
	if l.Rule != rule {
		notes = append(notes, "from "+api.Short(cmp.Or(l.Location, l.Rule), 500))
	}
	return strings.Join(notes, ", ")
}
