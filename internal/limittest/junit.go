package limittest

import (
	"encoding/xml"
	"io"
	"strings"
)

// Report is what became of one file: its problems, or else the results of its
// tests.
type Report struct {
	File    string
	Err     error // why the tests were not run
	Results []Result
}

// Failed is the number of tests that failed.
func (r *Report) Failed() (n int) {
	for _, result := range r.Results {
		if len(result.Failures) > 0 {
			n++
		}
	}
	return n
}

type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name    string     `xml:"name,attr"`
		Class   string     `xml:"classname,attr"`
		File    string     `xml:"file,attr"`
		Line    int        `xml:"line,attr,omitempty"`
		Failure *junitText `xml:"failure"`
		Error   *junitText `xml:"error"`
	}
	junitText struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// WriteJUnit writes the reports in the XML format of JUnit, which most build
// servers read: a suite for each file and a case for each test.
func WriteJUnit(w io.Writer, reports []Report) error {
	var all junitSuites
	for _, r := range reports {
		s := junitSuite{Name: r.File, Tests: len(r.Results), Failures: r.Failed()}
		if r.Err != nil {
			s.Tests, s.Errors = 1, 1
			s.Cases = []junitCase{{Name: "load", Class: r.File, File: r.File, Error: newText(r.Err.Error())}}
		}
		for _, result := range r.Results {
			c := junitCase{Name: result.Test, Class: r.File, File: r.File, Line: result.Line}
			if len(result.Failures) > 0 {
				var lines []string
				for _, f := range result.Failures {
					lines = append(lines, f.String())
				}
				c.Failure = newText(strings.Join(lines, "\n"))
			}
			s.Cases = append(s.Cases, c)
		}
		all.Suites = append(all.Suites, s)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// newText summarizes a text by its first line.
func newText(text string) *junitText {
	first, _, _ := strings.Cut(text, "\n")
	return &junitText{Message: first, Text: text}
}
