package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"weir/internal/testenv"
)

// operator queries and controls a server with commands.
type operator struct {
	t           *testing.T
	dir, server string // working directory of the commands, and the server's debug address
}

// shell runs a command line, which must succeed and print text that matches all patterns.
func (o operator) shell(command string, patterns ...string) string {
	o.t.Helper()
	out := testenv.Must(shell(o.t, o.dir, command, "WEIR_SERVER=http://"+o.server, "USER=ops"))(o.t)
	for _, pattern := range patterns {
		if !regexp.MustCompile(pattern).MatchString(out) {
			o.t.Errorf("%s: want %s in\n%s", command, pattern, out)
		}
	}
	return out
}

const aDayEach = `domain: api
descriptors:
  - key: path
    value: /health
  - key: user
    rate_limit: {unit: day, requests_per_unit: 20}
`

// TestOperator finds an abusive user with an unknown name among 1,000 users on two servers,
// denies the user on both, and ends the denial.
func TestOperator(t *testing.T) {
	t.Parallel()
	awayFromMidnight(t)
	browser, redis := testenv.Browser(t), testenv.RedisServer(t)
	rules := writeRules(t, aDayEach)
	one, two := startWeir(t, rules, onRedis(redis)...), startWeir(t, rules, onRedis(redis)...)
	abuse(t, one, two)

	// With three commands.
	o := operator{t, t.TempDir(), one.debug}
	top := o.shell("weir top", `on 2 servers`, `rule user \(.*rules.yaml:5:5\)`, `20 per day`, `DENIED +SINCE`)
	found := regexp.MustCompile(`(?m)^ +(\d+) +\d\d:\d\d:\d\d .* (user=\S+)$`).FindStringSubmatch(top)
	if found == nil || found[1] != "280" { // 300 requests, of which 20 are admitted
		t.Fatalf("the first key is %q in\n%s", found, top)
	}
	o.shell("weir peek api "+found[2], `20 per day +20 of 20 +0`)
	o.shell("weir except add api "+found[2]+` --deny --for 1h --reason "scraping"`, `deny api `+found[2]+` until`)

	// In the console, one click leads to the user, the rule and the counters.
	p := newTab(browser, t, two.debug)
	p.open("/console/?servers=all")
	p.wants("panel-keys", "280", found[2], "20 per day", "rules.yaml:5:5")
	p.get(`document.querySelector("#panel-keys .descriptor a").click()`)
	p.wants("panel-descriptor", "rules.yaml:5:5", "20 per day", "An exception applies: deny", "denies every request", "denied")

	// The exception applies on both servers, even if the counters are reset.
	user := strings.TrimPrefix(found[2], "user=")
	both := func(user string, want service.RateLimitResponse_Code) {
		one.waitFor(user, want)
		two.waitFor(user, want)
	}
	o.shell("weir reset api "+found[2], `0 of 20`)
	both(user, service.RateLimitResponse_OVER_LIMIT)
	both("quiet", service.RateLimitResponse_OK)
	o.shell("weir except list", `deny +.*(60|59) min\).* ops +api `+found[2])

	// The exception ends on both servers, at once by a click or when it expires.
	p.open("/console/exceptions")
	p.get(`document.querySelector("[id^=remove-]").click()`)
	both(user, service.RateLimitResponse_OK)
	o.shell("weir except add api " + found[2] + ` --deny --for 2s --reason "once more"`)
	one.waitFor(user, service.RateLimitResponse_OVER_LIMIT)
	both(user, service.RateLimitResponse_OK)
	testenv.Contains(t, one.output.String(), "exception expired", `"@message":"exception added"`, `"reason":"scraping"`, `"by":"ops"`, `"audit":true`)
	testenv.Contains(t, two.output.String(), "exception expired")
}

