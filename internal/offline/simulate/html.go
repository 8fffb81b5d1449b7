package simulate

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"
)

//go:embed report.html
var reportHTML string

var page = template.Must(template.New("report").Funcs(functions).Parse(reportHTML))

// WriteHTML writes the report as one file, which needs no network and no script.
func (r *Report) WriteHTML(w io.Writer) error { return page.Execute(w, r) }

// Drawing is a limit by time, as paths of SVG.
type Drawing struct {
	Requests, Denied, Most, Span, Begin, End string
}

// Size of a drawing, without the line of times below.
const (
	drawingWidth  = 800
	drawingHeight = 160
	drawingTop    = 18
)

// Drawing returns nil if there is nothing to draw.
func (l *LimitReport) Drawing() *Drawing {
	s := l.Series
	if s == nil || len(s.Counts) == 0 {
		return nil
	}
	most := uint64(1)
	for _, c := range s.Counts {
		most = max(most, c.Requests)
	}
	width := time.Duration(s.Width) * time.Second
	return &Drawing{
		Requests: s.path(most, func(c count) uint64 { return c.Requests }),
		Denied:   s.path(most, func(c count) uint64 { return c.Denied }),
		Most:     number(most), Span: strings.TrimSuffix(width.String(), "0s"),
		Begin: s.Begin.Format(timeLayout), End: s.Begin.Add(width * time.Duration(len(s.Counts))).Format(timeLayout),
	}
}

// path draws a bar for each span.
func (s *SeriesReport) path(most uint64, of func(count) uint64) string {
	var b strings.Builder
	bar := float64(drawingWidth) / float64(len(s.Counts))
	for i, c := range s.Counts {
		if n := of(c); n > 0 {
			height := float64(drawingHeight-drawingTop) * float64(n) / float64(most)
			fmt.Fprintf(&b, "M%.1f %dv-%.1fh%.2fv%.1fz", float64(i)*bar, drawingHeight, height, max(bar, 0.5), height)
		}
	}
	return b.String()
}
