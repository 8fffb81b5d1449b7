package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// A log of Envoy in JSON that says whom it trusts, and what weir simulate must find that by.
const clientFormat = ", log_format: {json_format: {start_time: '%START_TIME%', method: '%REQ(:METHOD)%', path: '%REQ(:PATH)%', x_forwarded_for: '%REQ(X-FORWARDED-FOR)%', " +
	"downstream_direct_remote_address: '%DOWNSTREAM_DIRECT_REMOTE_ADDRESS%', trusted: '%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%'}}"

// The client that a real Envoy trusts, by its connection or by x-forwarded-for, is the one of weir descriptors and of
// a replay of its logs.
func TestClientsOfEnvoy(t *testing.T) {
	t.Parallel()
	testenv.Envoy(t)
	rules := writeRules(t, "domain: api\ndescriptors: [{key: remote_address, rate_limit: {unit: day, requests_per_unit: 0}}]\n")
	upstream := startUpstream(t)
	for name, manager := range map[string]string{
		"default":             "use_remote_address: false\n",
		"hops":                "use_remote_address: false\nxff_num_trusted_hops: 1\n",
		"connection":          "use_remote_address: true\n",
		"connection and hops": "use_remote_address: true\nxff_num_trusted_hops: 1\n",
		"nothing appended":    "use_remote_address: true\nxff_num_trusted_hops: 2\nskip_xff_append: true\n",
		"extension": "use_remote_address: false\noriginal_ip_detection_extensions: [{name: x, typed_config: {\"@type\": type.googleapis.com/envoy.extensions.http.original_ip_detection.xff.v3.XffConfig, " +
			"xff_num_trusted_hops: 1}}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			logs := map[string]string{"json": filepath.Join(dir, "json.log"), "text": filepath.Join(dir, "text.log")}
			g := gateway{
				manager:     manager + "access_log: [" + fmt.Sprintf(fileLog, logs["json"], clientFormat) + ", " + fmt.Sprintf(fileLog, logs["text"], "") + "]",
				virtualHost: forwarded.virtualHost,
				upstream:    upstream,
			}
			doc := g.bootstrap(t, upstream)
			config := writeBootstrap(t, doc)
			e := runEnvoy(t, doc)
			lists := []string{"", "7.7.7.7", "7.7.7.7, 192.0.2.2", "1.1.1.1,7.7.7.7,192.0.2.2", "7.7.7.7:80", "2001:db8::1", "9.9.9.9, bad", "bad, 9.9.9.9", "9.9.9.9,", ", 9.9.9.9"}
			for i, list := range lists {
				headers := from(list)
				if list == "" {
					headers = nil
				}
				e.ask(fmt.Sprintf("/%d", i), headers...)
			}
			trusted := trustedClients(t, logs["json"], len(lists))
			for i, list := range lists {
				if got, want := foretoldClient(t, config, list), trusted[i]; got != want {
					t.Errorf("weir descriptors: %q is from %s, and Envoy trusts %s", list, got, want)
				}
			}
			for format, log := range logs {
				clients := simulatedClients(t, rules, log, config)
				for i, want := range trusted {
					// The default text has the loopback address of a connection nowhere.
					if got := clients[i+1]; got != want && (format == "json" || want != "127.0.0.1") {
						t.Errorf("%s: %q is from %q, and Envoy trusts %s", format, lists[i], got, want)
					}
				}
			}
		})
	}
}

// trustedClients returns whom Envoy trusted, by its log of n requests.
func trustedClients(t *testing.T, log string, n int) (clients []string) {
	t.Helper()
	for _, line := range linesOf(t, log, n) {
		var l struct{ Trusted string }
		testenv.OK(t, json.Unmarshal([]byte(line), &l))
		clients = append(clients, l.Trusted)
	}
	return clients
}

