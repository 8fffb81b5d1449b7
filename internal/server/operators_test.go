package server

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"weir/internal/limiter"
	"weir/internal/operators"
	"weir/internal/operators/api"
	"weir/internal/plan"
	"weir/internal/rls"
	"weir/internal/testenv"
)

// TestRates counts requests for 20 minutes.
func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r := newRates(func() totals {
			seconds := uint64(time.Since(began) / time.Second)
			return totals{rls.Totals{Decided: 100 * seconds, Denied: 10 * seconds, Undecided: 2 * seconds}, 3 * seconds, 4 * seconds, 5 * seconds}
		})
		if got := r.latest(); got.Decisions != 0 || got.Denials != 0 || len(r.history()) != 0 {
			t.Errorf("at the start: %+v %v", got, r.history())
		}
		go r.run(t.Context())
		time.Sleep(2 * time.Second)
		if got := r.latest(); got.Decisions != 100 || got.Denials != 10 {
			t.Errorf("soon after the start: %+v", got)
		}
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		list := r.history()
		if len(list) != ratesKept {
			t.Fatalf("%d rates are kept, want %d", len(list), ratesKept)
		}
		for i, got := range list {
			at := began.Add(20*time.Minute - time.Duration(ratesKept-1-i)*ratesEvery)
			if got.Decisions != 100 || got.Denials != 10 || got.Undecided != 2 || !got.At.Equal(at) {
				t.Errorf("%d: got %+v, want 100, 10 and 2 at %v", i, got, at)
			}
		}
		if got := r.minute(); got.Undecided != 114 || got.evicted != 171 || got.lost != 228 { // in 57 seconds
			t.Errorf("in the last minute: %+v", got)
		}
		if got := r.latest(); got.Decisions != 100 || got.Denials != 10 {
			t.Errorf("at the end: %+v", got)
		}
	})
}

// TestUndecided adds an undecided request in some samples, and looks for the last period with such requests.
func TestUndecided(t *testing.T) {
	began := time.Unix(1_700_000_000, 0)
	for counts, want := range map[string]string{
		"000":                  "no",
		"0112234":              "0 6",
		"001122222222222344":   "1 16",
		"00112222222222222344": "16 18", // a minute without any separates two periods
	} {
		r := new(rates)
		for i, n := range counts {
			r.samples = append(r.samples, sample{began.Add(time.Duration(i) * ratesEvery), totals{Totals: rls.Totals{Undecided: uint64(n - '0')}}})
		}
		r.totals = func() totals { return r.samples[len(r.samples)-1].totals }
		got := "no"
		if from, to := r.undecided(); !to.IsZero() {
			got = fmt.Sprint(int(from.Sub(began)/ratesEvery), " ", int(to.Sub(began)/ratesEvery))
		}
		testenv.Equal(t, got, want, "%s", counts)
	}
}

// TestTokenOpensTheDebugPort sends requests from another address, with and without a token, and
// replaces the token.
func TestTokenOpensTheDebugPort(t *testing.T) {
	t.Parallel()
	outer, file := testenv.OuterAddr(t), filepath.Join(t.TempDir(), "token")
	const token, next = "correct-horse-battery-staple-0123", "another-horse-battery-staple-0123"
	write(t, file, token+"\n")
	f := start(t, "--config="+directory(t, limited(1)), "--debug-host=0.0.0.0", "--admin-token-file="+file)
	_, port, _ := net.SplitHostPort(f.debug.addr())
	want := func(method, path, token string, code int) {
		t.Helper()
		r := testenv.Must(http.NewRequestWithContext(t.Context(), method, "http://"+net.JoinHostPort(outer, port)+path, nil))(t)
		r.Header.Set("Authorization", "Bearer "+token)
		response, err := f.http.Do(r)
		testenv.OK(t, err)
		response.Body.Close()
		testenv.Equal(t, response.StatusCode, code, "%s %s with %q", method, path, token)
	}
	f.wantLog(`msg="the debug port is open to other machines; DEBUG_HOST restricts it" debug=` + f.debug.addr())
	want("GET", "/", "", 200)
	want("GET", "/rlconfig", "", 401)
	want("POST", "/-/reload", token, 200)
	f.wantAnswer("GET", "127.0.0.1:"+port, "/rlconfig", 200, "api.user: unit=YEAR")
	f.wantAnswer("POST", "127.0.0.1:"+port, "/-/reload", 401)

	testenv.OK(t, os.Remove(file))
	f.wantAnswer("GET", "127.0.0.1:"+port, "/", 200, "amber       A secret or certificate is refused: ADMIN_TOKEN_FILE: open "+file+": no such file or directory, since ")
	want("GET", "/rlconfig", token, 200)
	write(t, file, next)
	f.wantLog("a changed setting is in use")
	want("GET", "/rlconfig", token, 401)
	want("POST", "/-/reload", next, 200)
	if strings.Contains(f.log.String(), "horse") {
		t.Error("the log holds a token")
	}
}

