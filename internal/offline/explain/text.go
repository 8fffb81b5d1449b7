package explain

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"text/template"
	"time"
)

// maxCandidates are shown to people of what might have been meant.
const maxCandidates = 20

//go:embed explain.txt
var answerText string

var answer = template.Must(template.New("answer").Funcs(template.FuncMap{"list": list}).Parse(answerText))

// WriteText writes the answer for people to read.
func (a *Answer) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if err := answer.Execute(t, a); err != nil {
		return err
	}
	return t.Flush()
}

func list(candidates []string) string {
	more := len(candidates) - maxCandidates
	if more <= 0 {
		return strings.Join(candidates, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(candidates[:maxCandidates], ", "), more)
}

// matchTexts say how an entry leads to a NODE, by Level.Match.
var matchTexts = map[string]string{
	"none":     "matches nothing",
	"value":    "matches NODE exactly",
	"list":     "is in the list NODE",
	"network":  "is in NETWORK of the networks NODE",
	"wildcard": "matches the wildcard NODE",
	"regex":    "matches the regular expression NODE",
	"key":      "matches NODE with any value",
	"hold":     "names the hold",
}

// Text says how the entry leads to the node.
func (l Level) Text() string {
	return strings.NewReplacer("NODE", l.Node, "NETWORK", l.Network).Replace(matchTexts[l.Match])
}

// Title returns the heading of a limit.
func (a *Answer) Title(i int) string {
	l := &a.Limits[i]
	title := fmt.Sprintf("%d of %d", i+1, len(a.Limits))
	if l.Name != "" {
		title += ": " + l.Name
	}
	if l.Above != "" {
		title += fmt.Sprintf(", from %s (%s), which applies below", l.Above, l.Place)
	}
	return title
}

// chargeTexts say what becomes of denied hits.
var chargeTexts = map[string]string{
	"admitted": "admitted, so denied hits are not counted",
	"always":   "always, so denied hits are counted too",
	"auto":     "auto: a denied hit counts only if its descriptor sets hits_addend",
}

// failureTexts say what a failure mode does while the store fails.
var failureTexts = map[string]string{
	"allow": "allow, so without Redis it admits, uncounted",
	"deny":  "deny, so without Redis it denies",
	"local": "local, so without Redis each server counts alone",
	"error": "error, so without Redis the answer is UNAVAILABLE",
}

// Line is a line about a limit.
type Line struct{ Name, Text string }

// Lines returns what there is to say of a limit.
func (a *Answer) Lines(l Limit) (lines []Line) {
	line := func(name, text string) {
		if text != "" {
			lines = append(lines, Line{name, text})
		}
	}
	if l.Unlimited {
		line("amount", "unlimited, admitted and not counted")
	} else {
		mode := l.Mode
		if l.Switch != "" {
			mode += fmt.Sprintf(", decided as %s because %s is on", l.DecidedAs, l.Switch)
		}
		line("amount", l.rate)
		line("algorithm", l.algorithm())
		line("mode", mode)
		line("charge", chargeTexts[l.Charge])
		line("deny_for", l.denyFor())
		line("failure", failureTexts[l.FailureMode])
	}
	line("replaces", strings.Join(l.Replaces, ", "))
	if len(l.ReplacedBy) > 0 {
		line("replaced", fmt.Sprintf("by %s, not counted", strings.Join(l.ReplacedBy, ", ")))
	}
	d := l.Decision
	if d == nil {
		return lines
	}
	line("key", l.Key)
	if l.Slot != nil {
		line("slot", fmt.Sprint(*l.Slot))
	}
	if len(l.shared) > 0 && a.Keyless {
		line("counter", "one counter for everything that falls back to this rule")
	} else if len(l.shared) > 0 {
		line("counter", "shared by all values that match "+strings.Join(l.shared, ", "))
	}
	line("hits", fmt.Sprintf("%d on a fresh counter: %s", a.Hits, d.describe(a.Hits, &l)))
	return lines
}

func (l *Limit) algorithm() string {
	switch {
	case l.TimeZone != "":
		return l.Algorithm + " of " + l.TimeZone
	case l.Hold != "":
		return l.Algorithm + ", hold " + l.Hold
	case l.Burst != nil:
		return fmt.Sprintf("%s, burst %d", l.Algorithm, *l.Burst)
	default:
		return l.Algorithm
	}
}

// denyFor adds to the length of a ban when one begins.
func (l *Limit) denyFor() string {
	switch mode := cmp.Or(l.DecidedAs, l.Mode); {
	case l.DenyFor == "":
		return ""
	case mode != "enforced":
		return l.DenyFor + ", but nobody is banned in " + mode
	default:
		return l.DenyFor + " after a request is denied"
	}
}

func (d *Decision) describe(hits uint64, l *Limit) string {
	switch {
	case !d.Fits && (l.Mode == "shadow_mode" || l.DecidedAs == "shadow_mode"):
		return "never fits, but the mode lets it pass"
	case !d.Fits && d.Charged:
		return "never fits, but is counted, " + d.reset(l)
	case !d.Fits:
		return "never fits"
	case hits == 0:
		return fmt.Sprintf("a peek, %d remaining", d.Remaining)
	case !d.Charged:
		return "fits, but is not counted, because another limit denies the request"
	default:
		return fmt.Sprintf("fits, %d remaining, %s", d.Remaining, d.reset(l))
	}
}

// reset words when nothing of the hits counts any more: within the time that it
// takes from the start of a window, if the hits may come later in it.
func (d *Decision) reset(l *Limit) string {
	after := time.Duration(d.ResetAfter * float64(time.Second))
	switch {
	case l.Hold != "":
		return fmt.Sprintf("available again when released, or after %v", after)
	case l.TimeZone != "":
		return fmt.Sprintf("the window ends with the %s of the calendar", l.Period)
	default:
		return fmt.Sprintf("fully available again within %v", after)
	}
}