// foretoldClient returns the client that weir descriptors finds for an x-forwarded-for.
func foretoldClient(t *testing.T, config, forwarded string) string {
	t.Helper()
	options := []string{"--remote-address="}
	if forwarded != "" {
		options = append(options, "--header=x-forwarded-for:"+forwarded)
	}
	lines := sent{}.foretold(t, config, options...)
	if len(lines) != 1 {
		t.Fatalf("%q has the descriptors %q", forwarded, lines)
	}
	return strings.TrimSuffix(strings.TrimPrefix(lines[0], `api "remote_address"="`), `" `)
}

// simulatedClients returns the clients of the lines of a log by a replay.
func simulatedClients(t *testing.T, rules, log, config string) map[int]string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "denied")
	output(t, program(t), "simulate", rules, log, "--envoy", config, "--denied", file)
	clients := map[int]string{}
	for line := range strings.Lines(readDocument(t, file)) {
		parts := strings.Split(strings.TrimPrefix(strings.TrimSpace(line), log+":"), "\t")
		var n int
		if _, err := fmt.Sscan(parts[0], &n); err != nil || len(parts) != 4 {
			t.Fatalf("%q: %v", line, err)
		}
		clients[n] = strings.TrimPrefix(parts[3], "remote_address=")
	}
	return clients
}

// Of what a real Envoy logs, a replay counts the requests for which it asked Weir, and no other. Lines of text that
// headers forge are unreadable.
func TestLinesOfNoRequest(t *testing.T) {
	t.Parallel()
	testenv.Envoy(t)
	dir := t.TempDir()
	logs := map[string]string{"json": filepath.Join(dir, "json.log"), "text": filepath.Join(dir, "text.log")}
	w := startWeir(t, writeRules(t, "domain: api\ndescriptors: [{key: remote_address, rate_limit: {unit: day, requests_per_unit: 100}}]\n"), "DECISION_LOG=all", "DECISION_LOG_RATE=1000000")
	doc := simulatedGateway(logs).bootstrap(t, w.grpc)
	e := runEnvoy(t, doc)
	const forged = "GET /a HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 6.6.6.1\" \"x, 8.8.8.8\r\nuser-agent: e\" \"r\" \"h\" \"u\" c l d 4.4.4.1:1 - x\r\n"
	hostile := []string{
		"\x16\x03\x01\r\n\r\n", "OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n", "CONNECT a:443 HTTP/1.1\r\nhost: a:443\r\n\r\n", "GET / HTTP/1.1\r\n\r\n",
		forged + "connection: close\r\n\r\n", "GET http://a/b HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 9.9.9.9\r\nconnection: close\r\n\r\n",
	}
	for _, request := range hostile {
		exchange(t, e.addr, request)
	}
	asked := func() int { return strings.Count(w.output.String(), `"key":"remote_address"`) }
	testenv.Becomes(t, "times that Envoy asked", 2, asked)
	for format, log := range logs {
		linesOf(t, log, len(hostile))
		report, _ := simulate(t, writeRules(t, "domain: api\ndescriptors: [{key: remote_address, rate_limit: {unit: day, requests_per_unit: 0}}]\n"), log, writeBootstrap(t, doc))
		want := map[string]int64{"json": 0, "text": 1}[format]
		if report.Unreadable != want || int64(report.Requests)+want != int64(asked()) {
			t.Errorf("%s: %d requests, %d lines are unreadable, want %d; notes are %q", format, report.Requests, report.Unreadable, want, report.Notes)
		}
	}
}

// exchange sends a request as it is, and reads until Envoy ends the connection or has answered.
func exchange(t *testing.T, addr, request string) {
	t.Helper()
	conn := connect(t, addr)
	defer conn.Close()
	testenv.Must(conn.Write([]byte(request)))(t)
	if _, err := conn.Read(make([]byte, 1)); err != nil && !errors.Is(err, io.EOF) {
		t.Fatalf("%q: %v", request, err)
	}
}