// TestStatusAndDenialsAsJSON reads the status, and the denials with their rule, before and after
// the rule has moved in its file.
func TestStatusAndDenialsAsJSON(t *testing.T) {
	dir := directory(t, limited(1))
	f, file := start(t, "--config="+dir), dir+"/rules.yaml"
	f.wantPasses("alice", 5, 1)
	testenv.Eventually(t, func() error {
		var got api.Status
		_, body, err := f.request("GET", f.debug.addr(), "/status", "")
		if err != nil {
			return err
		}
		testenv.OK(t, json.Unmarshal([]byte(body), &got))
		if got.Version != "v0-test, revision abc, go1" || got.Health != "OK" || !got.Store.Works || got.Rules.Rules != 1 || got.Rules.LoadedAt.IsZero() || got.UptimeSeconds <= 0 {
			t.Errorf("got %s", body)
		}
		if got.Decisions <= 0 || got.Denials <= 0 || got.Decisions <= got.Denials {
			return fmt.Errorf("got %s", body)
		}
		return nil
	})
	f.wantAnswer("GET", f.debug.addr(), "/status", 200, `"problems": []`)
	f.wantAnswer("GET", f.debug.addr(), "/denials?servers=all", 200, `"servers": 1`, `"denied": 4`, `"value": "alice"`,
		`"rule": "user"`, `"location": "`+file+`:3:5"`, `"rate": "1 per year"`, `"retry_after": `)
	f.wantAnswer("GET", f.metrics.addr(), "/metrics", 200, `weir_decided_requests_total{outcome="admitted"} 1`, `weir_decided_requests_total{outcome="denied"} 4`, "weir_admin_failed_logins_total 0")
	write(t, file, "# a comment\n"+limited(1))
	f.wantAnswer("GET", f.debug.addr(), "/denials", 200, `"location": "`+file+`:4:5"`, `"denied": 4`)
	write(t, file, "domain: api\ndescriptors: [{key: tenant}]\n")
	f.wantAnswer("POST", f.debug.addr(), "/-/reload", 200)
	if _, body, err := f.request("GET", f.debug.addr(), "/denials", ""); err != nil || strings.Contains(body, `"location"`) || !strings.Contains(body, `"denied": 4`) {
		t.Errorf("got %v, %s", err, body)
	}
}

// wantPasses sends n requests and checks how many pass.
func (f *fixture) wantPasses(user string, n, want int) {
	f.t.Helper()
	passed := 0
	for range n {
		code := testenv.Must(f.ask(f.t.Context(), user))(f.t)
		if code == ratelimitv3.RateLimitResponse_OK {
			passed++
		}
	}
	testenv.Equal(f.t, passed, want, "requests of %.20q that passed", user)
}

