package server

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"weir/internal/limiter"
	"weir/internal/testenv"

	"weir/internal/operators"
)

// counters asks the debug port for the counters of a user.
func (f *fixture) counters(path, user string) operators.Counters {
	f.t.Helper()
	body := testenv.Must(json.Marshal(operators.NewDescriptor("api", []limiter.Entry{{Key: "user", Value: user}})))(f.t)
	code, text, err := f.request("POST", f.debug.addr(), path, string(body))
	var answer operators.Counters
	if err != nil || code != 200 || json.Unmarshal([]byte(text), &answer) != nil {
		f.t.Fatalf("%s: got %d %s (error: %v)", path, code, text, err)
	}
	return answer
}

// TestResetReachesAllServers resets a counter on one server, which another one knows to be
// over, and wants it to ask Redis again soon.
func TestResetReachesAllServers(t *testing.T) {
	t.Parallel()
	args := []string{"--config=" + directory(t, limited(2)), "--redis-url=" + testenv.RedisServer(t).Addr()}
	a, b := start(t, args...), start(t, args...)
	a.wantHealth(true, "OK")
	b.wantHealth(true, "OK")
	for _, f := range []*fixture{a, b} {
		for range 4 {
			testenv.Must(f.ask(t.Context(), "alice"))(t)
		}
	}
	if got := b.counters("/peek", "alice"); got.Limits[0].Used != 2 || got.Limits[0].Key != "w1|api|user=alice|365d" {
		t.Errorf("got %+v", got)
	}
	if got := a.counters("/reset?by=bob", "alice"); got.Reset != 1 || got.Limits[0].Used != 0 {
		t.Errorf("got %+v", got)
	}
	for _, f := range []*fixture{a, b} {
		testenv.Eventually(t, func() error {
			if code, err := f.ask(t.Context(), "alice"); err != nil || code != ratelimitv3.RateLimitResponse_OK {
				return fmt.Errorf("after the reset: %v (error: %v)", code, err)
			}
			return nil
		})
	}
	a.wantLog(`msg="counters reset" audit=true by=bob peer="127.0.0.1:`)
	a.wantLog(`domain=api descriptor="user=alice" rule=user counters=1`)
}

// TestPeekLeavesNoTrace looks at a counter that is full, and wants neither usage, denials
// nor the log of decisions to show it.
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
		if got := f.counters("/peek", "<script>\x1b[31m"); got.Limits[0].Used != 0 {
			t.Errorf("got %+v", got)
		}
	}
	if after := usage(); after != before {
		t.Errorf("the metrics were\n%s\nand are\n%s", before, after)
	}
	got := testenv.Must(f.operators.Denials(t.Context(), false))(t)
	if n := strings.Count(out.String(), "\n"); got.Minute.Limits[0].Denied != 1 || len(got.Last) != 1 || n != 3 {
		t.Errorf("got %+v, and %d decisions are logged", got, n)
	}
}

// TestResetIsAudited resets, in memory, what values try to forge the log with, and what is to
// be known by hashes only.
func TestResetIsAudited(t *testing.T) {
	f := start(t, "--config="+directory(t, limited(2)), "--cache-key-hash-values")
	f.wantHealth(true, "OK")
	user := "alice" + strings.Repeat("\n", 3_000)
	f.wantPasses(user, 3, 2)
	if got := f.counters("/peek", user); got.Limits[0].Used != 2 || got.Limits[0].Key != "" {
		t.Errorf("got %+v", got.Limits[0])
	}
	if got := f.counters("/reset?by=%0Amsg%3Dforged", user); got.Reset != 1 {
		t.Errorf("got %d counters reset", got.Reset)
	}
	f.wantPasses(user, 3, 2)
	f.wantLog(`by="\nmsg=forged"`)
	f.wantLog(`descriptor="user=#`)
	if log := f.log.String(); strings.Contains(log, "alice") || strings.Contains(log, "\nmsg=forged") {
		t.Errorf("log:\n%.2000s", log)
	}
	_, err := f.operators.Reset(t.Context(), operators.NewDescriptor("api", []limiter.Entry{{Key: "stranger", Value: "x"}}), "bob", "peer")
	if n := strings.Count(f.log.String(), "counters reset"); n != 1 || err != nil {
		t.Errorf("%d resets are logged, error %v", n, err)
	}
}
