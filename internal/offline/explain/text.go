package explain

import (
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

var answer = template.Must(template.New("answer").Funcs(template.FuncMap{
	"list":   list,
	"join":   func(names []string) string { return strings.Join(names, ", ") },
	"number": func(i int) int { return i + 1 },
	"text":   func(word string) string { return texts[word] },
}).Parse(answerText))

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

// texts say what words mean: how an entry leads to a NODE, what becomes of denied hits, and what a
// failure mode does while the store fails.
var texts = map[string]string{
	"none":     "matches nothing",
	"value":    "matches NODE exactly",
	"list":     "is in the list NODE",
	"network":  "is in NETWORK of the networks NODE",
	"wildcard": "matches the wildcard NODE",
	"regex":    "matches the regular expression NODE",
	"key":      "matches NODE with any value",
	"hold":     "names the hold",

	"admitted": "admitted, so denied hits are not counted",
	"always":   "always, so denied hits are counted too",
	"auto":     "auto: a denied hit counts only if its descriptor sets hits_addend above 0",

	"allow": "allow, so without Redis it admits, uncounted",
	"deny":  "deny, so without Redis it denies",
	"local": "local, so without Redis each server counts alone",
	"error": "error, so without Redis the answer is UNAVAILABLE",
}

// Text says how the entry leads to the node.
func (l Level) Text() string {
	return strings.NewReplacer("NODE", l.Node, "NETWORK", l.Network).Replace(texts[l.Match])
}

// Outcome says what becomes of hits on a fresh counter.
func (l Limit) Outcome(hits uint64) string {
	d := l.Decision
	// When nothing of the hits counts any more: within the time that it takes from the start of a
	// window, if they may come later in it.
	after := time.Duration(d.ResetAfter * float64(time.Second))
	reset := fmt.Sprintf("fully available again within %v", after)
	if l.Hold != "" {
		reset = fmt.Sprintf("available again when released, or after %v", after)
	} else if l.TimeZone != "" {
		reset = fmt.Sprintf("the window ends with the %s of the calendar", l.Period)
	}
	switch {
	case !d.Fits && (l.Mode == "shadow_mode" || l.DecidedAs == "shadow_mode"):
		return "never fits, but the mode lets it pass"
	case !d.Fits && d.Charged:
		return "never fits, but is counted, " + reset
	case !d.Fits:
		return "never fits"
	case hits == 0:
		return fmt.Sprintf("a peek, %d remaining", d.Remaining)
	case !d.Charged:
		return "fits, but is not counted, because another limit denies the request"
	default:
		return fmt.Sprintf("fits, %d remaining, %s", d.Remaining, reset)
	}
}
