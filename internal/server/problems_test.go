package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/limiter/redis"
	"weir/internal/operators"
	"weir/internal/operators/api"
	"weir/internal/plan"
	"weir/internal/settings/follow"
	"weir/internal/testenv"
)

// wantProblems waits until the server has exactly the problems, each with a level and texts, such as
// "red|Redis does not answer|With failure_mode error".
func (f *fixture) wantProblems(want ...string) {
	f.t.Helper()
	testenv.Eventually(f.t, func() error {
		got := f.operators.Status().Problems
		if len(got) != len(want) {
			return fmt.Errorf("got %+v, want %q", got, want)
		}
		for i, p := range got {
			level := map[bool]string{true: "red", false: "amber"}[p.Red]
			shown := fmt.Sprint(level, p.Text, p.Means, p.Link)
			for text := range strings.SplitSeq(want[i], "|") {
				if !strings.Contains(shown, text) {
					return fmt.Errorf("got %+v, want %s", p, want[i])
				}
			}
			if age := time.Since(p.Since); age < 0 || age > time.Hour+patience {
				f.t.Errorf("%s began %v ago", p.Text, age)
			}
		}
		return nil
	})
}

// lost is an output that cannot be written.
type lost struct{}

func (lost) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// TestProblemsOfRedis breaks a Redis in each way, with and without requests, and repairs it.
func TestProblemsOfRedis(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args          []string
		fail, recover func(*testenv.Redis)
		requests      int
		want          string
	}{
		"frozen":               {nil, (*testenv.Redis).Pause, (*testenv.Redis).Resume, 6, "red|Redis does not answer|the breaker is open|(timeout: |With failure_mode error, limits are not decided; Envoy lets these requests pass unless failure_mode_deny is set. 6 such requests in the last minute.|docs/at-3am.md#redis-fails"},
		"killed":               {[]string{"--failure-mode=allow"}, (*testenv.Redis).Stop, (*testenv.Redis).Start, 6, "red|Redis does not answer|(connection: |With failure_mode allow, requests pass and are not counted. 6 such requests in the last minute."},
		"killed without usage": {[]string{"--failure-mode=local"}, (*testenv.Redis).Stop, (*testenv.Redis).Start, 0, "red|Redis does not answer|each server counts alone, in memory. 0 such requests in the last minute."},
		"full":                 {[]string{"--failure-mode=deny"}, func(r *testenv.Redis) { r.Command("CONFIG SET maxmemory 1") }, func(r *testenv.Redis) { r.Command("CONFIG SET maxmemory 0") }, 3, "red|Redis refuses calls (oom: |With failure_mode deny, requests are denied. 3 such requests in the last minute."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := testenv.RedisServer(t)
			f := start(t, append(tt.args, "--config="+directory(t, limited(2)), "--redis-url="+redis.Addr())...)
			f.wantHealth(true, "OK")
			f.wantProblems()
			tt.fail(redis)
			for range tt.requests {
				_, _ = f.ask(t.Context(), "bob") // the failure mode answers
			}
			f.wantProblems(tt.want)
			f.wantAnswer("GET", f.debug.addr(), "/", 200, "RED         Redis ", ", since ")
			f.wantAnswer("GET", f.debug.addr(), "/status", 200, `"red": true`)
			tt.recover(redis)
			testenv.Eventually(t, func() error {
				_, _ = f.ask(t.Context(), "carol")
				if p := f.operators.Status().Problems; len(p) > 0 && p[0].Red {
					return fmt.Errorf("got %+v", p)
				}
				return nil
			})
		})
	}
}

// TestWhatHasNoEffect has a misspelt variable, and an address at which no one accepts events.
func TestWhatHasNoEffect(t *testing.T) {
	t.Setenv("REDIS_ULR", "127.0.0.1:6379")
	rules := "domain: api\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 1, notify: [80]}}]"
	f := start(t, "--config="+directory(t, rules), "--events-url=http://"+testenv.OwnAddr(t))
	misspelt := "amber|The variable REDIS_ULR has no effect: did you mean REDIS_URL?|#nothing-is-limited"
	f.wantProblems(misspelt)
	f.askMany("alice")
	f.wantProblems("amber|Events about used budgets cannot be sent|The log and weir_events_total say why.", misspelt)
}

