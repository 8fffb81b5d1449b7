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

// maxCandidates is the maximum number of candidates in the text of an answer.
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

// texts explains words of an Answer: the matches of a Level, with placeholders for its
// node and network, then the values of charge, then the failure modes.
var texts = map[string]string{
	"none":     "matches nothing",
	"value":    "matches NODE exactly",
	"list":     "is in the list NODE",
	"network":  "is in NETWORK of the networks NODE",
	"wildcard": "matches the wildcard NODE",
	"regex":    "matches the regular expression NODE",
	"key":      "matches NODE with any value",
	"hold":     "names the hold",
	"long":     "is too long to compare it with all patterns, and so is denied",

	"admitted": "admitted, so denied hits are not counted",
	"always":   "always, so denied hits are counted too",
	"auto":     "auto: a denied hit counts only if its descriptor sets hits_addend above 0",

	"allow": "allow, so without Redis it admits, uncounted",
	"deny":  "deny, so without Redis it denies",
	"local": "local, so without Redis each server counts alone",
	"error": "error, so without Redis the answer is UNAVAILABLE",
}

// Text describes how the entry matches the node.
func (l Level) Text() string {
	return strings.NewReplacer("NODE", l.Node, "NETWORK", l.Network).Replace(texts[l.Match])
}

// Reset describes when the hit no longer counts. It gives the longest possible time, because
// real hits may come later in a window.
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
