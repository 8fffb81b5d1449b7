package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"weir/internal/testenv"
)

// simulated is what the test reads of a report of weir simulate.
type simulated struct {
	Lines, Unreadable int64
	Requests, Denied  uint64
	Limits            []struct {
		Denied        uint64
		Clients       int
		ClientsDenied int `json:"clients_denied"`
		WorstClients  []struct {
			Client string
			Denied uint64
		} `json:"worst_clients"`
		Amounts []struct{ Amount float64 }
	}
	Notes []string
}

// knownLog is a log of the generator, and what is known of it.
type knownLog struct {
	file    string
	Clients int
	Abusers []struct {
		Address string
		Lines   int
	}
	Amounts []float64
}

// buildGenerator returns the path of the generator.
func buildGenerator(t *testing.T) string {
	t.Helper()
	generator := filepath.Join(t.TempDir(), "generate")
	output(t, "go", "build", "-o", generator, "weir/internal/offline/simulate/accesslog/generate")
	return generator
}

// generate makes a log of an hour in which some clients come often and three far too often.
func generate(t *testing.T, lines int) (log knownLog) {
	t.Helper()
	dir := t.TempDir()
	generator := buildGenerator(t)
	log.file = filepath.Join(dir, "access.log")
	truth := filepath.Join(dir, "truth.json")
	write(t, log.file, output(t, generator, "-lines", strconv.Itoa(lines), "-clients", strconv.Itoa(lines/5), "-span", "59m", "-truth", truth))
	testenv.OK(t, json.Unmarshal([]byte(readDocument(t, truth)), &log))
	return log
}

// simulate runs weir simulate, and returns its report and the lines that would be denied.
func simulate(t *testing.T, rules, log, envoy string, flags ...string) (report simulated, denied []int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "denied")
	args := append([]string{"simulate", rules, log, "--envoy", envoy, "--output", "json", "--denied", file}, flags...)
	var stderr bytes.Buffer
	cmd := exec.Command(program(t), args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &report)
	}
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%v: %v\n%s", args, err, stderr.String())
	}
	for line := range strings.Lines(readDocument(t, file)) {
		place, _, _ := strings.Cut(strings.TrimPrefix(line, log+":"), "\t")
		denied = append(denied, testenv.Must(strconv.Atoi(place))(t))
	}
	slices.Sort(denied)
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

// simulatedRequests is how many requests go through a real Envoy.
func simulatedRequests(t *testing.T) int {
	return testenv.Must(strconv.Atoi(cmp.Or(os.Getenv("WEIR_SIMULATE_REQUESTS"), "1500")))(t)
}

// TestSimulate chooses a limit as a new user would: weir simulate finds those who come far too often in a
// log, and suggests amounts. The same requests through a real Envoy and Weir with the suggested
// rules are denied as it said, one by one. And what Envoy then logs of them, in both of its
// formats, is denied by a replay as it was by Weir.
func TestSimulate(t *testing.T) {
	t.Parallel()
	testenv.Envoy(t)
	awayFromMidnight(t)
	dir := t.TempDir()
	logs := map[string]string{"json": filepath.Join(dir, "json.log"), "text": filepath.Join(dir, "text.log")}
	doc := simulatedGateway(logs).bootstrap(t, "127.0.0.1:1")
	config := writeBootstrap(t, doc)
	rule := func(amount float64) string {
		return fmt.Sprintf("domain: api\ndescriptors: [{key: remote_address, rate_limit: {unit: day, requests_per_unit: %.0f}}]\n", amount)
	}

	log := generate(t, simulatedRequests(t))
	report, _ := simulate(t, writeRules(t, rule(log.Amounts[2]/2)), log.file, config, "--suggest")
	limit := report.Limits[0]
	if limit.Clients != log.Clients || len(limit.WorstClients) < len(log.Abusers) {
		t.Fatalf("%d clients, want %d; the worst are %v", limit.Clients, log.Clients, limit.WorstClients)
	}
	for i, a := range log.Abusers {
		if got := limit.WorstClients[i].Client; got != "remote_address="+a.Address {
			t.Errorf("worst client %d is %s, want %s", i, got, a.Address)
		}
	}
	for i, want := range log.Amounts {
		if got := limit.Amounts[i].Amount; got < want*0.99 || got > want*1.01 {
			t.Errorf("amount %d is %v, want %v", i, got, want)
		}
	}

	suggested := writeRules(t, rule(limit.Amounts[2].Amount))
	_, denied := simulate(t, suggested, log.file, config)
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
	replayEnvoysLogs(t, logs, suggested, config, len(requests))
}

