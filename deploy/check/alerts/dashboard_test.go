package alerts

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"weir/internal/testenv"
)

// dashboard is what this test reads of weir.json.
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

// fieldDefaults says how a panel shows numbers.
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

// Panels do not lie over each other, and all ask the chosen data source.
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
			if target.Datasource.UID != "${datasource}" {
				t.Errorf("%s %s asks the data source %q", p.Title, target.RefID, target.Datasource.UID)
			}
		}
	}
}

// labelValues is a variable whose values are those of a label.
var labelValues = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)

// checkDashboard asks every query of the dashboard, first with all values of the variables,
// then with each value chosen. It returns all values.
func checkDashboard(t *testing.T, h *history, d dashboard, now time.Time) map[string]string {
	all, chosen := map[string]string{}, map[string]string{}
	for name, value := range map[string]string{"__rate_interval": "2m", "__interval": "30s"} {
		all[name], chosen[name] = value, value
	}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		found := labelValues.FindStringSubmatch(v.Definition)
		if found == nil {
			t.Fatalf("variable %s: %s is no label_values()", v.Name, v.Definition)
		}
		answer, err := h.ask(interpolate(t, found[1], all), now, now)
		if err != nil || len(answer) == 0 {
			t.Fatalf("variable %s has no values (error: %v)", v.Name, err)
		}
		values := map[string]bool{}
		for _, sample := range answer {
			values[sample.Metric.Get(found[2])] = true
		}
		if values[""] {
			t.Errorf("variable %s: %s has series without %s", v.Name, found[1], found[2])
		}
		all[v.Name], chosen[v.Name] = v.AllValue, choice(values)
	}
	asked := 0
	for _, values := range []map[string]string{all, chosen} {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				asked++
				query := interpolate(t, target.Expr, values)
				if err := h.check(query, now); err != nil {
					t.Errorf("%s: %v", p.Title, err)
				}
			}
		}
		for _, a := range d.Annotations.List {
			if err := h.checkCondition(interpolate(t, a.Expr, values), now); err != nil {
				t.Errorf("annotation %s: %v", a.Name, err)
			}
		}
	}
	if asked < 80 {
		t.Errorf("only %d queries were asked", asked)
	}
	return all
}

// special are the characters that Grafana escapes in a value of a variable for Prometheus.
var special = regexp.MustCompile(`[$^*{}\[\]'+?.()|]`)

// choice is how Grafana writes values that are chosen, for a string of PromQL.
func choice(values map[string]bool) string {
	var escaped []string
	for value := range values {
		escaped = append(escaped, special.ReplaceAllString(strings.ReplaceAll(value, `\`, `\\\\`), `\\$0`))
	}
	if len(escaped) == 1 {
		return escaped[0]
	}
	return "(" + strings.Join(escaped, "|") + ")"
}

// interpolate puts the values of variables into a query, as Grafana does.
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
