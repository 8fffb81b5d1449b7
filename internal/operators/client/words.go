package client

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"text/template"

	"weir/internal/operators"
	"weir/internal/operators/api"
	"weir/internal/plan"
	"weir/internal/plan/explain"
)

// Answer is a server's answer, with the other data that its text shows.
type Answer struct {
	operators.Times        // in the time zone of this machine
	Note            string // for people, or "" if there is none
	Bad             bool   // no rule matches the descriptor, a line was refused, amounts were not pruned, or the server has a red problem
	Value           any
	Window          *operators.Window // window of Value that the text shows
	Terminal        bool              // the text is for a terminal: it has bars and colours, and long values are cut

	Server, Flags string // as in Options

	// Lacking has the reasons why some of the text's descriptors cannot be pasted. First is the
	// first descriptor that can be pasted, as arguments of a command. Key sets both fields.
	Lacking map[string]bool
	First   string

	text string // name of the template of the text
}

// MarshalJSON implements json.Marshaler.
func (a *Answer) MarshalJSON() ([]byte, error) { return json.Marshal(a.Value) }

//go:embed answers.txt
var answersText string

var answers = template.Must(template.New("").Funcs(api.Words).Funcs(template.FuncMap{
	"count":  count,
	"blocks": blocks,
	"domain": func(domain string) string { return explain.Quote(explain.FormatDomain(domain)) },
	"join":   func(names []string) string { return strings.Join(names[:min(len(names), 20)], ", ") },
	"lift":   lift,
	"limit":  limit,
	"quote":  func(s string) string { return explain.Quote(api.Short(s, 500)) },
	"short":  api.Short,
	"spark":  spark,
	"quoted": quoted,
}).Parse(answersText))

// WriteText writes the answer for people.
func (a *Answer) WriteText(w io.Writer) error {
	var aligned bytes.Buffer
	columns, text := tabwriter.NewWriter(&aligned, 0, 0, 2, ' ', 0), answers
	if !a.Terminal {
		text = template.Must(text.Clone()).Funcs(template.FuncMap{"short": func(s string, _ int) string { return api.Short(s, 500) }})
	}
	if err := text.ExecuteTemplate(columns, a.text, a); err != nil {
		return err
	}
	_ = columns.Flush() // cannot fail: it writes to memory
	shown := aligned.String()
	if a.Terminal && os.Getenv("NO_COLOR") == "" {
		shown = header.ReplaceAllString(bar.ReplaceAllString(shown, "\x1b[31m$0\x1b[0m"), "\x1b[1m$0\x1b[0m")
	}
	for line := range strings.Lines(shown) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
	return nil
}

// The parts of a text that are coloured: the names of columns, and bars.
var header, bar = regexp.MustCompile(`(?m)^ *[A-Z]+(?:  +[A-Z ]+)+$`), regexp.MustCompile("[▁-█]+")

// Bar returns a bar whose length is in proportion to n, and 10 if n is most. Without Terminal, it returns "".
func (a *Answer) Bar(n, most uint64) string {
	if !a.Terminal {
		return ""
	}
	return " " + strings.Repeat("█", int(max(10*n/max(most, 1), 1)))
}

// Key returns an excerpt as an argument of commands or, if it cannot be pasted, with the reason in parentheses.
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
		if d.Digest != "" { // distinguishes excerpts with equal beginnings
			shown += " #" + api.Short(d.Digest, 500)
		}
	}
	return strings.TrimSpace(shown + " (" + lacks + ")")
}

// blocks returns a line with a block for each of the last 60 minutes.
func blocks(bars []operators.Bar) string {
	line := []rune(strings.Repeat(" ", 60))
	for _, b := range bars {
		line[b.Place] = []rune("▁▂▃▄▅▆▇█")[int(math.Ceil(8*b.Height))-1]
	}
	return string(line)
}

// lift returns the flag of an exception that lets the denied requests pass, or "" if no limit denies requests.
func lift(limits []operators.Counter) (flag string) {
	isFull := func(l operators.Counter) bool {
		return !l.Unlimited && !l.Replaced && (l.Remaining == 0 || l.BannedFor > 0)
	}
	oneQuotaIsFree := slices.ContainsFunc(limits, func(l operators.Counter) bool { return l.Mode == "quota_mode" && !isFull(l) })
	for _, l := range limits {
		switch {
		case !isFull(l) || l.Mode == "shadow_mode" || l.Mode == "quota_mode" && oneQuotaIsFree && !l.Grouped:
		case l.Used >= 10*l.Amount:
			return "--allow"
		default:
			flag = "--amount 10x"
		}
	}
	return flag
}

// arguments are a domain and a descriptor, quoted for a command line.
type arguments struct{ Domain, Text string }

func quoted(d plan.JSONDescriptor) arguments {
	domain, entries := d.Bytes()
	return arguments{explain.Quote(explain.FormatDomain(domain)), explain.Quote(explain.FormatDescriptor(entries))}
}

// count returns n, or a range of numbers if n may be too large by up to err.
func count(n, err uint64) string {
	if err == 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d to %d", n-min(err, n), n)
}

// spark returns the use of a budget in each of the last hours as blocks.
func spark(b operators.Budget) (text string) {
	for _, used := range b.Day {
		text += string([]rune("▁▂▃▄▅▆▇█")[min(used*7/max(b.Amount, 1), 7)])
	}
	return text
}

// limit formats a name and a rate. It omits a name that only repeats the rate's unit.
func limit(name, rate string) string {
	switch {
	case rate == "":
		return name
	case name == "" || strings.HasSuffix(rate, " "+name):
		return rate
	}
	return name + ", " + rate
}
