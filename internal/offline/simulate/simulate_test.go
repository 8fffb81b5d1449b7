package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/limiter/memory"
	"weir/internal/offline/envoyconfig"
	"weir/internal/plan"
	"weir/internal/testenv"
)

func mustRules(t *testing.T, text string) *descriptors.Tree {
	t.Helper()
	return testenv.Must(descriptors.Load([]descriptors.File{{Name: "rules.yaml", Data: []byte(text)}}, descriptors.Options{}))(t)
}

func mustEnvoy(t *testing.T, text string) *envoyconfig.Config {
	t.Helper()
	return testenv.Must(envoyconfig.Load([]byte(text), "envoy.yaml", envoyconfig.Options{}))(t)
}

func logFile(t *testing.T, text string) string { return testenv.File(t, "access.log", text) }

func mustRun(t *testing.T, o Options) *Report {
	t.Helper()
	return testenv.Must(Run(t.Context(), o))(t)
}

const byAddressAndPath = byAddress + `
  - actions:
      - request_headers: {header_name: x-user, descriptor_key: user}
      - request_headers: {header_name: ":path", descriptor_key: path}
`

// entry is a line of a log.
type entry struct {
	at            time.Time
	address, user string
	path          string
}

func randomLog(random *rand.Rand, n int) (list []entry) {
	at := time.Date(2026, 3, 7, 20, 0, 0, 0, time.UTC)
	for range n {
		at = at.Add(time.Duration(random.IntN(4000)) * time.Millisecond)
		list = append(list, entry{
			at, fmt.Sprintf("10.0.0.%d", random.IntN(4)*random.IntN(8)),
			[]string{"ann", "bob", "eve", "root", "", "a\x1b[31m|=%"}[random.IntN(6)],
			[]string{"/a", "/b", "/free", "/" + strings.Repeat("long", 40)}[random.IntN(4)],
		})
	}
	return list
}

func (e entry) json() string {
	m := map[string]any{"start_time": e.at.Format("2006-01-02T15:04:05.000Z"), "method": "GET", "path": e.path, "duration": 5, "downstream_remote_address": e.address + ":1234"}
	if e.user != "" {
		m["x_user"] = e.user
	}
	data, _ := json.Marshal(m)
	return string(data)
}

// serverDenies returns the numbers of the lines that a server with a memory store would deny.
func serverDenies(t *testing.T, tree *descriptors.Tree, list []entry) (denied []int) {
	now := time.Time{}
	store, planner, p := memory.New(memory.Options{Now: func() time.Time { return now }}), plan.New(plan.Options{}), plan.Plan{}
	for i, e := range list {
		now = e.at
		request := plan.Request{Domain: "api", Descriptors: []plan.Descriptor{{Entries: []limiter.Entry{{Key: "remote_address", Value: e.address}}}}}
		if e.user != "" {
			request.Descriptors = append(request.Descriptors, plan.Descriptor{Entries: []limiter.Entry{{Key: "user", Value: e.user}, {Key: "path", Value: e.path}}})
		}
		testenv.OK(t, planner.Prepare(&p, tree, &request))
		if over, err := store.Decide(t.Context(), p.Hits, make([]limiter.Decision, len(p.Hits))); err != nil {
			t.Fatal(err)
		} else if over {
			denied = append(denied, i+1)
		}
	}
	return denied
}

var lineOf = regexp.MustCompile(`(?m)^[^\t]*:(\d+)\t`)

// deniedLines returns the line numbers in the output of Options.Denied, sorted.
func deniedLines(text string) (lines []int) {
	for _, m := range lineOf.FindAllStringSubmatch(text, -1) {
		n := 0
		_, _ = fmt.Sscan(m[1], &n)
		lines = append(lines, n)
	}
	slices.Sort(lines)
	return lines
}

// A replay denies the same requests as a server with a memory store. The log is in order, out of order, in
// several files, or compressed.
func TestLikeServer(t *testing.T) {
	tree, config := mustRules(t, string(testenv.Must(os.ReadFile("testdata/limits.yaml"))(t))), mustEnvoy(t, byAddressAndPath)
	list := randomLog(rand.New(rand.NewPCG(3, 3)), 8_000)
	want := serverDenies(t, tree, list)
	if len(want) < 1000 || len(want) > 7_000 {
		t.Fatalf("%d are denied, which tests little", len(want))
	}
	var plain, disordered bytes.Buffer
	for _, e := range list {
		plain.WriteString(e.json() + "\n")
	}
	order := make([]int, len(list)) // order[i] is the entry of line i+1
	for i := range order {
		order[i] = i
	}
	for i := 0; i+12 <= len(order); i += 12 { // 12 lines are 48 seconds at most
		rand.New(rand.NewPCG(9, uint64(i))).Shuffle(12, func(a, b int) { order[i+a], order[i+b] = order[i+b], order[i+a] })
	}
	for _, i := range order {
		disordered.WriteString(list[i].json() + "\n")
	}
	parts := make([]bytes.Buffer, 3)
	for i, e := range list {
		parts[i*7%3].WriteString(e.json() + "\n")
	}
	for name, files := range map[string][]string{
		"in order": {plain.String()}, "disorder": {disordered.String()}, "gzip": {testenv.Gzip(t, plain.String())},
		"several files": {parts[0].String(), parts[1].String(), parts[2].String()},
	} {
		t.Run(name, func(t *testing.T) {
			var logs []string
			for _, data := range files {
				logs = append(logs, logFile(t, data))
			}
			var denied bytes.Buffer
			r := mustRun(t, Options{Logs: logs, Envoy: config, Rules: tree, Denied: &denied, Shares: map[bool][]float64{true: {0, 0.001, 0.01}}[name != "gzip"]})
			got := deniedLines(denied.String())
			if name == "disorder" {
				for i, n := range got {
					got[i] = order[n-1] + 1
				}
				slices.Sort(got)
			}
			if len(got) != len(want) || len(files) == 1 && !slices.Equal(got, want) || r.Denied != uint64(len(want)) || r.Late != 0 {
				t.Errorf("%d requests are denied, %d in the file, want %d; %d late", r.Denied, len(got), len(want), r.Late)
			}
		})
	}
}

