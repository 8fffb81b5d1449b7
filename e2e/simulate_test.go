package e2e

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"weir/internal/testenv"
)

// simulated contains the fields that the tests read from a report of weir simulate.
type simulated struct {
	Lines, Unreadable int64
	Requests          uint64
	Limits            []struct {
		Amounts []struct{ Amount float64 }
	}
	Notes []string
}

// knownLog is a generated log with its abusers and the amounts that simulate must suggest.
type knownLog struct {
	file    string
	Abusers []struct{ Address string }
	Amounts []float64
}

// buildGenerator returns the path of the generator.
func buildGenerator(t *testing.T) string {
	t.Helper()
	generator := filepath.Join(t.TempDir(), "generate")
	output(t, "go build -o "+generator+" weir/internal/offline/simulate/accesslog/generate")
	return generator
}

// generate creates the log of an hour in which some clients send many requests and three send
// far too many.
func generate(t *testing.T, lines int) (log knownLog) {
	t.Helper()
	dir := t.TempDir()
	log.file = filepath.Join(dir, "access.log")
	truth := filepath.Join(dir, "truth.json")
	output(t, fmt.Sprintf("%s -lines %d -clients %d -span 59m -truth %s > %s", buildGenerator(t), lines, lines/5, truth, log.file))
	testenv.OK(t, json.Unmarshal([]byte(readDocument(t, truth)), &log))
	return log
}

// simulate runs weir simulate. It returns the report, and the clients of the requests that
// would be denied, by the number of their line.
func simulate(t *testing.T, rules, log, envoy string, flags ...string) (report simulated, denied map[int]string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "denied")
	out := output(t, fmt.Sprintf("weir simulate %s %s --envoy %s --output json --denied %s ", rules, log, envoy, file)+strings.Join(flags, " "))
	if err := json.Unmarshal([]byte(out), &report); err != nil { // also if there is text on stderr
		t.Fatalf("%v in:\n%s", err, out)
	}
	denied = map[int]string{}
	for line := range strings.Lines(readDocument(t, file)) {
		parts := strings.Split(strings.TrimPrefix(strings.TrimSpace(line), log+":"), "\t")
		if len(parts) != 4 {
			t.Fatalf("no line and client in %q", line)
		}
		denied[testenv.Must(strconv.Atoi(parts[0]))(t)] = strings.TrimPrefix(parts[3], "remote_address=")
	}
	return report, denied
}

// logged is a request in a log.
type logged struct {
	line    int
	At      time.Time `json:"start_time"`
	Path    string
	Address string `json:"downstream_remote_address"`
	Status  int    `json:"response_code"`
}

func readLogged(t *testing.T, file string) (list []logged) {
	t.Helper()
	for line := range strings.Lines(readDocument(t, file)) {
		l := logged{line: len(list) + 1}
		testenv.OK(t, json.Unmarshal([]byte(line), &l))
		l.Address, _, _ = strings.Cut(l.Address, ":")
		list = append(list, l)
	}
	return list
}

// TestSimulate chooses a limit as a new user would, from the amounts that weir simulate
// suggests. With this limit, a real Envoy and Weir deny exactly the requests in the report. A
// replay of Envoy's logs of these requests, in both formats, denies them, too.
func TestSimulate(t *testing.T) {
	t.Parallel()
	testenv.Envoy(t)
	awayFromMidnight(t)
	g, logs := logging(t, simulatedFormat, "use_remote_address: false\n")
	doc := g.bootstrap(t, "127.0.0.1:1")
	config := writeBootstrap(t, doc)
	rule := func(amount float64) string {
		return writeRules(t, rulesPerDay("remote_address", int(math.Round(amount))))
	}

	log := generate(t, testenv.Must(strconv.Atoi(cmp.Or(os.Getenv("WEIR_SIMULATE_REQUESTS"), "1500")))(t))
	report, _ := simulate(t, rule(log.Amounts[2]/2), log.file, config, "--suggest")
	amount := report.Limits[0].Amounts[2].Amount
	if want := log.Amounts[2]; amount < want*0.99 || amount > want*1.01 {
		t.Fatalf("the amount %v is suggested, want %v", amount, want)
	}

	suggested := rule(amount)
	_, foretold := simulate(t, suggested, log.file, config)
	denied := slices.Sorted(maps.Keys(foretold))
	w := startWeir(t, suggested)
	setUpstreams(t, doc, []string{w.grpc})
	e := runEnvoy(t, doc)
	requests := readLogged(t, log.file)
	slices.SortStableFunc(requests, func(a, b logged) int { return a.At.Compare(b.At) })
	var got []int
	for _, r := range requests {
		switch status := e.ask(r.Path, "x-forwarded-for: "+r.Address).status; status {
		case 429:
			got = append(got, r.line)
		case 200:
		default:
			t.Fatalf("line %d: status %d", r.line, status)
		}
	}
	if slices.Sort(got); len(got) == 0 || !slices.Equal(got, denied) {
		t.Fatalf("%d requests are denied, and %d in the report:\n%v\n%v", len(got), len(denied), got, denied)
	}
	t.Logf("%d requests through Envoy, of which %d are denied as the report says", len(requests), len(got))

	got = nil // from here on, lines of Envoy's log
	linesOf(t, logs["json"], len(requests))
	for _, r := range readLogged(t, logs["json"]) {
		if r.Status == 429 {
			got = append(got, r.line)
		}
	}
	for format, log := range logs {
		linesOf(t, log, len(requests))
		report, denied := simulate(t, suggested, log, config)
		if report.Unreadable > 0 || report.Lines != int64(len(requests)) {
			t.Errorf("%s: of %d lines %d cannot be read", format, report.Lines, report.Unreadable)
		}
		testenv.EqualLists(t, slices.Sorted(maps.Keys(denied)), got, "%s: requests that a replay denies", format)
	}
}