// abuse sends requests of 1,000 users to the servers. Each server gets 150 requests of one
// user, and one request of every other user.
func abuse(t *testing.T, servers ...*weir) {
	t.Helper()
	var users []string
	for n := range 1000 {
		if n != 613 {
			users = append(users, fmt.Sprintf("u%04d", n))
		}
		if n%20 < 3 {
			users = append(users, "u0613")
		}
	}
	var senders sync.WaitGroup
	for _, w := range servers {
		senders.Go(func() {
			client := dial(t, w.grpc)
			for _, user := range users {
				if _, err := decide(client, request(descriptor("user", user))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	senders.Wait()
}

// waitFor waits until a peek at the limit of a user returns want.
func (w *weir) waitFor(user string, want service.RateLimitResponse_Code) {
	w.t.Helper()
	testenv.Eventually(w.t, func() error {
		got, err := w.peek("api", "user", user)
		if err == nil && got.OverallCode != want {
			err = fmt.Errorf("%s gets %v, want %v", user, got.OverallCode, want)
		}
		return err
	})
}

// at3AM contains patterns for the output of each command in docs/at-3am.md.
var at3AM = map[string][]string{
	"weir top":                    {`rule user \(.*api.yaml:6:5\)`, `SINCE`, `user=alice`},
	"weir top --window minute":    {`5 per minute: \d+ denied`},
	"weir denials api user=alice": {`(?m)^\d\d:\d\d:\d\d +7 +\d\d:\d\d:\d\d .* 5 per minute +\S+api.yaml:6:5 +api user=alice$`},
	"weir peek api user=alice":    {`50? per minute +\d+ of 50?`},
	`weir except add api user=alice --amount 10x --for 6h --reason "import of Monday"`: {`10x api user=alice until .*\(6 h left\)`},
	"weir top --budgets": {`80 % +20 of 100 .* api path=/files/\*`},
	`weir except add api user=alice --allow --for 12h --reason "month end"`: {`allow api user=alice until .*\(12 h left\)`},
	"weir reset api user=alice": {`Set 1 counter to zero`},
	`weir except add api user=mallory --deny --for 1h --reason "scraping"`: {`deny api user=mallory until`},
	"weir status":                 {`health +OK`, `SERVER +VERSION +RULES(?s:.*):\d+ +.* OK`, `requests .* a second`, `counters .*Redis`, `rules .*\n +loaded at`},
	"weir explain api user=alice": {`user`},
	"weir validate /rules":        {`valid`},
	"weir except list":            {`3 exceptions`, `import of Monday`},
	"curl --fail-with-body -X POST http://127.0.0.1:6070/-/reload": {`rules loaded`},
}

// TestAt3AM runs the commands in docs/at-3am.md in order.
func TestAt3AM(t *testing.T) {
	t.Parallel()
	root, redis := testenv.Repository(t), testenv.RedisServer(t)
	w := startWeir(t, filepath.Join(root, "config"), onRedis(redis)...)
	askFor(t, w, 12, "user", "alice")
	askFor(t, w, 80, "path", "/files/a")
	o := operator{t, root, w.debug}
	left := maps.Clone(at3AM)
	for _, b := range codeBlocks(t, "docs/at-3am.md") {
		for line := range strings.Lines(b.text) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "kubectl ") {
				continue // TestKubectlCommands runs it
			}
			shows, known := at3AM[line]
			if !known {
				t.Errorf("nobody knows what %q shows", line)
				continue
			}
			delete(left, line)
			o.shell(strings.NewReplacer("127.0.0.1:6070", w.debug, " /rules", " config").Replace(line), shows...)
		}
	}
	for line := range left {
		t.Errorf("docs/at-3am.md does not run %q", line)
	}
}

// The decision log has lines like the example in docs/operations.md, apart from its trace ID.
func TestDocumentedDecision(t *testing.T) {
	t.Parallel()
	w := startWeir(t, writeRules(t, "domain: api\ndescriptors:\n  - key: user\n    rate_limit: {unit: minute, requests_per_unit: 5}\n"), "DECISION_LOG=denied")
	askFor(t, w, 11, "user", "alice") // one is denied, even if the requests fall into two minutes
	want := decision(t, strings.Replace(documentedBlock(t, "docs/operations.md", `{"time"`), `"shop"`, `"api"`, 1))
	delete(want, "trace_id")
	var line string
	testenv.Until(t, "a decision is logged", func() bool {
		line = regexp.MustCompile(`{"time".*\n`).FindString(w.output.String())
		return line != ""
	})
	testenv.EqualDeep(t, decision(t, line), want, "the logged and the documented decision")
}

// decision returns the fields of a log line, without times and the path of the rules.
func decision(t *testing.T, line string) map[string]string {
	t.Helper()
	var decoded map[string]any
	testenv.OK(t, json.Unmarshal([]byte(line), &decoded))
	fields := map[string]string{}
	for name, value := range decoded {
		fields[name] = fmt.Sprint(value)
	}
	for _, name := range []string{"time", "retry_after"} {
		if fields[name] == "" {
			t.Errorf("no %s in %s", name, line)
		}
		delete(fields, name)
	}
	_, fields["location"], _ = strings.Cut(fields["location"], ".yaml:")
	return fields
}