const perAddress = `
domain: api
descriptors:
  - key: remote_address
    rate_limit: {unit: minute, requests_per_unit: 2}
`

const byAddress = `
domain: api
rate_limits:
  - actions:
      - remote_address: {}
`

// Unreadable lines are counted, and the first of them are shown without control characters.
func TestUnreadableLines(t *testing.T) {
	good := entry{time.Unix(1_700_000_000, 0).UTC(), "10.0.0.1", "", "/"}.json()
	data := "\x1b]0;owned\x07\n\n" + good + "\r\n{\"start_time\":\"never\"}\n" + strings.Repeat("z", 1<<20) + "\n<script>alert(1)</script>\n" + strings.Repeat("\xff\x00\n", 50) + good
	r := mustRun(t, Options{Logs: []string{logFile(t, data)}, Envoy: mustEnvoy(t, byAddress), Rules: mustRules(t, perAddress)})
	if r.Lines != 56 || r.Unreadable != 54 || r.Requests != 2 || len(r.WrongLines) != maxShown {
		t.Errorf("%+v", r)
	}
	var shown []string
	for _, w := range r.WrongLines {
		shown = append(shown, strings.TrimPrefix(w.String(), w.Log))
	}
	for _, want := range []string{`:1: unknown format: \x1b]0;owned\a`, ":5: unknown format: " + strings.Repeat("z", 100) + "...", `:4: no readable time: {"start_time":"never"}`, `:6: unknown format: <script>alert(1)</script>`, `:7: unknown format: \xff\x00`} {
		if !slices.Contains(shown, want) {
			t.Errorf("%q is not among %q", want, shown)
		}
	}
}

// A log without a readable line is an error with the reason, even if there are other logs.
func TestNothingToRead(t *testing.T) {
	line := entry{time.Unix(1_700_000_000, 0).UTC(), "10.0.0.1", "", "/"}.json()
	good, mixed := logFile(t, line), logFile(t, strings.Repeat("?\n", 10)+line)
	empty, blank, bad := logFile(t, ""), logFile(t, "\n\r\n\n"), logFile(t, "no\nlog\n")
	short := logFile(t, testenv.Gzip(t, line)[:15])
	broken := logFile(t, "\x1f\x8bno gzip at all")
	for _, test := range []struct {
		logs []string
		want []string
	}{
		{[]string{good}, nil},
		{[]string{mixed, good}, nil},
		{[]string{empty}, []string{empty + ": the log is empty"}},
		{[]string{bad}, []string{bad + ": no readable line", bad + ":1: unknown format: no", bad + ":2: unknown format: log"}},
		{[]string{good, bad}, []string{bad + ": no readable line", bad + ":1: unknown format: no", bad + ":2: unknown format: log"}},
		{[]string{good, empty}, []string{empty + ": the log is empty"}},
		{[]string{blank, good}, []string{blank + ": the log is empty"}},
		{[]string{short}, []string{short + ": unexpected EOF"}},
		{[]string{good, broken}, []string{broken + ": gzip: invalid header"}},
		{[]string{empty, good, broken}, []string{empty + ": the log is empty", broken + ": gzip: invalid header"}},
		{[]string{mixed, bad}, []string{bad + ": no readable line", bad + ":1: unknown format: no", bad + ":2: unknown format: log"}},
	} {
		_, err := Run(t.Context(), Options{Logs: test.logs, Envoy: mustEnvoy(t, byAddress), Rules: mustRules(t, perAddress)})
		if (err == nil) != (test.want == nil) || err != nil && err.Error() != strings.Join(test.want, "\n") {
			t.Errorf("%v: %v, want %q", test.logs, err, test.want)
		}
	}
	dir := t.TempDir()
	for log, want := range map[string]string{dir: "is a directory", filepath.Join(dir, "none"): "no such file"} {
		_, err := Run(t.Context(), Options{Logs: []string{log}, Envoy: mustEnvoy(t, byAddress), Rules: mustRules(t, perAddress)})
		testenv.Contains(t, fmt.Sprint(err), want)
	}
}
