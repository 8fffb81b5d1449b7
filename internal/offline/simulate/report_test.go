package simulate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/plan"
	"weir/internal/testenv"
)

// TestReports replays the log in each file of testdata/reports. If the file has no configuration or
// no rules, byAddress or perAddress is used. The last part of the file is the expected report and the
// denied requests.
func TestReports(t *testing.T) {
	switches := map[string]plan.Options{"quotas_in_shadow_mode": {ShadowMode: true}}
	files := testenv.Must(filepath.Glob("testdata/reports/*.txt"))(t)
	if len(files) < 19 {
		t.Errorf("found only %q", files)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(name, func(t *testing.T) {
			parts := map[string]string{"envoy.yaml": byAddress, "rules.yaml": perAddress}
			head, _, _ := strings.Cut(string(testenv.Must(os.ReadFile(file))(t)), "-- report --\n")
			for _, part := range strings.Split(head, "-- ")[1:] {
				name, text, _ := strings.Cut(part, " --\n")
				parts[name] = text
			}
			log := logFile(t, parts["access.log"])
			var text, denied, html bytes.Buffer
			o := Options{
				Logs: []string{log}, Envoy: mustEnvoy(t, parts["envoy.yaml"]), Rules: mustRules(t, parts["rules.yaml"]),
				Plan: switches[name], Shares: []float64{0, 0.001, 0.01}, Denied: &denied,
			}
			if old := parts["old.yaml"]; old != "" {
				o.Old = mustRules(t, old)
			}
			r := mustRun(t, o)
			testenv.OK(t, errors.Join(r.WriteText(&text), r.WriteHTML(&html)))
			got := strings.ReplaceAll(text.String()+"\ndenied\n"+denied.String(), filepath.Dir(log)+"/", "")
			testenv.Golden(t, file, head+"-- report --\n"+got)
			page := html.String()
			testenv.Lacks(t, page, "\x1b", "\u202e", "<script", "<svg onload", "http:", "https:", "ZgotmplZ") // html/template replaces an unsafe value by the last
			const compared = " rules never deny "
			drawn := fmt.Sprintf(`<rect class="denied" x="0" width="1" height="%d"/>`, r.Limits[0].Denied)
			if strings.Count(page, `class="today"`) != strings.Count(page, `class="clients"`) || strings.Contains(page, "NaN") || len(r.Limits[0].Amounts) > 0 && !strings.Contains(page, "<b>1 %</b>") {
				t.Errorf("the page has no curve, or no limit of today on it:\n%s", page)
			}
			if strings.Count(page, `<p class="warning">`) != len(r.Warnings) || strings.Count(page, compared) != strings.Count(got, compared) ||
				strings.Contains(page, drawn) != (r.Limits[0].Denied > 0) || len(page) > 20_000 {
				t.Errorf("the page is\n%s", page)
			}
			data, err := json.Marshal(r)
			if err != nil || r.Requests == 0 && strings.Contains(string(data), `"first"`) {
				t.Errorf("%v: %s", err, data)
			}
		})
	}
}