// TestProblems causes all other problems.
func TestProblems(t *testing.T) {
	t.Parallel()
	t.Run("switches and rules", func(t *testing.T) {
		dir := directory(t, limited(1))
		f := start(t, "--config="+dir, "--shadow-mode", "--quota-mode")
		switches := []string{"amber|SHADOW_MODE is on|No request is denied.|#nothing-is-limited", "amber|QUOTA_MODE is on"}
		f.wantProblems(switches...)
		replace(t, dir+"/rules.yaml", "domain: api\ndescriptors: [{keey: user}]\n")
		f.wantProblems(append([]string{"amber|New rules are refused: " + dir + "/rules.yaml:2:15|(and others)|The rules of |UTC are in use. A restart would fail."}, switches...)...)
		first := f.operators.Status().Rules
		replace(t, dir+"/rules.yaml", "domain: api\n unit: 2\n")
		f.wantProblems(append([]string{"amber|rules.yaml:2: invalid YAML"}, switches...)...)
		if again := f.operators.Status().Rules; !again.RefusedSince.Equal(first.RefusedSince) || again.RefusedSince.IsZero() {
			t.Errorf("refused since %v, then since %v", first.RefusedSince, again.RefusedSince)
		}
		replace(t, dir+"/rules.yaml", limited(1))
		f.wantProblems(switches...)
		if again := f.operators.Status().Rules; again.Hash != first.Hash || !again.InUseSince.Equal(first.InUseSince) || !again.LoadedAt.After(first.LoadedAt) {
			t.Errorf("the same rules: got %+v, before %+v", again, first)
		}
		replace(t, dir+"/rules.yaml", "domain: api\n")
		f.wantProblems(append([]string{"amber|The rules have no limits|Every request is admitted."}, switches...)...)
	})
	t.Run("no rules", func(t *testing.T) {
		f := start(t, "--config="+directory(t, "domain: ["), "--force-start-without-initial-config")
		f.wantUnavailable()
		f.wantProblems("red|There are no rules|Without rules, limits are not decided; Envoy lets these requests pass unless failure_mode_deny is set. 1 such request in the last minute.", "amber|New rules are refused: ")
		f.wantAnswer("GET", f.debug.addr(), "/status", 200, `"undecided_per_second"`)
	})
	t.Run("control plane", func(t *testing.T) {
		plane := testenv.StartControlPlane(t)
		f := start(t, fromControlPlane(plane)...)
		f.wantProblems("red|The control plane is connected, but has sent no rules yet|Without rules, limits are not decided")
		f.wantAnswer("GET", f.debug.addr(), "/", 200, "\n            connected, no rules yet, since ")
		plane.Set("v1", sent("a", 3))
		f.wantProblems()
		plane.Stop()
		f.wantProblems("amber|The control plane is away|The rules of ")
	})
	t.Run("secret and certificates", func(t *testing.T) {
		dir := t.TempDir()
		cert, key := issue(t, testenv.NewAuthority(t), "localhost")
		write(t, dir+"/token", "correct-horse-battery-staple-0123")
		f := start(t, "--config="+directory(t, limited(1)), "--grpc-server-use-tls", "--grpc-server-tls-cert="+cert, "--grpc-server-tls-key="+key, "--admin-token-file="+dir+"/token")
		f.wantProblems()
		replace(t, dir+"/token", "short")
		f.wantProblems("amber|A secret or certificate is refused: ADMIN_TOKEN_FILE: |The previous one stays in use.|#a-secret-is-refused")
		replace(t, dir+"/token", "correct-horse-battery-staple-0123")
		replace(t, key, "no key")
		f.wantProblems("amber|A secret or certificate is refused: " + cert)
	})
	t.Run("decision log and errors", func(t *testing.T) {
		f := startWithStdout(t, lost{}, "--config="+directory(t, limited(1)), "--decision-log=all")
		f.wantPasses("alice", 2, 1)
		f.wantProblems("amber|The decision log is incomplete|Limits apply as usual. ")
		if _, err := f.decide(t.Context()); err == nil {
			t.Error("a request without descriptors is decided")
		}
		f.wantProblems("amber|Some requests are not decided as usual|1 such request in the last minute.|#weir-is-slow-or-overloaded", "amber|The decision log")
	})
	t.Run("exceptions", func(t *testing.T) {
		r := testenv.RedisServer(t)
		f := start(t, "--config="+directory(t, limited(1)), "--redis-url="+r.Addr(), inTime)
		load := func() {
			for range 2 { // the first one restores what is lost
				testenv.OK(t, f.operators.InForce.Load(t.Context()))
			}
		}
		load()
		f.wantProblems()
		r.Command("FLUSHALL")
		load()
		const empty = "amber|Redis came back without its data|All limits have started again.|#limits-start-again"
		f.wantProblems(empty)
		var changes [][2]string
		for i := range operators.MaxExceptions {
			e := plan.Exception{JSONDescriptor: plan.NewJSONDescriptor("api", []limiter.Entry{{Key: "user", Value: fmt.Sprint(i)}}), Effect: plan.Deny, For: 3600, Reason: "a test", Created: time.Now(), Until: time.Now().Add(time.Hour)}
			changes = append(changes, [2]string{fmt.Sprint(i), string(testenv.Must(json.Marshal(e))(t))})
		}
		shared := redis.OpenShared(redis.Server{Addr: r.Addr(), Timeout: patience}, "")
		_, list, _, _, err := shared.Changes(t.Context(), 0, "?")
		testenv.OK(t, err)
		newest := append(list, "")[0]
		for some := range slices.Chunk(changes, 1000) {
			newest = testenv.Must(shared.Change(t.Context(), 0, newest, "12345678", false, some))(t)
		}
		testenv.OK(t, shared.Close())
		f.wantProblems(empty, "amber|New exceptions are refused, because there are 10000|#exceptions-are-refused")
	})
}

