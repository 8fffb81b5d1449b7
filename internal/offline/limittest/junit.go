package limittest

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

type junitSuite struct {
	XMLName  xml.Name
	Name     string       `xml:"name,attr,omitempty"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Time     seconds      `xml:"time,attr"`
	Suites   []junitSuite `xml:"testsuite"`
	Cases    []junitCase  `xml:"testcase"`
}

type junitCase struct {
	Name    string     `xml:"name,attr"`
	Class   string     `xml:"classname,attr"`
	File    string     `xml:"file,attr"`
	Line    int        `xml:"line,attr,omitempty"`
	Time    seconds    `xml:"time,attr"`
	Failure *junitText `xml:"failure"`
	Error   *junitText `xml:"error"`
}

type junitText struct {
	Message string `xml:"message,attr"` // the first line
	Text    string `xml:",chardata"`
}

// seconds is a time as JUnit writes it.
type seconds time.Duration

// MarshalText writes seconds with three decimals.
func (s seconds) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%.3f", time.Duration(s).Seconds()), nil
}

// WriteJUnit writes the reports in the XML format of JUnit, which most build
// servers read: a suite for each file and a case for each test. What is wrong with a
// file as a whole is a case, too.
func WriteJUnit(w io.Writer, reports []Report) error {
	all := junitSuite{XMLName: xml.Name{Local: "testsuites"}}
	for _, r := range reports {
		s := junitSuite{XMLName: xml.Name{Local: "testsuite"}, Name: r.File, Failures: r.Failed()}
		if r.Err != nil {
			s.Errors = 1
			s.Cases = []junitCase{{Name: "file", Class: r.File, File: r.File, Error: newText(r.Err.Error())}}
		}
		for _, result := range r.Results {
			c := junitCase{Name: result.Test, Class: r.File, File: r.File, Line: result.Line, Time: seconds(result.Took)}
			if len(result.Failures) > 0 {
				c.Failure = newText(strings.Join(result.Failures, "\n"))
			}
			s.Time += c.Time
			s.Cases = append(s.Cases, c)
		}
		s.Tests = len(s.Cases)
		all.Tests, all.Failures, all.Errors, all.Time = all.Tests+s.Tests, all.Failures+s.Failures, all.Errors+s.Errors, all.Time+s.Time
		all.Suites = append(all.Suites, s)
	}
	text, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, text)
	return err
}

func newText(text string) *junitText {
	first, _, _ := strings.Cut(text, "\n")
	return &junitText{first, text}
}
