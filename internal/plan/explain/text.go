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

// maxCandidates is the maximum number of candidates in the text of an answer.
const maxCandidates = 20

//go:embed explain.txt
var answerText string

var answer = template.Must(template.New("answer").Funcs(template.FuncMap{
	"list":    list,
	"join":    func(names []string) string { return strings.Join(names, ", ") },
	"number":  func(i int) int { return i + 1 },
	"seconds": func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) },
}).Parse(answerText))

// WriteText writes the answer for people to read.
func (a *Answer) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	return cmp.Or(answer.Execute(t, a), t.Flush())
}

func list(candidates []string) string {
	more := len(candidates) - maxCandidates
	if more <= 0 {
		return strings.Join(candidates, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(candidates[:maxCandidates], ", "), more)
}
