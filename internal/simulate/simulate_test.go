package simulate

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/descriptors"
	"weir/internal/envoyconfig"
	"weir/internal/limiter"
	"weir/internal/limiter/memstore"
	"weir/internal/plan"
)

func mustRules(t *testing.T, text string) *descriptors.Tree {
	t.Helper()
	tree, err := descriptors.Load([]descriptors.File{{Name: "rules.yaml", Data: []byte(text)}}, descriptors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func mustEnvoy(t *testing.T, text string) *envoyconfig.Config {
	t.Helper()
	c, err := envoyconfig.Load([]byte(text), "envoy.yaml", envoyconfig.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func logFile(t *testing.T, data []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func mustRun(t *testing.T, o Options) *Report {
	t.Helper()
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// byAddressAndPath is a mapping with two descriptors, one of which has a hold.
const byAddressAndPath = `
domain: api
rate_limits:
  - actions:
      - remote_address: {}
  - actions:
      - request_headers: {header_name: x-user, descriptor_key: user}
      - request_headers: {header_name: ":path", descriptor_key: path}
`

// manyLimits has a limit of each kind.
const manyLimits = `
domain: api
descriptors:
  - key: remote_address
    rate_limits:
      - {unit: minute, requests_per_unit: 12}
      - {unit: hour, requests_per_unit: 90, algorithm: sliding_window}
      - {unit: day, requests_per_unit: 300, anchor: calendar, time_zone: America/New_York, shadow_mode: true}
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 80, algorithm: token_bucket, burst: 20}
    below: true
    descriptors:
      - key: path
        value: /a
        rate_limit: {unit: minute, requests_per_unit: 5, anchor: first_hit, deny_for: 2m}
      - key: path
        value: /free
        rate_limit: {unlimited: true}
      - key: path
        rate_limit: {unit: hour, requests_per_unit: 40, algorithm: token_bucket, charge: always}
  - key: user
    value: root
otherwise:
  rate_limit: {unit: hour, requests_per_unit: 30}
`

// entry is a line of a random log.
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

// serverDenies returns the numbers of the lines that a server would deny, on its own store and clock.
func serverDenies(t *testing.T, tree *descriptors.Tree, list []entry) (denied []int) {
	now := time.Time{}
	store, planner, p := memstore.New(memstore.Options{Now: func() time.Time { return now }}), plan.New(plan.Options{}), plan.Plan{}
	for i, e := range list {
		now = e.at
		request := plan.Request{Domain: "api", Descriptors: []plan.Descriptor{{Entries: []limiter.Entry{{Key: "remote_address", Value: e.address}}}}}
		if e.user != "" {
			request.Descriptors = append(request.Descriptors, plan.Descriptor{Entries: []limiter.Entry{{Key: "user", Value: e.user}, {Key: "path", Value: e.path}}})
		}
		if err := planner.Prepare(&p, tree, &request); err != nil {
			t.Fatal(err)
		}
		if over, err := store.Decide(t.Context(), p.Hits, p.Decisions); err != nil {
			t.Fatal(err)
		} else if over {
			denied = append(denied, i+1)
		}
	}
	return denied
}

var lineOf = regexp.MustCompile(`(?m)^[^\t]*:(\d+)\t`)

// deniedLines returns the numbers of lines in what Options.Denied took.
func deniedLines(text string) (lines []int) {
	for _, m := range lineOf.FindAllStringSubmatch(text, -1) {
		n := 0
		_, _ = fmt.Sscan(m[1], &n)
		lines = append(lines, n)
	}
	slices.Sort(lines)
	return lines
}

// A replay denies what a server with a memory store denies, request by request: in order, out of order, from
// several files, and from gzip.
func TestLikeServer(t *testing.T) {
	tree, config := mustRules(t, manyLimits), mustEnvoy(t, byAddressAndPath)
	list := randomLog(rand.New(rand.NewPCG(3, 3)), 20_000)
	want := serverDenies(t, tree, list)
	if len(want) < 1000 || len(want) > 19_000 {
		t.Fatalf("%d are denied, which tests little", len(want))
	}
	var plain, disordered bytes.Buffer
	for _, e := range list {
		plain.WriteString(e.json() + "\n")
	}
	order := make([]int, len(list)) // line i+1 is that of order[i]
	for i := range order {
		order[i] = i
	}
	for i := 0; i+12 <= len(order); i += 12 { // 12 lines are 48 seconds at most
		rand.New(rand.NewPCG(9, uint64(i))).Shuffle(12, func(a, b int) { order[i+a], order[i+b] = order[i+b], order[i+a] })
	}
	for _, i := range order {
		disordered.WriteString(list[i].json() + "\n")
	}
	for name, data := range map[string][]byte{"in order": plain.Bytes(), "disorder": disordered.Bytes(), "gzip": zipped(t, plain.Bytes())} {
		t.Run(name, func(t *testing.T) {
			var denied bytes.Buffer
			r := mustRun(t, Options{Logs: []string{logFile(t, data)}, Envoy: config, Rules: tree, Denied: &denied, Suggest: name != "gzip"})
			got := deniedLines(denied.String())
			if name == "disorder" {
				for i, n := range got {
					got[i] = order[n-1] + 1
				}
				slices.Sort(got)
			}
			if !slices.Equal(got, want) || r.Denied != uint64(len(want)) || r.Late != 0 {
				t.Errorf("%d requests are denied, %d in the file, want %d; %d late", r.Denied, len(got), len(want), r.Late)
			}
		})
	}
	t.Run("several files", func(t *testing.T) {
		var parts [3]bytes.Buffer
		for i, e := range list {
			parts[i*7%3].WriteString(e.json() + "\n")
		}
		logs := []string{}
		for i := range parts {
			logs = append(logs, logFile(t, parts[i].Bytes()))
		}
		if r := mustRun(t, Options{Logs: logs, Envoy: config, Rules: tree}); r.Denied != uint64(len(want)) || r.Late != 0 {
			t.Errorf("%d requests are denied, want %d; %d late", r.Denied, len(want), r.Late)
		}
	})
}

func zipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
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

// Lines that cannot be read are counted, and the first are shown without their control characters.
func TestUnreadableLines(t *testing.T) {
	good := entry{time.Unix(1_700_000_000, 0).UTC(), "10.0.0.1", "", "/"}.json()
	data := "\x1b]0;owned\x07\n\n" + good + "\r\n{\"start_time\":\"never\"}\n" + strings.Repeat("z", 1<<20) + "\n<script>alert(1)</script>\n" + strings.Repeat("\xff\x00\n", 50) + good
	r := mustRun(t, Options{Logs: []string{logFile(t, []byte(data))}, Envoy: mustEnvoy(t, byAddress), Rules: mustRules(t, perAddress)})
	if r.Lines != 56 || r.Unreadable != 54 || r.Requests != 2 || len(r.WrongLines) != maxShown {
		t.Errorf("%+v", r)
	}
	var shown []string
	for _, w := range r.WrongLines {
		shown = append(shown, strings.TrimPrefix(w.String(), w.Log))
	}
	for _, want := range []string{`:1: it has no known format: \x1b]0;owned\a`, `:4: it has no time that can be read: {"start_time":"never"}`, `:6: it has no known format: <script>alert(1)</script>`, `:7: it has no known format: \xff\x00`} {
		if !slices.Contains(shown, want) {
			t.Errorf("%q is not among %q", want, shown)
		}
	}
	if !slices.ContainsFunc(r.WrongLines, func(w WrongLine) bool { return w.Line == 5 && strings.Contains(w.Why, "more than") }) {
		t.Errorf("the long line is not among %v", r.WrongLines)
	}
}

// A log without a line that can be read is an error that says why, beside good ones too.
func TestNothingToRead(t *testing.T) {
	line := entry{time.Unix(1_700_000_000, 0).UTC(), "10.0.0.1", "", "/"}.json()
	good, mixed := logFile(t, []byte(line)), logFile(t, []byte(strings.Repeat("?\n", 10)+line))
	empty, blank, bad := logFile(t, nil), logFile(t, []byte("\n\r\n\n")), logFile(t, []byte("no\nlog\n"))
	short := logFile(t, zipped(t, []byte(line))[:15])
	broken := logFile(t, []byte("\x1f\x8bno gzip at all"))
	for _, test := range []struct {
		logs []string
		want []string
	}{
		{[]string{good}, nil},
		{[]string{mixed, good}, nil},
		{[]string{empty}, []string{empty + ": there is no line"}},
		{[]string{bad}, []string{bad + ": no line can be read", bad + ":1: it has no known format: no", bad + ":2: it has no known format: log"}},
		{[]string{good, bad}, []string{bad + ": no line can be read", bad + ":1: it has no known format: no", bad + ":2: it has no known format: log"}},
		{[]string{good, empty}, []string{empty + ": there is no line"}},
		{[]string{blank, good}, []string{blank + ": there is no line"}},
		{[]string{short}, []string{short + ": unexpected EOF"}},
		{[]string{good, broken}, []string{broken + ": gzip: invalid header"}},
		{[]string{empty, good, broken}, []string{empty + ": there is no line", broken + ": gzip: invalid header"}},
		{[]string{mixed, bad}, []string{bad + ": no line can be read", bad + ":1: it has no known format: no", bad + ":2: it has no known format: log"}},
	} {
		_, err := Run(t.Context(), Options{Logs: test.logs, Envoy: mustEnvoy(t, byAddress), Rules: mustRules(t, perAddress)})
		if (err == nil) != (test.want == nil) || err != nil && err.Error() != strings.Join(test.want, "\n") {
			t.Errorf("%v: %v, want %q", test.logs, err, test.want)
		}
	}
	_, err := Run(t.Context(), Options{Logs: []string{filepath.Join(t.TempDir(), "none")}, Envoy: mustEnvoy(t, byAddress), Rules: mustRules(t, perAddress)})
	if !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// requests writes a log of requests of clients, each at a second, with a duration in milliseconds.
func requests(t *testing.T, of ...string) string {
	t.Helper()
	var b bytes.Buffer
	for i, text := range of {
		var address string
		var duration int
		_, _ = fmt.Sscan(text, &address, &duration)
		fmt.Fprintf(&b, `{"start_time":%d,"path":"/","downstream_remote_address":"%s","duration":%d,"request_id":"id-%d"}`+"\n", 1_700_000_040+i, address, duration, i)
	}
	return logFile(t, b.Bytes())
}

// What is in flight ends with its request, or after the period.
func TestInFlight(t *testing.T) {
	rules := mustRules(t, `
domain: api
descriptors:
  - key: remote_address
    rate_limit: {algorithm: concurrency, requests_per_unit: 1, unit: minute}
`)
	config := mustEnvoy(t, `
domain: api
rate_limits:
  - actions: &actions
      - remote_address: {}
      - request_headers: {header_name: x-request-id, descriptor_key: request_id}
  - actions: *actions
    apply_on_stream_done: true
    hits_addend: {number: 1, is_negative_hits: true}
`)
	var denied bytes.Buffer
	log := requests(t, "10.0.0.1 2500", "10.0.0.1 100", "10.0.0.2 1", "10.0.0.1 100", "10.0.0.1 100", "10.0.0.2 1")
	r := mustRun(t, Options{Logs: []string{log}, Envoy: config, Rules: rules, Suggest: true, Denied: &denied})
	if got := fmt.Sprint(deniedLines(denied.String())); got != "[2]" {
		t.Errorf("denied are lines %s, want only that while the first was in flight", got)
	}
	if got := r.Limits[0].Amounts[0].Amount; got != 2 {
		t.Errorf("suggested are %d in flight, want 2", got)
	}
}

func TestCompare(t *testing.T) {
	config := mustEnvoy(t, byAddress)
	now, old := mustRules(t, perAddress), mustRules(t, strings.Replace(perAddress, "requests_per_unit: 2", "requests_per_unit: 4", 1))
	log := requests(t, "10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.3", "10.0.0.3")
	c := mustRun(t, Options{Logs: []string{log}, Envoy: config, Rules: now, Old: old}).Compared
	if c.DeniedBefore != 1 || c.NowOnly.Requests != 3 || c.NowOnly.Clients != 2 || c.BeforeOnly.Requests != 0 {
		t.Errorf("%+v", c)
	}
	if got := fmt.Sprint(c.NowOnly.WorstClients); got != "[{remote_address=10.0.0.1 2 0} {remote_address=10.0.0.3 1 0}]" {
		t.Error(got)
	}
	c = mustRun(t, Options{Logs: []string{log}, Envoy: config, Rules: old, Old: now}).Compared
	if c.DeniedBefore != 4 || c.NowOnly.Requests != 0 || c.BeforeOnly.Requests != 3 || c.BeforeOnly.Clients != 2 {
		t.Errorf("the reverse: %+v", c)
	}
}

// Clients that both sets of rules deny are told from those that only one denies, also if their limits count
// by other keys.
func TestClientsOfComparison(t *testing.T) {
	log := requests(t, "10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.3", "10.0.0.3")
	old := strings.Replace(perAddress, "requests_per_unit: 2", "requests_per_unit: 4", 1)
	for name, rules := range map[string][2]string{
		"of a minute": {perAddress, old},
		"of an hour":  {perAddress, strings.Replace(old, "minute", "hour", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			options := Options{Logs: []string{log}, Envoy: mustEnvoy(t, byAddress), Rules: mustRules(t, rules[0]), Old: mustRules(t, rules[1])}
			r := mustRun(t, options)
			if d := r.Compared.NowOnly; d.Requests != 3 || d.Clients != 2 || d.ClientsOnly != 1 {
				t.Errorf("%+v", d)
			}
			options.Rules, options.Old = options.Old, options.Rules
			back := mustRun(t, options)
			if d := back.Compared.BeforeOnly; d.Requests != 3 || d.Clients != 2 || d.ClientsOnly != 1 {
				t.Errorf("the reverse: %+v", d)
			}
			var text, html bytes.Buffer
			if err := errors.Join(r.WriteText(&text), r.WriteHTML(&html), back.WriteText(&text), back.WriteHTML(&html)); err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{
				"denied now, and not by the old rules: 3 requests of 2 clients, of whom 1 were never denied before\n",
				"denied by the old rules, and not now: 0 requests\n",
				"denied by the old rules, and not now: 3 requests of 2 clients, of whom 1 are never denied now\n",
				"<p>3 requests of 2 clients, of whom 1 were never denied before</p>",
				"<p>3 requests of 2 clients, of whom 1 are never denied now</p>",
			} {
				if !strings.Contains(text.String()+html.String(), want) {
					t.Errorf("%q is not in\n%s%s", want, text.String(), html.String())
				}
			}
		})
	}
}

// SHADOW_MODE and QUOTA_MODE work as the fields do in every rule, and the report says first that they are on.
func TestModes(t *testing.T) {
	const rules = `
domain: api
descriptors:
  - key: remote_address
    rate_limit: {unit: minute, requests_per_unit: 2}
  - key: user
    descriptors:
      - key: path
        rate_limit: {unit: minute, requests_per_unit: 3}
otherwise:
  rate_limit: {unit: minute, requests_per_unit: 1}
`
	var data bytes.Buffer
	for _, e := range randomLog(rand.New(rand.NewPCG(5, 5)), 500) {
		data.WriteString(e.json() + "\n")
	}
	each := func(field string) string {
		return regexp.MustCompile(`( *)rate_limit: .*\n`).ReplaceAllString(rules, "$0${1}"+field+"\n")
	}
	config := mustEnvoy(t, byAddressAndPath+"  - actions: [{generic_key: {descriptor_value: all}}]\n")
	for _, test := range []struct {
		field, warning string
		plan           plan.Options
	}{
		{"shadow_mode", "SHADOW_MODE is on: no request is denied", plan.Options{ShadowMode: true}},
		{"quota_mode", "QUOTA_MODE is on: a request is denied only if all its limits are over", plan.Options{QuotaMode: true}},
	} {
		t.Run(test.field, func(t *testing.T) {
			run := func(rules string, by plan.Options) *Report {
				return mustRun(t, Options{Logs: []string{logFile(t, data.Bytes())}, Envoy: config, Rules: mustRules(t, rules), Plan: by, Suggest: true})
			}
			got, want := run(rules, test.plan), run(each(test.field+": true"), plan.Options{})
			for i := range want.Limits {
				got.Limits[i].Place = want.Limits[i].Place
			}
			if !reflect.DeepEqual(got.Limits, want.Limits) || got.Denied != want.Denied || got.Limits[0].Denied == 0 {
				t.Errorf("%+v\nwant\n%+v", got, want)
			}
			if !slices.Equal(got.Warnings, []string{test.warning}) || want.Warnings != nil {
				t.Errorf("warnings are %q and %q", got.Warnings, want.Warnings)
			}
			var text bytes.Buffer
			if err := got.WriteText(&text); err != nil || !strings.HasPrefix(text.String(), "warning: "+test.warning+"\n500 lines") {
				t.Errorf("%v:\n%s", err, text.String())
			}
		})
	}
}

// In SHADOW_MODE, a quota that is over denies nothing if another has room, as without it.
func TestQuotasInShadowMode(t *testing.T) {
	rules := mustRules(t, `
domain: api
descriptors:
  - {key: remote_address, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: all, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 3}}
`)
	config := mustEnvoy(t, byAddress+"  - actions: [{generic_key: {descriptor_key: all, descriptor_value: all}}]\n")
	log := requests(t, "10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1")
	r := mustRun(t, Options{Logs: []string{log}, Envoy: config, Rules: rules, Plan: plan.Options{ShadowMode: true}})
	if r.Denied != 0 || r.Limits[0].Denied != 1 || r.Limits[1].Denied != 1 || !r.Limits[0].Shadow {
		t.Errorf("%+v, want the last request to be over both", r)
	}
}

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
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteHTML(&html); err != nil {
		t.Fatal(err)
	}
	if r.Denied != 10 || !strings.Contains(text.String(), `user=\x1b[31mred, path=/`) || !strings.Contains(text.String(), `user=<script>alert(1)</script>`) {
		t.Errorf("text is\n%s", text.String())
	}
	if strings.ContainsAny(text.String()+html.String(), "\x1b\u202e") || strings.Contains(html.String(), "<script") || strings.Contains(html.String(), "<svg onload") || len(html.String()) > 20_000 {
		t.Errorf("page is\n%s", html.String())
	}
	if !strings.Contains(html.String(), `<path class="denied" d="M`) || strings.Contains(html.String(), "http") && !strings.Contains(html.String(), "http-equiv") {
		t.Errorf("there is no drawing in\n%s", html.String())
	}
	if strings.Contains(html.String(), "ZgotmplZ") {
		t.Error("the template refuses a value")
	}
}

// The report begins with what is likely to be wrong with it: parts of requests that Envoy's configuration looks at and
// no line has, and that nothing at all was limited.
func TestWarnings(t *testing.T) {
	const (
		noUser    = `Envoy's configuration looks at the header "x-user", and no line has it (see --fields)`
		noAddress = "Envoy's configuration looks at the remote_address of requests, and no line has it (see --fields)"
		noIP      = `Envoy's configuration looks at the remote_address of requests, and no line has an IP address that Envoy takes for it, only such as the remote_address "example.com"`
		nothing   = "no request asks for a limit of the rules"
		foreign   = `Envoy asks for the domain "shop", and the rules have nothing for it; they are for "api"`
	)
	for _, test := range []struct {
		name, envoy, log string
		rules            string
		want             []string
	}{
		{"all is there", byAddress, requests(t, "10.0.0.1"), perAddress, nil},
		{"no header", byAddressAndPath, requests(t, "10.0.0.1"), perAddress, []string{noUser}},
		{"no address", byAddress, requests(t, ""), perAddress, []string{nothing, noAddress}},
		{"no IP address", byAddress, requests(t, "example.com", "example.com"), perAddress, []string{nothing, noIP}},
		{"an IP address later", byAddress, requests(t, "example.com", "10.0.0.1"), perAddress, nil},
		{"no rule", byAddress, requests(t, "10.0.0.1"), strings.Replace(perAddress, "remote_address", "user", 1), []string{nothing}},
		{"other domain", strings.Replace(byAddress, "api", "shop", 1), requests(t, "10.0.0.1"), perAddress, []string{nothing, foreign}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := mustRun(t, Options{Logs: []string{test.log}, Envoy: mustEnvoy(t, test.envoy), Rules: mustRules(t, test.rules)})
			if !slices.Equal(r.Warnings, test.want) || r.Notes != nil {
				t.Errorf("warnings are %q, want %q; notes are %q", r.Warnings, test.want, r.Notes)
			}
			var text, html bytes.Buffer
			if err := errors.Join(r.WriteText(&text), r.WriteHTML(&html)); err != nil {
				t.Fatal(err)
			}
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
	rules := mustRules(t, "domain: api\notherwise: {rate_limit: {unit: minute, requests_per_unit: 2, charge: always}}\n")
	r := mustRun(t, Options{Logs: []string{requests(t, "10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1")}, Envoy: config, Rules: rules})
	l := r.Limits[0]
	if l.Requests != 4 || l.Denied != 3 || l.Clients != 2 || l.WorstMinute.count != (count{4, 3}) || l.Series.Counts[0] != (count{4, 3}) {
		t.Errorf("%+v", l)
	}
	if got := fmt.Sprint(l.WorstClients); got != "[{generic_key=all 3 0} {remote_address=10.0.0.1 2 0}]" {
		t.Error(got)
	}
}

// twoDomains asks for a limit of two domains.
const twoDomains = `
static_resources:
  listeners:
    - name: a
      filter_chains:
        - filters:
            - typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                http_filters:
                  - {name: a, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit, domain: api}}
                  - {name: b, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit, domain: shop}}
                route_config:
                  virtual_hosts: [{name: a, domains: ["*"], rate_limits: [{actions: [{remote_address: {}}]}], routes: [{match: {prefix: /}, route: {cluster: a}}]}]
`

// Domains of Envoy for which there are no rules are named, and those of the rules: in a warning if no limit was
// asked for.
func TestForeignDomain(t *testing.T) {
	old := mustRules(t, strings.Replace(perAddress, "api", "old", 1))
	r := mustRun(t, Options{Logs: []string{requests(t, "10.0.0.1")}, Envoy: mustEnvoy(t, twoDomains), Rules: mustRules(t, perAddress), Old: old})
	warnings := []string{
		"no request asks for a limit of the old rules",
		`Envoy asks for the domain "api", and the old rules have nothing for it; they are for "old"`,
		`Envoy asks for the domain "shop", and the old rules have nothing for it; they are for "old"`,
	}
	notes := []string{`Envoy asks for the domain "shop", and the rules have nothing for it; they are for "api"`}
	if !slices.Equal(r.Warnings, warnings) || !slices.Equal(r.Notes, notes) {
		t.Errorf("warnings are %q, want %q; notes are %q, want %q", r.Warnings, warnings, r.Notes, notes)
	}
}

// What Envoy's configuration says and a replay leaves out is noted once.
func TestNotesOfEnvoy(t *testing.T) {
	config := mustEnvoy(t, byAddress+"  - actions: [{source_cluster: {}}]\n")
	r := mustRun(t, Options{Logs: []string{requests(t, "10.0.0.1")}, Envoy: config, Rules: mustRules(t, perAddress)})
	if len(r.Notes) != 1 || strings.Count(r.Notes[0], "left out") != 1 || !strings.HasPrefix(r.Notes[0], "envoy.yaml:6:") {
		t.Errorf("notes are %q", r.Notes)
	}
}

// JSON has names in lower case only.
func TestNamesInJSON(t *testing.T) {
	log := requests(t, "10.0.0.1", "10.0.0.1", "10.0.0.1")
	rules := mustRules(t, perAddress)
	r := mustRun(t, Options{Logs: []string{log}, Envoy: mustEnvoy(t, byAddress), Rules: rules, Old: rules, Suggest: true})
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if names := regexp.MustCompile(`"[^"]*[A-Z][^"]*":`).FindAll(data, -1); names != nil || !bytes.Contains(data, []byte(`"worst_minute":{"at":"2023-11-14T22:14:00Z","requests":3,"denied":1}`)) {
		t.Errorf("%q in %s", names, data)
	}
}

// An interruption ends a run, whatever is read.
func TestInterruption(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, Options{Logs: []string{requests(t, "10.0.0.1")}, Envoy: mustEnvoy(t, byAddress), Rules: mustRules(t, perAddress)}); err == nil {
		t.Error("there is no error")
	}
}

func TestProgress(t *testing.T) {
	p := Progress{Lines: 1000, Read: 250, Size: 1000, Elapsed: time.Minute}
	if got, want := p.Line(), "[=======                       ]  25 %  1,000 lines  3m0s left"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := (Progress{Lines: 5}).Line(), "5 lines"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestWithoutPort(t *testing.T) {
	for address, want := range map[string]string{"10.0.0.1:80": "10.0.0.1", "10.0.0.1": "10.0.0.1", "[::1]:80": "::1", "[::1]": "::1", "2001:db8::1": "2001:db8::1", "": "", "[": ""} {
		if got := withoutPort(address); got != want {
			t.Errorf("%q is %q, want %q", address, got, want)
		}
	}
}
