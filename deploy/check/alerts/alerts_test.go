package alerts

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"weir/internal/testenv"
)

// alert is a rule of alerts.yaml.
type alert struct {
	Alert, Expr         string
	Labels, Annotations map[string]string
}

// readAlerts reads alerts.yaml, whose form promtool checks.
func readAlerts(t *testing.T) map[string]alert {
	t.Helper()
	text := testenv.Must(os.ReadFile("../../prometheus/alerts.yaml"))(t)
	var file struct{ Groups []struct{ Rules []alert } }
	testenv.OK(t, yaml.Unmarshal(text, &file))
	alerts := map[string]alert{}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			if _, twice := alerts[rule.Alert]; twice {
				t.Errorf("there are two alerts %s", rule.Alert)
			}
			alerts[rule.Alert] = rule
		}
	}
	if len(alerts) < 20 {
		t.Errorf("only %d alerts were found", len(alerts))
	}
	return alerts
}

// Every alert says how urgent it is, what is wrong, and in which section of a document
// what to do is.
func TestAlertsSayWhatToDo(t *testing.T) {
	document := testenv.Must(os.ReadFile("../../../docs/at-3am.md"))(t)
	sections := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(string(document), -1) {
		sections["YOUR-DOCS-URL/at-3am.md#"+strings.ReplaceAll(strings.ToLower(heading[1]), " ", "-")] = true
	}
	for name, rule := range readAlerts(t) {
		if severity := rule.Labels["severity"]; severity != "critical" && severity != "warning" {
			t.Errorf("%s: severity %q", name, severity)
		}
		for _, field := range []string{"summary", "description"} {
			if !strings.HasSuffix(rule.Annotations[field], ".") {
				t.Errorf("%s: the %s %q is no sentence", name, field, rule.Annotations[field])
			}
		}
		if !sections[rule.Annotations["runbook_url"]] {
			t.Errorf("%s: there is no %s", name, rule.Annotations["runbook_url"])
		}
	}
}

// alerts_test.yaml, which promtool runs, has a time at which each alert fires, and
// one at which nothing does.
func TestEveryAlertIsTested(t *testing.T) {
	text := testenv.Must(os.ReadFile("../../prometheus/alerts_test.yaml"))(t)
	var file struct {
		Tests []struct {
			Checks []struct {
				Samples []struct{ Labels string } `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		}
	}
	testenv.OK(t, yaml.Unmarshal(text, &file))
	fires := map[string]bool{}
	for i, test := range file.Tests {
		silent := false
		for _, check := range test.Checks {
			silent = silent || len(check.Samples) == 0
			for _, sample := range check.Samples {
				fires[sample.Labels] = true
			}
		}
		if !silent {
			t.Errorf("test %d has no time at which no alert fires", i)
		}
	}
	for name := range readAlerts(t) {
		if !fires[`{alertname="`+name+`"}`] {
			t.Errorf("%s never fires", name)
		}
	}
}