// TestFullMemory fills the memory for counters. It runs alone, because the limit is the process's.
func TestFullMemory(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "1") // so that New does not replace the limit
	limit := debug.SetMemoryLimit(otherMemory)
	f := start(t, "--config="+directory(t, limited(1)))
	debug.SetMemoryLimit(limit)
	users := make([]string, 100)
	for i := range leastCounters/len(users) + 100 {
		for j := range users {
			users[j] = fmt.Sprint(i, ".", j)
		}
		f.askMany(users...)
	}
	f.wantProblems("amber|Memory is full, so counters are dropped|Their limits start again too early: |#limits-start-again")
}

// TestProblemsKeepTheirStart checks that a problem keeps its start while its text changes, gets a
// new start when it comes back, and is not listed during its grace period.
func TestProblemsKeepTheirStart(t *testing.T) {
	began, before := time.Unix(1_700_000_000, 0), map[string]time.Time(nil)
	for i, step := range []struct {
		after time.Duration
		there bool
		since time.Duration // start of the listed problem, or -1 if there is none
	}{
		{0, true, -1}, {30 * time.Second, true, -1}, {60 * time.Second, true, 0}, {90 * time.Second, true, 0}, {100 * time.Second, false, -1}, {110 * time.Second, true, -1}, {170 * time.Second, true, 110 * time.Second},
	} {
		p := &problemList{now: began.Add(step.after), before: before, began: map[string]time.Time{}, grace: time.Minute}
		p.add(step.there, amber, "servers-differ", time.Time{}, "", "%d of 5 servers", i)
		switch {
		case step.since < 0 && p.list != nil:
			t.Errorf("step %d: got %+v", i, p.list)
		case step.since >= 0 && (len(p.list) != 1 || !p.list[0].Since.Equal(began.Add(step.since)) || p.list[0].Text != fmt.Sprint(i, " of 5 servers")):
			t.Errorf("step %d: got %+v, want a problem since %v", i, p.list, step.since)
		}
		before = p.began
	}
}

// TestWhatIsOver checks that a problem that is over is listed after all others.
func TestWhatIsOver(t *testing.T) {
	over, still, worst := api.Problem{Until: time.Now()}, api.Problem{}, api.Problem{Red: true}
	list := []api.Problem{over, still, worst}
	if slices.SortFunc(list, byRank); list[0] != worst || list[1] != still {
		t.Errorf("got %+v", list)
	}
}

// TestCertificatesExpire looks at a certificate of two hours at several times before its end.
func TestCertificatesExpire(t *testing.T) {
	cert, key := issue(t, testenv.NewAuthority(t), "localhost")
	files := testenv.Must(follow.OpenTLS(follow.TLSOptions{Server: true, CertFile: cert, KeyFile: key, Logger: slog.New(slog.DiscardHandler)}))(t)
	d := &debugPort{store: new(store), secrets: &secrets{access: new(api.Access), tls: []connection{{"grpc", files}}}}
	end := files.TLS().Certificates[0].Leaf.NotAfter
	for left, want := range map[time.Duration]string{
		20 * time.Minute: "[]",
		10 * time.Minute: "false The certificate for grpc is valid until",
		3 * time.Minute:  "true The certificate for grpc is valid until",
		-time.Minute:     "true The certificate for grpc is valid until",
	} {
		p := &problemList{now: end.Add(-left), began: map[string]time.Time{}}
		d.addSecrets(p)
		got := fmt.Sprint(p.list)
		if len(p.list) == 1 {
			got = fmt.Sprint(p.list[0].Red, " ", p.list[0].Text)
		}
		if !strings.HasPrefix(got, want) || strings.Contains(got, "(expired)") != (left < 0) || len(p.list) == 1 && !p.list[0].Since.Equal(end.Add(-18*time.Minute)) {
			t.Errorf("%v before the end: got %+v, want %s", left, p.list, want)
		}
	}
}

