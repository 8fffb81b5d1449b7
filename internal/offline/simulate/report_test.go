package simulate

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/plan"
	"weir/internal/testenv"
)

// Hostile values stay text in every form of the report.
func TestHostileReport(t *testing.T) {
	config := mustEnvoy(t, byAddressAndPath)
	rules := mustRules(t, "domain: api\ndescriptors:\n- {key: user, descriptors: [{key: path, rate_limit: {unit: day, requests_per_unit: 1}}]}\n")
	var data bytes.Buffer
	for range 3 {
		for _, user := range []string{"<script>alert(1)</script>", "\x1b[31mred", "\"><svg onload=x>", strings.Repeat("x", 10_000), "\u202eback"} {
			data.WriteString(entry{time.Unix(1_700_000_000, 0).UTC(), "10.0.0.1", user, "/"}.json() + "\n")
		}
	}
	r := mustRun(t, Options{Logs: []string{logFile(t, data.Bytes())}, Envoy: config, Rules: rules, Suggest: true, Old: mustRules(t, perAddress)})
	var text, html bytes.Buffer
	testenv.OK(t, r.WriteText(&text))
	testenv.OK(t, r.WriteHTML(&html))
	if r.Denied != 10 || !strings.Contains(text.String(), `user=\x1b[31mred, path=/`) || !strings.Contains(text.String(), `user=<script>alert(1)</script>`) {
		t.Errorf("text is\n%s", text.String())
	}
	if strings.ContainsAny(text.String()+html.String(), "\x1b\u202e") || strings.Contains(html.String(), "<script") || strings.Contains(html.String(), "<svg onload") || len(html.String()) > 20_000 {
		t.Errorf("page is\n%s", html.String())
	}
	if !strings.Contains(html.String(), `<rect class="denied" x="0" width="1" height="10"/>`) || strings.Contains(html.String(), "http") && !strings.Contains(html.String(), "http-equiv") {
		t.Errorf("there is no drawing in\n%s", html.String())
	}
	if strings.Contains(html.String(), "ZgotmplZ") {
		t.Error("the template refuses a value")
	}
}

var update = flag.Bool("update", false, "write the reports of testdata again")

// TestReports replays the log of each file of testdata/reports, by byAddress and perAddress if
// the file does not say otherwise. Its last part is the report, and the requests that are denied.
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
			head, want, _ := strings.Cut(string(testenv.Must(os.ReadFile(file))(t)), "-- report --\n")
			for _, part := range strings.Split(head, "-- ")[1:] {
				name, text, _ := strings.Cut(part, " --\n")
				parts[name] = text
			}
			log := logFile(t, []byte(parts["access.log"]))
			var text, denied, html bytes.Buffer
			o := Options{
				Logs: []string{log}, Envoy: mustEnvoy(t, parts["envoy.yaml"]), Rules: mustRules(t, parts["rules.yaml"]),
				Plan: switches[name], Suggest: true, Denied: &denied,
			}
			if old := parts["old.yaml"]; old != "" {
				o.Old = mustRules(t, old)
			}
			r := mustRun(t, o)
			testenv.OK(t, errors.Join(r.WriteText(&text), r.WriteHTML(&html)))
			got := strings.ReplaceAll(text.String()+"\ndenied\n"+denied.String(), filepath.Dir(log)+"/", "")
			if *update {
				testenv.OK(t, os.WriteFile(file, []byte(head+"-- report --\n"+got), 0o644))
			} else if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			const compared = " rules never deny "
			if strings.Count(html.String(), `<p class="warning">`) != len(r.Warnings) || strings.Count(html.String(), compared) != strings.Count(got, compared) {
				t.Errorf("the page is\n%s", html.String())
			}
			data, err := json.Marshal(r)
			if err != nil || r.Requests == 0 && strings.Contains(string(data), `"first"`) {
				t.Errorf("%v: %s", err, data)
			}
		})
	}
}
