package simulate

import (
	_ "embed"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"
)

//go:embed report.html
var reportHTML string

var page = template.Must(template.New("report").Funcs(functions).Parse(reportHTML))

// WriteHTML writes the report as one file, which needs no network and no script.
func (r *Report) WriteHTML(w io.Writer) error { return page.Execute(w, r) }

// Most returns the most requests of a span.
func (s *SeriesReport) Most() uint64 { return slices.Max(s.Requests) }

// Span returns the time of a span.
func (s *SeriesReport) Span() string {
	return strings.TrimSuffix((time.Duration(s.Width) * time.Second).String(), "0s")
}

// End returns when the last span ends.
func (s *SeriesReport) End() time.Time {
	return s.Begin.Add(time.Duration(int(s.Width)*len(s.Requests)) * time.Second)
}