// simulatedFormat is a JSON format of Envoy's log that weir simulate can read.
const simulatedFormat = "{start_time: '%START_TIME%', method: '%REQ(:METHOD)%', path: '%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%', " +
	"response_code: '%RESPONSE_CODE%', duration: '%DURATION%', authority: '%REQ(:AUTHORITY)%', downstream_remote_address: '%DOWNSTREAM_REMOTE_ADDRESS%'}"

// logging returns an Envoy that logs in JSON and in its default text format, and sends the
// address of the client to Weir. manager has further fields of its connection manager.
func logging(t *testing.T, jsonFormat, manager string) (g gateway, logs map[string]string) {
	t.Helper()
	dir := t.TempDir()
	logs = map[string]string{"json": filepath.Join(dir, "json.log"), "text": filepath.Join(dir, "text.log")}
	manager += "access_log: [" + fmt.Sprintf(fileLog, logs["json"], ", log_format: {json_format: "+jsonFormat+"}") + ", " + fmt.Sprintf(fileLog, logs["text"], "") + "]"
	return gateway{manager: manager, virtualHost: forwarded.virtualHost}, logs
}

// TestLargeLog runs the commands in docs/simulate.md, for a log with fewer lines. The report
// must agree with the truth that the generator writes.
func TestLargeLog(t *testing.T) {
	t.Parallel()
	root, dir := testenv.Repository(t), t.TempDir()
	script := documentedBlock(t, "docs/simulate.md", "go run ./internal")
	for from, to := range map[string]string{
		"go run ./internal/offline/simulate/accesslog/generate -lines 1000000": buildGenerator(t) + " -lines 50000",
		"go run ./cmd/server": program(t),
		"docs/simulate/":      filepath.Join(root, "docs/simulate") + "/",
	} {
		testenv.Contains(t, script, from)
		script = strings.ReplaceAll(script, from, to)
	}
	out := testenv.Must(shell(t, dir, script))(t)
	var truth knownLog
	testenv.OK(t, json.Unmarshal([]byte(readDocument(t, filepath.Join(dir, "truth.json"))), &truth))
	if len(truth.Abusers) != 3 {
		t.Fatalf("%d abusers", len(truth.Abusers))
	}
	report, _, _ := strings.Cut(out, "\n{") // the truth follows
	for _, a := range truth.Abusers {
		testenv.Contains(t, report, "remote_address="+a.Address+" ")
	}
	amounts := fmt.Sprintf("%.0f %.0f %.0f", truth.Amounts[0], truth.Amounts[1], truth.Amounts[2])
	testenv.Contains(t, strings.Join(strings.Fields(report), " "), "200 per hour "+amounts)
	testenv.Contains(t, readDocument(t, filepath.Join(dir, "report.html")), truth.Abusers[0].Address) // the worst client
	if *updatePictures {
		p := newTab(testenv.Browser(t), t, serve(t, http.FileServer(http.Dir(dir))))
		p.do(chromedp.EmulateViewport(1000, 1000))
		p.open("/report.html")
		p.picture(filepath.Join(root, "docs/simulate/report.png"), root+"/", "")
	}
}

