package simulate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Lines of no request that Envoy's filters see ask for no limit, whatever routes there are.
func TestNoRequests(t *testing.T) {
	log := logFile(t, []byte(`[2023-11-14T22:14:00.310Z] "- - HTTP/1.1" 400 DPE 0 11 0 - "-" "-" "-" "-" "-"
[2023-11-14T22:14:00.310Z] "GET / HTTP/1.1" 200 - 0 11 0 - "10.0.0.1" "-" "-" "a" "-"
203.0.113.9 - - [14/Nov/2023:22:14:00 +0000] "\x16\x03\x01" 400 150 "-" "-"
[2023-11-14T22:14:00.310Z] "CONNECT - HTTP/1.1" 404 NR 0 0 0 - "192.0.2.2" "-" "-" "h:443" "-"
`))
	r := mustRun(t, Options{Logs: []string{log}, Envoy: mustEnvoy(t, byAddress), Rules: mustRules(t, perAddress)})
	want := []string{"2 lines are not requests that Envoy's filters see, such as those without a path; no limit applies to them"}
	if r.Lines != 4 || r.Unreadable != 0 || r.Idle != 3 || r.Requests != 1 || !slices.Equal(r.Notes, want) {
		t.Errorf("%d lines, %d unreadable, %d idle, %d requests, notes are %q, want %q", r.Lines, r.Unreadable, r.Idle, r.Requests, r.Notes, want)
	}
}

// The address of the connection comes after x-forwarded-for, of which Envoy's configuration says who is the client.
func TestClientOfLines(t *testing.T) {
	const forwarded, line = `"x_forwarded_for":"7.7.7.7,192.0.2.2",`, `{"start_time":1700000000,"method":"GET","path":"/",%s"downstream_direct_remote_address":"192.0.2.2:4444"}`
	for fields, want := range map[string]string{
		forwarded: "remote_address=192.0.2.2", "": "remote_address=192.0.2.2", `"remote_addr":"8.8.8.8",` + forwarded: "remote_address=8.8.8.8",
	} {
		log := logFile(t, []byte(fmt.Sprintf(line, fields)))
		rules := mustRules(t, strings.Replace(perAddress, "requests_per_unit: 2", "requests_per_unit: 0", 1))
		r := mustRun(t, Options{Logs: []string{log}, Envoy: mustEnvoy(t, byAddress), Rules: rules})
		if len(r.Warnings) > 0 || len(r.Limits[0].WorstClients) != 1 || r.Limits[0].WorstClients[0].Client != want {
			t.Errorf("%s: %+v, warnings are %q, want %q", fields, r.Limits[0].WorstClients, r.Warnings, want)
		}
	}
}
