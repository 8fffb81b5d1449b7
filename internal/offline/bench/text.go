package bench

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

//go:embed result.txt
var resultText string

var page = template.Must(template.New("result").Funcs(template.FuncMap{"join": strings.Join, "share": share}).Parse(resultText))

// WriteText writes the result as a table.
func (r *Result) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	return cmp.Or(page.Execute(t, r), t.Flush())
}

func share(n, of int64) string {
	if of == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))
}

// String returns the usual percentiles.
func (l Latencies) String() string {
	us := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	return fmt.Sprintf("p50 %v  p90 %v  p99 %v  p99.9 %v  max %v  mean %v", us(l.P50), us(l.P90), us(l.P99), us(l.P999), us(l.Max), us(int64(l.Mean)))
}
