package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"weir/internal/testenv"
)

// operator asks and steers a server by commands, as weir is in PATH.
type operator struct {
	t   *testing.T
	dir string // where commands run
	env []string
}

func newOperator(t *testing.T, w *weir, dir string) *operator {
	t.Helper()
	path := filepath.Dir(program(t)) + string(os.PathListSeparator) + os.Getenv("PATH")
	return &operator{t: t, dir: dir, env: append(os.Environ(), "PATH="+path, "WEIR_SERVER=http://"+w.debug, "USER=ops")}
}

// shell runs a command line, which must succeed and print what matches all patterns.
func (o *operator) shell(command string, patterns ...string) string {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, testenv.Shell(o.t), "-euc", command)
	cmd.Dir, cmd.Env = o.dir, o.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		o.t.Fatalf("%s: %v\n%s", command, err, out)
	}
	for _, pattern := range patterns {
		if !regexp.MustCompile(pattern).Match(out) {
			o.t.Errorf("%s: want %s in\n%s", command, pattern, out)
		}
	}
	return string(out)
}

const aDayEach = `domain: api
descriptors:
  - key: path
    value: /health
  - key: user
    rate_limit: {unit: day, requests_per_unit: 20}
`

// TestOperator finds one abusive user among 1,000 on two servers, whose name it does not
// know, denies it on both, and sees that end.
func TestOperator(t *testing.T) {
	t.Parallel()
	awayFromMidnight(t)
	browser, redis := testenv.Browser(t), testenv.RedisServer(t)
	rules := writeRules(t, aDayEach)
	one, two := startWeir(t, rules, onRedis(redis)...), startWeir(t, rules, onRedis(redis)...)
	abuse(t, one, two)

	// Three commands.
	o := newOperator(t, one, t.TempDir())
	top := o.shell("weir top", `on 2 servers`, `rule user \(.*rules.yaml:5:5\)`, `20 per day`, `DENIED +SINCE`)
	found := regexp.MustCompile(`(?m)^ +(\d+) +\d\d:\d\d:\d\d .* (user=\S+)$`).FindStringSubmatch(top)
	if found == nil || found[1] != "280" { // 300 less the 20 that pass
		t.Fatalf("the first key is %q in\n%s", found, top)
	}
	o.shell("weir peek api "+found[2], `20 per day +20 of 20 +0`)
	o.shell("weir except add api "+found[2]+` --deny --for 1h --reason "scraping"`, `deny api `+found[2]+` until`)

	// Or one click, which leads to the user, the rule and the counters.
	p := newTab(browser, t, two.debug)
	p.open("/console/?servers=all")
	p.wants("panel-keys", "280", found[2], "20 per day", "rules.yaml:5:5")
	p.get(`document.querySelector("#panel-keys .descriptor a").click()`)
	p.wants("panel-explain", "rules.yaml:5:5", "20 per day", "An exception applies: deny", "denies every request", "denied")

	// It holds on both, whatever the counters say.
	user := strings.TrimPrefix(found[2], "user=")
	o.shell("weir reset api "+found[2], `0 of 20`)
	for _, w := range []*weir{one, two} {
		w.waitFor(user, service.RateLimitResponse_OVER_LIMIT)
		w.waitFor("quiet", service.RateLimitResponse_OK)
	}
	o.shell("weir except list", `deny +.*(60|59) min\).* ops +api `+found[2])

	// It ends on both: at once by a click, and by itself when its time is over.
	p.open("/console/exceptions")
	p.get(`document.querySelector("[id^=remove-]").click()`)
	for _, w := range []*weir{one, two} {
		w.waitFor(user, service.RateLimitResponse_OK)
	}
	o.shell("weir except add api " + found[2] + ` --deny --for 2s --reason "once more"`)
	one.waitFor(user, service.RateLimitResponse_OVER_LIMIT)
	for _, w := range []*weir{one, two} {
		w.waitFor(user, service.RateLimitResponse_OK)
		if !strings.Contains(w.output.String(), "exception expired") {
			t.Error("a server does not log the end of the exception")
		}
	}
	for _, want := range []string{`"@message":"exception added"`, `"reason":"scraping"`, `"by":"ops"`, `"audit":true`} {
		if !strings.Contains(one.output.String(), want) {
			t.Errorf("the log has no %s", want)
		}
	}
}

// abuse sends requests of 1,000 users to both servers: 300 of one of them, one or two of
// each other.
func abuse(t *testing.T, servers ...*weir) {
	t.Helper()
	var senders sync.WaitGroup
	for i, w := range servers {
		senders.Go(func() {
			client := dial(t, w.grpc)
			for n := range 1000 {
				user := request(descriptor("user", fmt.Sprintf("u%04d", n)))
				abuser := request(descriptor("user", "u0613"))
				for _, r := range []*service.RateLimitRequest{user, abuser} {
					if r == user && n == 613 || r == abuser && n%20 >= 3 {
						continue
					}
					if _, err := decide(client, r); err != nil {
						t.Errorf("server %d: %v", i, err)
						return
					}
				}
			}
		})
	}
	senders.Wait()
}

// waitFor waits until a user gets an answer.
func (w *weir) waitFor(user string, want service.RateLimitResponse_Code) {
	w.t.Helper()
	client, asked := dial(w.t, w.grpc), descriptor("user", user)
	asked.HitsAddend = wrapperspb.UInt64(0) // a peek
	testenv.Eventually(w.t, func() error {
		got, err := decide(client, request(asked))
		if err == nil && got.OverallCode != want {
			err = fmt.Errorf("%s gets %v, want %v", user, got.OverallCode, want)
		}
		return err
	})
}

