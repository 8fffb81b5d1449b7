package alerts

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"

	"weir/internal/testenv"
)

// dashboard is the part of weir.json that this test reads.
type dashboard struct {
	Panels      []panel
	Templating  struct{ List []variable }
	Annotations struct{ List []struct{ Name, Expr string } }
}

type panel struct {
	ID          int
	Type, Title string
	GridPos     struct{ X, Y, W, H int }
	Datasource  struct{ UID string }
	FieldConfig struct{ Defaults fieldDefaults }
	Targets     []struct {
		RefID, Expr, LegendFormat string
		Datasource                struct{ UID string }
	}
}

// fieldDefaults is the format of a panel's numbers.
type fieldDefaults struct {
	Unit       string
	Thresholds struct {
		Steps []struct {
			Color string
			Value float64
		}
	}
	Mappings []struct {
		Options map[string]struct{ Text, Color string }
	}
}

type variable struct{ Name, Type, Definition, AllValue string }

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text := testenv.Must(os.ReadFile("../../grafana/weir.json"))(t)
	var d dashboard
	testenv.OK(t, json.Unmarshal(text, &d))
	if len(d.Panels) < 30 || len(d.Templating.List) < 5 {
		t.Fatalf("only %d panels and %d variables were found", len(d.Panels), len(d.Templating.List))
	}
	return d
}

// Panels do not overlap, and all query the selected data source.
func TestDashboardIsWhole(t *testing.T) {
	taken, ids := map[[2]int]string{}, map[int]bool{}
	for _, p := range readDashboard(t).Panels {
		if ids[p.ID] {
			t.Errorf("%s: another panel has the ID %d", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%s reaches beyond the right edge", p.Title)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other, is := taken[at]; is {
					t.Fatalf("%s lies over %s", p.Title, other)
				}
				taken[at] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" {
			t.Errorf("%s has no query, or its data source is %q", p.Title, p.Datasource.UID)
		}
		for _, target := range p.Targets {
			testenv.Equal(t, target.Datasource.UID, "${datasource}", "the data source of %s %s", p.Title, target.RefID)
		}
	}
}

// labelValues matches the query of a variable whose values are the values of a label.
var labelValues = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)

// checkDashboard runs every query of the dashboard with all values of the variables, and
// returns these values.
func checkDashboard(t *testing.T, h *history, d dashboard, now time.Time) map[string]string {
	values := map[string]string{"__rate_interval": "2m", "__interval": "30s"}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		found := labelValues.FindStringSubmatch(v.Definition)
		if found == nil {
			t.Fatalf("variable %s: %s is no label_values()", v.Name, v.Definition)
		}
		answer, err := h.ask(interpolate(t, found[1], values), now, now)
		if err != nil || len(answer) == 0 {
			t.Fatalf("variable %s has no values (error: %v)", v.Name, err)
		}
		for _, series := range answer {
			if series.Metric.Get(found[2]) == "" {
				t.Errorf("variable %s: %s has series without %s", v.Name, found[1], found[2])
			}
		}
		values[v.Name] = v.AllValue
	}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			if err := h.check(interpolate(t, target.Expr, values), now); err != nil {
				t.Errorf("%s: %v", p.Title, err)
			}
		}
	}
	for _, a := range d.Annotations.List {
		if err := h.checkCondition(interpolate(t, a.Expr, values), now); err != nil {
			t.Errorf("annotation %s: %v", a.Name, err)
		}
	}
	return values
}

// interpolate inserts the values of variables into a query, as Grafana does.
func interpolate(t *testing.T, query string, values map[string]string) string {
	t.Helper()
	return regexp.MustCompile(`\$\{?(\w+)\}?`).ReplaceAllStringFunc(query, func(name string) string {
		value, known := values[strings.Trim(name, "${}")]
		if !known {
			t.Errorf("%s: there is no variable %s", query, name)
		}
		return value
	})
}

var updatePictures = flag.Bool("update-pictures", false, "draw docs/pictures/dashboard.svg again")

// These are sizes in the picture, in pixels. column and row are the units of Grafana's grid.
const (
	column, row = 40, 16
	shown       = working + failing
)

var colors = []string{"#0969da", "#1a7f37", "#cf222e", "#9a6700", "#8250df", "#57606a"}

// checkPicture checks that the picture in docs has all panels of the dashboard. With
// -update-pictures, it first draws them in Grafana's layout, with the results of their queries.
func checkPicture(t *testing.T, h *history, d dashboard, values map[string]string, end time.Time) {
	const file = "../../../docs/pictures/dashboard.svg"
	c := &canvas{t: t, history: h, values: values, end: end}
	last := d.Panels[len(d.Panels)-1].GridPos
	const title = "45 minutes: in the last five, Redis and the control plane fail, and the new rules are invalid"
	fmt.Fprintf(c, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" font-family="sans-serif" font-size="11" fill="#1f2328">`+"\n"+
		"<title>%[3]s</title>\n"+`<rect width="100%%" height="100%%" fill="white"/>`+"\n", 24*column, (last.Y+last.H)*row+8, title)
	c.text(24*column-8, 13, `text-anchor="end"`, title)
	for _, p := range d.Panels {
		c.panel(p)
	}
	c.WriteString("</svg>\n")
	if *updatePictures {
		testenv.OK(t, os.WriteFile(file, c.Bytes(), 0o644))
	}
	picture := testenv.Read(t, file) // make docs draws it
	for _, p := range d.Panels {
		testenv.Contains(t, picture, ">"+html.EscapeString(p.Title)+"<")
	}
}