// "weir descriptors" and a replay of Envoy's logs find the client address that a real Envoy
// trusts, from the connection or from x-forwarded-for.
func TestClientsOfEnvoy(t *testing.T) {
	t.Parallel()
	testenv.Envoy(t)
	const format = "{start_time: '%START_TIME%', method: '%REQ(:METHOD)%', path: '%REQ(:PATH)%', x_forwarded_for: '%REQ(X-FORWARDED-FOR)%', " +
		"downstream_direct_remote_address: '%DOWNSTREAM_DIRECT_REMOTE_ADDRESS%', trusted: '%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%'}"
	rules := writeRules(t, rulesPerDay("remote_address", 0))
	upstream := serve(t, echo)
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
			g, logs := logging(t, format, manager)
			g.upstream = upstream
			doc := g.bootstrap(t, upstream)
			config := writeBootstrap(t, doc)
			e := runEnvoy(t, doc)
			lists := []string{"", "7.7.7.7", "7.7.7.7, 192.0.2.2", "1.1.1.1,7.7.7.7,192.0.2.2", "7.7.7.7:80", "2001:db8::1", "9.9.9.9, bad", "bad, 9.9.9.9", "9.9.9.9,", ", 9.9.9.9"}
			for i, list := range lists {
				var headers []string
				if list != "" {
					headers = from(list)
				}
				e.ask(fmt.Sprintf("/%d", i), headers...)
			}
			var trusted []string
			for i, line := range linesOf(t, logs["json"], len(lists)) {
				var l struct{ Trusted string }
				testenv.OK(t, json.Unmarshal([]byte(line), &l))
				trusted = append(trusted, l.Trusted)
				options := []string{"--remote-address="}
				if lists[i] != "" {
					options = append(options, "--header=x-forwarded-for:"+lists[i])
				}
				want := []string{fmt.Sprintf("api [map[key:remote_address value:%s]]", l.Trusted)}
				testenv.EqualLists(t, sent{}.foretold(t, config, options...), want, "descriptors of %q", lists[i])
			}
			for format, log := range logs {
				linesOf(t, log, len(lists))
				_, clients := simulate(t, rules, log, config) // the rules deny all requests
				for i, want := range trusted {
					// The default text format does not contain the loopback address of the connection.
					if got := clients[i+1]; got != want && (format == "json" || want != "127.0.0.1") {
						t.Errorf("%s: %q is from %q, and Envoy trusts %s", format, lists[i], got, want)
					}
				}
			}
		})
	}
}

// A replay of a real Envoy's logs counts exactly the requests for which Envoy asked Weir. Text
// lines with fields that headers forge are unreadable.
func TestLinesOfNoRequest(t *testing.T) {
	t.Parallel()
	testenv.Envoy(t)
	g, logs := logging(t, simulatedFormat, "use_remote_address: false\n")
	w := startWeir(t, writeRules(t, rulesPerDay("remote_address", 100)), "DECISION_LOG=all", "DECISION_LOG_RATE=1000000")
	doc := g.bootstrap(t, w.grpc)
	e := runEnvoy(t, doc)
	const forged = "GET /a HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 6.6.6.1\" \"x, 8.8.8.8\r\nuser-agent: e\" \"r\" \"h\" \"u\" c l d 4.4.4.1:1 - x\r\n"
	hostile := []string{
		"\x16\x03\x01\r\n\r\n", "OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n", "CONNECT a:443 HTTP/1.1\r\nhost: a:443\r\n\r\n", "GET / HTTP/1.1\r\n\r\n",
		forged + "connection: close\r\n\r\n", "GET http://a/b HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 9.9.9.9\r\nconnection: close\r\n\r\n",
	}
	for _, request := range hostile {
		sendBytes(t, e.addr, request)
	}
	asked := func() int { return strings.Count(w.output.String(), `"key":"remote_address"`) }
	testenv.Becomes(t, "times that Envoy asked", 2, asked)
	for format, log := range logs {
		linesOf(t, log, len(hostile))
		report, _ := simulate(t, writeRules(t, rulesPerDay("remote_address", 0)), log, writeBootstrap(t, doc))
		want := map[string]int64{"json": 0, "text": 1}[format]
		if report.Unreadable != want || int64(report.Requests)+want != int64(asked()) {
			t.Errorf("%s: %d requests, %d lines are unreadable, want %d; notes are %q", format, report.Requests, report.Unreadable, want, report.Notes)
		}
	}
}

// sendBytes sends the bytes of a request and returns the first part of Envoy's answer, which
// is empty if Envoy closes the connection.
func sendBytes(t *testing.T, addr, request string) string {
	t.Helper()
	conn := connect(t, addr)
	defer conn.Close()
	testenv.Must(conn.Write([]byte(request)))(t)
	first := make([]byte, 4096)
	n, err := conn.Read(first)
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatalf("%q: %v", request, err)
	}
	return string(first[:n])
}