// at3AM has, for each command of docs/at-3am.md, what it shows.
var at3AM = map[string][]string{
	"weir top":                 {`rule user \(.*api.yaml:6:5\)`, `SINCE`, `user=alice`},
	"weir top --window minute": {`5 per minute: \d+ denied`},
	"weir denials api -n 6000 | grep -e LAST -e user=alice":                            {`(?m)^\d\d:\d\d:\d\d +7 +\d\d:\d\d:\d\d .* 5 per minute +\S+api.yaml:6:5 +api user=alice$`},
	"weir peek api user=alice":                                                         {`50? per minute +\d+ of 50?`},
	`weir except add api user=alice --amount 10x --for 6h --reason "import of Monday"`: {`10x api user=alice until .*\(6 h left\)`},
	"weir reset api user=alice":                                                        {`Set 1 counter to zero`},
	`weir except add api user=mallory --deny --for 1h --reason "scraping"`:             {`deny api user=mallory until`},
	"weir status":                 {`health +OK`, `requests .* a second`, `counters .*Redis`, `rules .*\n +loaded at`},
	"weir explain api user=alice": {`user`},
	"weir validate /rules":        {`valid`},
	"weir except list":            {`2 exceptions`, `import of Monday`},
	"curl --fail-with-body -X POST http://127.0.0.1:6070/-/reload": {`rules loaded`},
}

// TestAt3AM runs the commands of docs/at-3am.md, in their order.
func TestAt3AM(t *testing.T) {
	t.Parallel()
	root, redis := testenv.Repository(t), testenv.RedisServer(t)
	w := startWeir(t, filepath.Join(root, "config"), onRedis(redis)...)
	askFor(t, w, 12, "user", "alice")
	o := newOperator(t, w, root)
	seen := map[string]bool{}
	for _, b := range codeBlocks(t, filepath.Join(root, "docs/at-3am.md")) {
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
			seen[line] = true
			o.shell(strings.NewReplacer("127.0.0.1:6070", w.debug, " /rules", " config").Replace(line), shows...)
		}
	}
	for line := range at3AM {
		if !seen[line] {
			t.Errorf("docs/at-3am.md does not run %q", line)
		}
	}
}

// TestDenialsHoldHashes finds a denied user by the hash of its name alone, in the page of
// denials, in the log of decisions and in Redis.
func TestDenialsHoldHashes(t *testing.T) {
	t.Parallel()
	const hashOfAlice = "#K9gGyX8OAK8aH8Myj6djqQ"
	redis := testenv.RedisServer(t)
	w := startWeir(t, writeRules(t, "domain: api\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 1}}]\n"),
		append(onRedis(redis), "CACHE_KEY_HASH_VALUES=true", "DECISION_LOG=denied")...)
	askFor(t, w, 3, "user", "alice")
	page := testenv.Must(fetch("http://" + w.debug + "/denials"))(t)
	var denials struct {
		Minute struct {
			Limits []struct {
				Rule   string
				Denied int
				Keys   []struct {
					Denied     int
					Descriptor struct{ Entries []struct{ Key, Value string } }
				}
			}
		}
	}
	testenv.OK(t, json.Unmarshal([]byte(page.body), &denials))
	l := denials.Minute.Limits
	if len(l) != 1 || l[0].Rule != "user" || l[0].Denied != 2 || l[0].Keys[0].Denied != 2 || l[0].Keys[0].Descriptor.Entries[0].Value != hashOfAlice {
		t.Errorf("got %s", page.body)
	}
	testenv.Becomes(t, "decisions", 2, func() int { return strings.Count(w.output.String(), `"value":"`+hashOfAlice+`","hashed":true`) })
	for what, text := range map[string]string{"page": page.body, "output": w.output.String()} {
		if strings.Contains(text, "alice") {
			t.Errorf("the %s holds the value: %s", what, text)
		}
	}
	if key := redis.Command(`EVAL "return redis.call('KEYS', '*user*')[1]" 0`); !strings.Contains(key, hashOfAlice) {
		t.Errorf("got key %s, want %s in it", key, hashOfAlice)
	}
}

// The log of decisions has lines as docs/operations.md shows one, which has a trace, too.
func TestDocumentedDecision(t *testing.T) {
	t.Parallel()
	const limit = "domain: shop\ndescriptors:\n  - key: user\n    rate_limit: {unit: minute, requests_per_unit: 5}\n"
	w := startWeir(t, writeRules(t, limit), "DECISION_LOG=denied")
	r := &service.RateLimitRequest{Domain: "shop", Descriptors: request(descriptor("user", "alice")).Descriptors}
	client := dial(t, w.grpc)
	for range 11 { // in two minutes at most
		testenv.Must(decide(client, r))(t)
	}
	want := decision(t, documentedBlock(t, "docs/operations.md", `{"time"`))
	delete(want, "trace_id")
	testenv.Eventually(t, func() error {
		_, rest, _ := strings.Cut(w.output.String(), `{"time"`)
		line, _, found := strings.Cut(rest, "\n")
		if !found {
			return fmt.Errorf("no decision in %s", w.output.String())
		}
		if got := decision(t, `{"time"`+line); !maps.Equal(got, want) {
			return fmt.Errorf("got %v, documented is %v", got, want)
		}
		return nil
	})
}

// decision returns a line of the log, without times and the path of its rules.
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
	_, fields["place"], _ = strings.Cut(fields["place"], ".yaml:")
	return fields
}