// TestExceptions adds exceptions of each effect to a running server, and checks that answers,
// metrics, the decision log and denials show them until they are removed. Exceptions still deny and
// allow requests while Redis is unavailable.
func TestExceptions(t *testing.T) {
	var out testenv.Log
	redis := testenv.RedisServer(t)
	f := startWithStdout(t, &out, "--config="+directory(t, limited(2)), "--decision-log=all", "--redis-url="+redis.Addr())
	f.wantHealth(true, "")
	add := func(user string, effect plan.Effect, factor float64) plan.Exception {
		t.Helper()
		return testenv.Must(f.operators.AddException(t.Context(), plan.Exception{
			JSONDescriptor: plan.NewJSONDescriptor("api", []limiter.Entry{{Key: "user", Value: user}}),
			Effect:         effect, Factor: factor, For: 3600, By: "bob", Reason: "a test",
		}, "192.0.2.1:1 by token"))(t)
	}
	const evil = "\u202e<script>\x1b[31m\n"
	f.wantPasses("alice", 4, 2)
	allow := add("alice", "allow", 0)
	f.wantPasses("alice", 4, 4)
	deny := add(evil, "deny", 0)
	f.wantPasses(evil, 3, 0)
	f.wantPasses("carol", 3, 2)
	amount := add("carol", "amount", 2)
	carol := amount.JSONDescriptor
	if c, err := f.operators.Peek(t.Context(), carol); err != nil || c.Limits[0].Used != 2 || c.Limits[0].Amount != 4 || c.Limits[0].Remaining != 2 || *c.Limits[0].RetryAfter != 0 || !strings.HasPrefix(c.Limits[0].Rate, "4 per") {
		t.Errorf("a peek with an exception: got %+v (error: %v)", c, err)
	}
	f.wantPasses("carol", 4, 2)
	add("nobody", "deny", 0)

	used := map[string]uint64{}
	list, _ := f.operators.Exceptions(t.Context(), false)
	for _, e := range list.Exceptions {
		used[e.ID] = *e.Used
	}
	if len(list.Exceptions) != 4 || list.Servers != 1 || used[allow.ID] != 4 || used[deny.ID] != 3 || used[amount.ID] != 4 || *list.Exceptions[0].Used != 0 {
		t.Errorf("got %+v", list)
	}
	below := plan.NewJSONDescriptor("api", []limiter.Entry{{Key: "user", Value: evil}, {Key: "path", Value: "/"}})
	if c, err := f.operators.Peek(t.Context(), below); err != nil || c.Exception == nil || c.Exception.ID != deny.ID {
		t.Errorf("found %+v (error: %v)", c.Exception, err)
	}
	if _, entries := deny.Bytes(); entries[0].Value != evil || deny.By != "bob" || deny.Reason != "a test" || deny.Until.Sub(deny.Created) != time.Hour {
		t.Errorf("got %+v, %q", deny, entries)
	}
	f.wantAnswer("GET", f.metrics.addr(), "/metrics", 200, "weir_exceptions 4\n", `weir_exceptions_used_total{effect="deny"} 3`,
		`weir_limit_hits_total{domain="api",limit="deny",outcome="over",rule="exception"} 3`)
	f.wantAnswer("GET", f.debug.addr(), "/denials", 200, `"rule": "exception"`)
	f.wantAnswer("GET", f.debug.addr(), "/console/exceptions", 200, `<td class="n">3</td>`, `<td class="n">4</td>`)
	f.wantAnswer("GET", f.debug.addr(), "/console/descriptor?domain=api&descriptor=user%3Dcarol", 200, "An exception applies: amount × 2", `<span class="descriptor">user=carol</span>`)
	for _, e := range []plan.Exception{allow, deny, amount} {
		out.WaitFor(t, fmt.Sprintf(`"exception":%q`, e.ID))
		testenv.OK(t, f.operators.InForce.Remove(t.Context(), e.ID, "carol", "::1"))
	}
	f.wantPasses("alice", 1, 0)
	f.wantPasses(evil, 3, 2)
	f.wantLog(`msg="exception added" audit=true`)
	f.wantLog(`msg="exception removed" audit=true`)
	if strings.ContainsAny(f.log.String()+out.String(), "\x1b\u202e") {
		t.Error("bytes of a request are in a log as they are")
	}

	add("alice", "allow", 0)
	add("bob", "deny", 0)
	redis.Stop()
	_, err := f.ask(t.Context(), "dave")
	testenv.Equal(t, status.Code(err), codes.Unavailable, "without Redis")
	f.wantPasses("alice", 3, 3)
	f.wantPasses("bob", 3, 0)
}

// counters returns the counters of a user from the debug port.
func (f *fixture) counters(path, user string) operators.Counters {
	f.t.Helper()
	body := testenv.Must(json.Marshal(plan.NewJSONDescriptor("api", []limiter.Entry{{Key: "user", Value: user}})))(f.t)
	code, text, err := f.request("POST", f.debug.addr(), path, string(body))
	var answer operators.Counters
	if err != nil || code != 200 || json.Unmarshal([]byte(text), &answer) != nil {
		f.t.Fatalf("%s: got %d %s (error: %v)", path, code, text, err)
	}
	return answer
}

