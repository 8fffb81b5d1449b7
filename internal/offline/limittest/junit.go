package limittest

import (
	_ "embed"
	"encoding/xml"
	"io"
	"strings"
	"text/template"
)

//go:embed junit.xml
var junitText string

var junit = template.Must(template.New("junit").Funcs(template.FuncMap{
	"xml": func(s string) (string, error) {
		var b strings.Builder
		err := xml.EscapeText(&b, []byte(s))
		return b.String(), err
	},
	"first": func(lines string) string {
		first, _, _ := strings.Cut(lines, "\n")
		return first
	},
	"join": strings.Join,
	"cases": func(r Report) int {
		if r.Err != nil {
			return len(r.Results) + 1
		}
		return len(r.Results)
	},
}).Parse(junitText))

// WriteJUnit writes the reports in the XML format of JUnit, which most build servers
// read. It writes a suite for each file and a case for each test. The error of a Report
// is a case, too.
func WriteJUnit(w io.Writer, reports []Report) error { return junit.Execute(w, reports) }
