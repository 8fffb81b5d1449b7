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

// Reset says when nothing of the hits counts any more: within the time that it takes from the start
// of a window, if they may come later in it.
func (l Limit) Reset() string {
	after := time.Duration(l.Decision.ResetAfter * float64(time.Second))
	switch {
	case l.Hold != "":
		return fmt.Sprintf("available again when released, or after %v", after)
	case l.TimeZone != "":
		return fmt.Sprintf("the window ends with the %s of the calendar", l.Period)
	default:
		return fmt.Sprintf("fully available again within %v", after)
	}
}
