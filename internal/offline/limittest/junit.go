package limittest

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

// Report is what became of one file: the results of its tests, and why these
// are not all.
type Report struct {
	File    string
	Err     error // why tests were not run; nil if all were
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
		XMLName xml.Name `xml:"testsuites"`
		junitTotals
		Suites []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name string `xml:"name,attr"`
		junitTotals
		Cases []junitCase `xml:"testcase"`
	}
	junitTotals struct {
		Tests    int     `xml:"tests,attr"`
		Failures int     `xml:"failures,attr"`
		Errors   int     `xml:"errors,attr"`
		Time     seconds `xml:"time,attr"`
	}
	junitCase struct {
		Name    string     `xml:"name,attr"`
		Class   string     `xml:"classname,attr"`
		File    string     `xml:"file,attr"`
		Line    int        `xml:"line,attr,omitempty"`
		Time    seconds    `xml:"time,attr"`
		Failure *junitText `xml:"failure"`
		Error   *junitText `xml:"error"`
	}
	junitText struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// seconds is a time as JUnit writes it.
type seconds time.Duration

// MarshalText writes seconds with three decimals.
func (s seconds) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%.3f", time.Duration(s).Seconds()), nil
}

// WriteJUnit writes the reports in the XML format of JUnit, which most build
// servers read: a suite for each file and a case for each test.
func WriteJUnit(w io.Writer, reports []Report) error {
	var all junitSuites
	for i := range reports {
		s := reports[i].suite()
		all.add(s.junitTotals)
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

// suite is the report's file. What is wrong with it as a whole is a case.
func (r *Report) suite() junitSuite {
	s := junitSuite{Name: r.File}
	if r.Err != nil {
		s.add(junitTotals{Tests: 1, Errors: 1})
		s.Cases = []junitCase{{Name: "file", Class: r.File, File: r.File, Error: newText(r.Err.Error())}}
	}
	for _, result := range r.Results {
		s.add(junitTotals{Tests: 1, Time: seconds(result.Took)})
		c := junitCase{Name: result.Test, Class: r.File, File: r.File, Line: result.Line, Time: seconds(result.Took)}
		if len(result.Failures) > 0 {
			s.Failures++
			var lines []string
			for _, f := range result.Failures {
				lines = append(lines, f.String())
			}
			c.Failure = newText(strings.Join(lines, "\n"))
		}
		s.Cases = append(s.Cases, c)
	}
	return s
}

func (t *junitTotals) add(u junitTotals) {
	t.Tests += u.Tests
	t.Failures += u.Failures
	t.Errors += u.Errors
	t.Time += u.Time
}

// newText summarizes a text by its first line.
func newText(text string) *junitText {
	first, _, _ := strings.Cut(text, "\n")
	return &junitText{Message: first, Text: text}
}