// TestProblemsHaveSections checks that docs/at-3am.md has each section that a problem names.
func TestProblemsHaveSections(t *testing.T) {
	document := strings.ReplaceAll(strings.ToLower(string(testenv.Must(os.ReadFile("../../docs/at-3am.md"))(t))), " ", "-")
	sections := regexp.MustCompile(`p\.add\(.*?(?:red|amber|share), "([a-z0-9-]+)", `).FindAllStringSubmatch(string(testenv.Must(os.ReadFile("problems.go"))(t)), -1)
	if len(sections) < 14 {
		t.Errorf("only %d problems are found", len(sections))
	}
	for _, section := range sections {
		testenv.Contains(t, document, "\n##-"+section[1]+"\n")
	}
}

// TestOutdated compares servers: a@5 is a server that has used rules a since minute 5.
func TestOutdated(t *testing.T) {
	for servers, want := range map[string]string{
		"a@1":             "[] 1",
		"a@1 a@5":         "[] 1",
		"a@1 b@5":         "[0] 5",
		"b@5 a@1":         "[1] 5",
		"a@1 b@5 a@9":     "[0 2] 5", // the last one was restarted with older rules
		"a@1 b@1":         "[0] 1",   // the same on every server
		"b@1 a@1":         "[1] 1",
		"a@1 b@2 c@3 c@4": "[0 1] 3",
		"@0 a@1":          "[0] 1", // without rules
	} {
		var all []api.Status
		for i, server := range strings.Fields(servers) {
			hash, minute, _ := strings.Cut(server, "@")
			since := time.Time{}
			if minute != "0" {
				since = time.Unix(60*int64(minute[0]-'0'), 0)
			}
			all = append(all, api.Status{Name: fmt.Sprint(i), Rules: api.Rules{Hash: hash, InUseSince: since}})
		}
		names, since := respects[0].outdated(all)
		testenv.Equal(t, fmt.Sprint(names, since.Unix()/60), want, "%s", servers)
	}
}

// TestServers starts servers on one Redis, changes rules and settings of one, and stops it.
func TestServers(t *testing.T) {
	t.Parallel()
	r, dirs := testenv.RedisServer(t), []string{directory(t, limited(1)), directory(t, limited(1))}
	serve := func(dir string, more ...string) *fixture {
		f := start(t, append(more, "--config="+dir, "--redis-url="+r.Addr(), inTime)...)
		f.wantHealth(true, "OK")
		return f
	}
	// both waits until a and b know each other, and their rules and settings are equal or not, as stated.
	both := func(a, b *fixture, rules, settings bool) {
		t.Helper()
		for _, f := range []*fixture{a, b} {
			testenv.Eventually(t, func() error {
				s := f.operators.Status()
				if len(s.Servers) != 2 || s.Servers[0].Name == s.Servers[1].Name || s.Servers[0].Settings == "" || s.Servers[0].Rules.Hash == "" {
					return fmt.Errorf("got %+v", s.Servers)
				}
				if x, y := s.Servers[0], s.Servers[1]; (x.Rules.Hash == y.Rules.Hash) != rules || (x.Settings == y.Settings) != settings || x.Version != y.Version {
					return fmt.Errorf("got %+v", s.Servers)
				}
				return nil
			})
		}
	}
	outdated := func(f *fixture, by string, want int) {
		t.Helper()
		f.wantAnswer("GET", f.metrics.addr(), "/metrics", 200, fmt.Sprintf("weir_servers_outdated{by=%q} %d\n", by, want))
	}
	a, b := serve(dirs[0]), serve(dirs[1])
	both(a, b, true, true)
	outdated(a, "rules", 0)
	replace(t, dirs[0]+"/rules.yaml", limited(2)) // a refuses nothing, b keeps the older rules
	both(a, b, false, true)
	outdated(a, "rules", 1)
	outdated(b, "rules", 1)
	replace(t, dirs[1]+"/rules.yaml", limited(2))
	both(a, b, true, true)
	outdated(b, "rules", 0)
	b.stop()
	testenv.OK(t, b.wantEnd())
	c := serve(dirs[0], "--failure-mode=allow")
	both(a, c, true, false) // the stopped server is gone
	outdated(a, "settings", 1)
	outdated(a, "version", 0)
}
