package simulate

import (
	"cmp"
	_ "embed"
	"fmt"
	html "html/template"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"text/template"
	"time"

	"weir/internal/descriptors/plaintext"
)

// The text report and the HTML report both use the phrases in words.
var (
	//go:embed words.tmpl
	words string
	//go:embed report.txt
	reportText string
	//go:embed report.html
	reportHTML string

	functions = map[string]any{
		"number": plaintext.Number, "share": percent, "last": func(p []Point) Point { return p[len(p)-1] },
		"most": slices.Max[[]uint64], "time": func(t time.Time) string { return t.Format(time.DateTime) },
		"ratio": func(part, all uint64) float64 { return float64(part) / float64(all) },
		"least": func(c Client) uint64 { return c.Denied - c.Uncertain }, // denials that are certainly the client's
		"parts": func(c *Comparison) []Difference { return []Difference{c.NowOnly, c.BeforeOnly} },
	}
	text = template.Must(template.Must(template.New("words").Funcs(functions).Parse(words)).New("report").Parse(reportText))
	page = html.Must(html.Must(html.New("words").Funcs(functions).Parse(words)).New("report").Parse(reportHTML))
)

// WriteText writes the report as text.
func (r *Report) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	return cmp.Or(text.Execute(t, r), t.Flush())
}

// WriteHTML writes the report as one HTML file, which needs no network and no script.
func (r *Report) WriteHTML(w io.Writer) error { return page.Execute(w, r) }

// Span returns the length of a span as text.
func (s *SeriesReport) Span() string {
	return strings.TrimSuffix((time.Duration(s.Width) * time.Second).String(), "0s")
}

// End returns the end of the last span.
func (s *SeriesReport) End() time.Time {
	return s.Begin.Add(time.Duration(int(s.Width)*len(s.Requests)) * time.Second)
}

// percent formats a share with one decimal, or with two significant digits below 1 %.
func percent(share float64) string {
	format := "%.1f"
	if share < 0.01 {
		format = "%.2g"
	}
	rounded, _ := strconv.ParseFloat(fmt.Sprintf(format, 100*share), 64)
	return strconv.FormatFloat(rounded, 'f', -1, 64) + " %"
}
