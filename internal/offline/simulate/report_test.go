package simulate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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

// The report begins with what is likely to be wrong with it: parts of requests that Envoy's configuration looks at and
// no line has, and that nothing at all was limited.
func TestWarnings(t *testing.T) {
	missing := func(what string) string {
		return "Envoy's configuration uses " + what + ", but no line has it; of JSON lines, --fields says where it is"
	}
	const (
		nothing    = "no request matches a limit of the rules"
		noneOld    = "no request matches a limit of the old rules"
		foreign    = `Envoy sends the domain "shop", which the rules do not have`
		foreignOld = `Envoy sends the domain "shop", which the old rules do not have`
	)
	noUser, noAddress := missing("x-user"), missing("remote_address")
	text := `203.0.113.9 - - [14/Nov/2023:22:14:00 +0000] "GET / HTTP/1.1" 200 150 "-" "-"` + "\n"
	line := `{"start_time":1700000000,"method":"GET","path":"/"}` + "\n"
	with := func(name, value string) string {
		return strings.Replace(line, "}", fmt.Sprintf(`,%q:%q}`, name, value), 1)
	}
	log := func(lines ...string) string { return logFile(t, []byte(strings.Join(lines, ""))) }
	for _, test := range []struct {
		name, envoy, log string
		rules, old       string
		want             []string
	}{
		{"all is there", byAddress, requests(t, "10.0.0.1"), perAddress, "", nil},
		{"no header", byAddressAndPath, requests(t, "10.0.0.1"), perAddress, "", []string{noUser}},
		{"no address", byAddress, requests(t, ""), perAddress, "", []string{nothing, noAddress}},
		{"no IP address", byAddress, requests(t, "example.com", "example.com"), perAddress, "", []string{nothing, noAddress}},
		{"an IP address later", byAddress, requests(t, "example.com", "10.0.0.1"), perAddress, "", nil},
		{"names in x-forwarded-for", byAddress, log(with("x_forwarded_for", "alpha"), with("x_forwarded_for", "beta")), perAddress, "", []string{nothing, noAddress}},
		{"text", byAddressAndPath, log(text), perAddress, "", []string{noUser}},
		{"JSON", byAddressAndPath, log(line), perAddress, "", []string{nothing, noAddress, noUser}},
		{"no rule", byAddress, requests(t, "10.0.0.1"), strings.Replace(perAddress, "remote_address", "user", 1), "", []string{nothing}},
		{"other domain", strings.Replace(byAddress, "api", "shop", 1), requests(t, "10.0.0.1"), perAddress, "", []string{nothing, foreign}},
		{"other domain of the old rules, too", strings.Replace(byAddress, "api", "shop", 1), requests(t, "10.0.0.1"), perAddress, strings.Replace(perAddress, "api", "old", 1), []string{nothing, foreign, noneOld, foreignOld}},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := Options{Logs: []string{test.log}, Envoy: mustEnvoy(t, test.envoy), Rules: mustRules(t, test.rules)}
			if test.old != "" {
				o.Old = mustRules(t, test.old)
			}
			r := mustRun(t, o)
			if !slices.Equal(r.Warnings, test.want) || r.Notes != nil {
				t.Errorf("warnings are %q, want %q; notes are %q", r.Warnings, test.want, r.Notes)
			}
			var text, html bytes.Buffer
			testenv.OK(t, errors.Join(r.WriteText(&text), r.WriteHTML(&html)))
			head := ""
			for _, w := range test.want {
				head += "warning: " + w + "\n"
			}
			if !strings.HasPrefix(text.String(), head+number(r.Lines)+" lines") || strings.Count(html.String(), `<p class="warning">`) != len(test.want) {
				t.Errorf("%s%s", text.String(), html.String())
			}
			data, err := json.Marshal(r)
			if err != nil || r.Requests == 0 && strings.Contains(string(data), `"first"`) {
				t.Errorf("%v: %s", err, data)
			}
		})
	}
}

// A request counts once for a limit and for a client, however many descriptors ask.
func TestRequestsOfLimit(t *testing.T) {
	config := mustEnvoy(t, byAddress+`
  - actions: [{generic_key: {descriptor_value: all}}]
  - actions: [{generic_key: {descriptor_value: all}}]
`)
	rules := mustRules(t, "domain: api\ndescriptors: [{rate_limit: {unit: minute, requests_per_unit: 2, charge: always}}]\n")
	r := mustRun(t, Options{Logs: []string{requests(t, "10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1")}, Envoy: config, Rules: rules})
	l := r.Limits[0]
	if l.Requests != 4 || l.Denied != 3 || l.Clients != 2 || l.WorstMinute.count != (count{4, 3}) || l.Series.Requests[0] != 4 || l.Series.Denied[0] != 3 {
		t.Errorf("%+v", l)
	}
	if got := fmt.Sprint(l.WorstClients); got != "[{generic_key=all 3 0} {remote_address=10.0.0.1 2 0}]" {
		t.Error(got)
	}
}

// What Envoy's configuration says and a replay leaves out is noted once.
func TestNotesOfEnvoy(t *testing.T) {
	config := mustEnvoy(t, byAddress+"  - actions: [{source_cluster: {}}]\n")
	r := mustRun(t, Options{Logs: []string{requests(t, "10.0.0.1")}, Envoy: config, Rules: mustRules(t, perAddress)})
	if len(r.Notes) != 1 || strings.Count(r.Notes[0], "skipped") != 1 || !strings.HasPrefix(r.Notes[0], "envoy.yaml:6:") {
		t.Errorf("notes are %q", r.Notes)
	}
}