// TestResetReachesAllServers resets a counter on one server while another remembers its denial. The
// other must soon ask Redis again.
func TestResetReachesAllServers(t *testing.T) {
	t.Parallel()
	args := []string{"--config=" + directory(t, limited(2)), "--redis-url=" + testenv.RedisServer(t).Addr()}
	a, b := start(t, args...), start(t, args...)
	a.wantHealth(true, "OK")
	b.wantHealth(true, "OK")
	a.wantPasses("alice", 4, 2)
	b.wantPasses("alice", 4, 0)
	if got := b.counters("/peek", "alice"); got.Limits[0].Used != 2 || got.Limits[0].Key != "w1|api|user=alice|365d" {
		t.Errorf("got %+v", got)
	}
	if got := a.counters("/reset?by=bob", "alice"); got.Reset != 1 || got.Limits[0].Used != 0 {
		t.Errorf("got %+v", got)
	}
	for _, f := range []*fixture{a, b} {
		testenv.Becomes(t, "after the reset", "OK <nil>", func() string { return fmt.Sprint(f.ask(t.Context(), "alice")) })
	}
	a.wantLog(`msg="counters reset" audit=true by=bob peer="127.0.0.1:`)
	a.wantLog(`domain=api descriptor="user=alice" rule=user counters=1`)
}

// TestPeekLeavesNoTrace peeks at a used-up counter. Neither usage, denials nor the decision log must
// show it.
func TestPeekLeavesNoTrace(t *testing.T) {
	var out testenv.Log
	f := startWithStdout(t, &out, "--redis-url="+testenv.RedisServer(t).Addr(), "--config="+directory(t, limited(2)), "--decision-log=all")
	f.wantHealth(true, "OK")
	f.wantPasses("alice", 3, 2)
	testenv.Until(t, "the decisions are logged", func() bool { return strings.Count(out.String(), "\n") == 3 })
	usage := func() string {
		_, page, _ := f.request("GET", f.metrics.addr(), "/metrics", "")
		lines := regexp.MustCompile(`(?m)^(ratelimit_service_(rate_limit|call|should)|weir_(unmatched|exception)).*$`).FindAllString(page, -1)
		if len(lines) < 5 {
			t.Fatalf("got %q", lines)
		}
		return strings.Join(lines, "\n")
	}
	before := usage()
	for range 5 {
		if got := f.counters("/peek", "alice").Limits[0]; got.Used != 2 || got.Remaining != 0 || got.RetryAfter == nil {
			t.Errorf("got %+v", got)
		}
		testenv.Equal(t, f.counters("/peek", "<script>\x1b[31m").Limits[0].Used, 0, "used")
	}
	testenv.Equal(t, usage(), before, "the metrics")
	got := testenv.Must(f.operators.Denials(t.Context(), false))(t)
	if n := strings.Count(out.String(), "\n"); got.Minute.Limits[0].Denied != 1 || len(got.Last) != 1 || n != 3 {
		t.Errorf("got %+v, and %d decisions are logged", got, n)
	}
}

// TestResetIsAudited resets counters in memory with values that try to forge the log, and with
// hashed values, which denials and the decision log show, too.
func TestResetIsAudited(t *testing.T) {
	var out testenv.Log
	f := startWithStdout(t, &out, "--config="+directory(t, limited(2)), "--cache-key-hash-values", "--decision-log=denied")
	f.wantHealth(true, "OK")
	user := "alice" + strings.Repeat("\n", 3_000)
	f.wantPasses(user, 3, 2)
	if got := f.counters("/peek", user); got.Limits[0].Used != 2 || got.Limits[0].Key != "" {
		t.Errorf("got %+v", got.Limits[0])
	}
	testenv.Equal(t, f.counters("/reset?by=%0Amsg%3Dforged", user).Reset, 1, "reset counters")
	f.wantPasses(user, 3, 2)
	f.wantLog(`by="\nmsg=forged"`)
	f.wantLog(`descriptor="user=#`)
	out.WaitFor(t, `"hashed":true`)
	f.wantAnswer("GET", f.debug.addr(), "/denials", 200, `"denied": 2`, `"value": "#`)
	_, page, _ := f.request("GET", f.debug.addr(), "/denials", "")
	if shown := f.log.String() + out.String() + page; strings.Contains(shown, "alice") || strings.Contains(shown, "\nmsg=forged") {
		t.Errorf("the logs and the denials are:\n%.2000s", shown)
	}
	_, err := f.operators.Reset(t.Context(), plan.NewJSONDescriptor("api", []limiter.Entry{{Key: "stranger", Value: "x"}}), "bob", "peer")
	if n := strings.Count(f.log.String(), "counters reset"); n != 1 || err != nil {
		t.Errorf("%d resets are logged, error %v", n, err)
	}
}