type canvas struct {
	bytes.Buffer
	t       *testing.T
	history *history
	values  map[string]string // values of the dashboard's variables
	end     time.Time
}

func (c *canvas) text(x, y int, attributes, text string) {
	fmt.Fprintf(c, `<text x="%d" y="%d" %s>%s</text>`+"\n", x, y, attributes, html.EscapeString(text))
}

func (c *canvas) panel(p panel) {
	x, y, width, height := p.GridPos.X*column, p.GridPos.Y*row, p.GridPos.W*column, p.GridPos.H*row
	if p.Type == "row" {
		c.text(x+4, y+13, `font-weight="bold" font-size="13"`, p.Title)
		return
	}
	fmt.Fprintf(c, `<rect x="%d" y="%d" width="%d" height="%d" rx="4" fill="none" stroke="#d8dee4"/>`+"\n", x+2, y+2, width-4, height-4)
	c.text(x+8, y+15, "", p.Title)
	lines, top := c.lines(p)
	unit := p.FieldConfig.Defaults.Unit
	switch p.Type {
	case "stat":
		value := lines[0].values[len(lines[0].values)-1].F
		text, color := p.shows(value)
		c.text(x+width/2, y+44, `text-anchor="middle" font-weight="bold" font-size="20" fill="`+color+`"`, text)
	case "table":
		for i, l := range lines {
			c.text(x+8, y+40+i*row, "", l.name)
		}
	case "timeseries":
		c.text(x+width-8, y+15, `text-anchor="end" font-size="10"`, spell(top, unit))
		left, bottom, legend := x+8, y+height-22, x+8
		fmt.Fprintf(c, `<path d="M%d %dh%dM%[1]d %dh%[3]d" stroke="#d8dee4"/>`+"\n", left, y+22, width-16, bottom)
		for i, l := range lines {
			fmt.Fprintf(c, `<polyline fill="none" stroke="%s" stroke-width="1.5" points="`, colors[i%len(colors)])
			for _, point := range l.values {
				since := float64(c.end.UnixMilli()-point.T) / float64(shown.Milliseconds())
				fmt.Fprintf(c, "%.0f,%.1f ", float64(left)+float64(width-16)*(1-since), float64(bottom)-float64(height-44)*point.F/top)
			}
			c.WriteString(`"/>` + "\n")
			if wide := 5*len(l.name) + 8; legend+wide < x+width {
				c.text(legend, y+height-8, `font-size="10" fill="`+colors[i%len(colors)]+`"`, l.name)
				legend += wide
			}
		}
	}
}

// line is a series with the name that a panel's legend gives it.
type line struct {
	name   string
	values []promql.FPoint
}

// lines returns the results of a panel's queries until c.end, and the largest value or 1.
func (c *canvas) lines(p panel) (lines []line, top float64) {
	for _, target := range p.Targets {
		query := interpolate(c.t, target.Expr, c.values)
		for _, series := range testenv.Must(c.history.ask(query, c.end.Add(-shown), c.end))(c.t) {
			found := line{values: series.Floats, name: regexp.MustCompile(`\{\{(\w+)\}\}`).ReplaceAllStringFunc(target.LegendFormat, func(name string) string {
				return series.Metric.Get(strings.Trim(name, "{}"))
			})}
			if found.name == "" {
				found.name = strings.Trim(series.Metric.String(), "{}")
			}
			for _, point := range found.values {
				top = max(top, point.F)
			}
			lines = append(lines, found)
		}
	}
	if top == 0 {
		top = 1
	}
	return lines, top
}

// shows returns the text and the color of a number in a panel.
func (p panel) shows(n float64) (text, color string) {
	defaults := p.FieldConfig.Defaults
	color = "green"
	for _, step := range defaults.Thresholds.Steps {
		if n >= step.Value {
			color = step.Color
		}
	}
	text = spell(n, defaults.Unit)
	for _, mapping := range defaults.Mappings {
		if to, is := mapping.Options[text]; is {
			text, color = to.Text, to.Color
		}
	}
	return text, color
}

// spell formats a number as a panel does.
func spell(n float64, unit string) string {
	switch unit {
	case "reqps":
		return fmt.Sprintf("%.3g/s", n)
	case "percentunit":
		return fmt.Sprintf("%.3g %%", 100*n)
	case "s":
		if n < 1 {
			return fmt.Sprintf("%.3g ms", 1000*n)
		}
		return fmt.Sprintf("%.0f min", n/60)
	case "bytes":
		return fmt.Sprintf("%.0f MiB", n/(1<<20))
	}
	return fmt.Sprintf("%.3g", n)
}