// simulatedGateway writes its log in two formats, and takes the client from x-forwarded-for.
func simulatedGateway(logs map[string]string) gateway {
	const format = ", log_format: {json_format: {start_time: '%START_TIME%', method: '%REQ(:METHOD)%', path: '%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%', " +
		"response_code: '%RESPONSE_CODE%', duration: '%DURATION%', authority: '%REQ(:AUTHORITY)%', downstream_remote_address: '%DOWNSTREAM_REMOTE_ADDRESS%'}}"
	return gateway{
		manager:     "use_remote_address: false\naccess_log: [" + fmt.Sprintf(fileLog, logs["json"], format) + ", " + fmt.Sprintf(fileLog, logs["text"], "") + "]",
		virtualHost: forwarded.virtualHost,
	}
}

// replayEnvoysLogs replays what Envoy logged of requests that were denied already.
func replayEnvoysLogs(t *testing.T, logs map[string]string, rules, config string, lines int) {
	t.Helper()
	for format, log := range logs {
		linesOf(t, log, lines)
		report, denied := simulate(t, rules, log, config)
		if report.Unreadable > 0 || report.Lines != int64(lines) {
			t.Errorf("%s: of %d lines %d cannot be read", format, report.Lines, report.Unreadable)
		}
		var want []int
		for _, r := range readLogged(t, logs["json"]) {
			if r.Status == 429 {
				want = append(want, r.line)
			}
		}
		if !slices.Equal(denied, want) {
			t.Errorf("%s: a replay denies %v, want %v", format, denied, want)
		}
	}
}

// TestLargeLog runs the commands of docs/simulate.md for a log with a known truth, with
// fewer lines.
func TestLargeLog(t *testing.T) {
	t.Parallel()
	root, dir := testenv.Repository(t), t.TempDir()
	var script string
	for _, b := range codeBlocks(t, filepath.Join(root, "docs/simulate.md")) {
		if b.language == "sh" {
			script = b.text
		}
	}
	for from, to := range map[string]string{
		"go run ./internal/offline/simulate/accesslog/generate -lines 1000000": buildGenerator(t) + " -lines 50000",
		"go run ./cmd/server": program(t),
		"docs/simulate/":      filepath.Join(root, "docs/simulate") + "/",
	} {
		if !strings.Contains(script, from) {
			t.Fatalf("there is no %q in\n%s", from, script)
		}
		script = strings.ReplaceAll(script, from, to)
	}
	cmd := exec.Command(testenv.Shell(t), "-ec", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var truth knownLog
	testenv.OK(t, json.Unmarshal([]byte(readDocument(t, filepath.Join(dir, "truth.json"))), &truth))
	if len(truth.Abusers) != 3 {
		t.Fatalf("%d abusers", len(truth.Abusers))
	}
	report, _, _ := strings.Cut(string(out), "\n{") // where the truth begins
	for _, a := range truth.Abusers {
		if !strings.Contains(report, "remote_address="+a.Address+" ") {
			t.Errorf("the report does not name %s", a.Address)
		}
	}
	amounts := fmt.Sprintf("%.0f %.0f %.0f", truth.Amounts[0], truth.Amounts[1], truth.Amounts[2])
	if !strings.Contains(strings.Join(strings.Fields(report), " "), "200 per hour "+amounts) {
		t.Errorf("the report does not suggest %s:\n%s", amounts, report)
	}
	if !strings.Contains(readDocument(t, filepath.Join(dir, "report.html")), truth.Abusers[0].Address) {
		t.Error("the page does not name the worst client")
	}
	if *updatePictures {
		files := httptest.NewServer(http.FileServer(http.Dir(dir)))
		t.Cleanup(files.Close)
		p := newTab(testenv.Browser(t), t, files.Listener.Addr().String())
		p.do(chromedp.EmulateViewport(1000, 900))
		p.open("/report.html")
		p.picture(filepath.Join(root, "docs/simulate/report.png"), root+"/", "")
	}
}
