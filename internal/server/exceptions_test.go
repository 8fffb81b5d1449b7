package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"weir/internal/limiter"
	"weir/internal/operators"
	"weir/internal/plan"
	"weir/internal/testenv"
)

func newExceptionOf(user string, effect plan.Effect) operators.NewException {
	return operators.NewException{
		Descriptor: operators.NewDescriptor("api", []limiter.Entry{{Key: "user", Value: user}}),
		Effect:     effect, For: 3600, By: "bob", Reason: "a test",
	}
}

// wantPasses asks n times, and wants so many to pass.
func (f *fixture) wantPasses(user string, n, want int) {
	f.t.Helper()
	passed := 0
	for range n {
		code := testenv.Must(f.ask(f.t.Context(), user))(f.t)
		if code == ratelimitv3.RateLimitResponse_OK {
			passed++
		}
	}
	if passed != want {
		f.t.Errorf("%d requests of %.20q passed, want %d", passed, user, want)
	}
}

// TestExceptions adds exceptions of each effect to a running server, and wants its answers,
// its metrics, its log of decisions and its denials to show them, until they are removed.
func TestExceptions(t *testing.T) {
	var out testenv.Log
	f := startWithStdout(t, &out, "--config="+directory(t, limited(2)), "--decision-log=all", "--redis-url="+testenv.RedisServer(t).Addr())
	f.wantHealth(true, "")
	add := func(user string, effect plan.Effect, factor float64) operators.Exception {
		t.Helper()
		n := newExceptionOf(user, effect)
		n.Factor = factor
		return testenv.Must(f.operators.AddException(t.Context(), n, "192.0.2.1:1 by token"))(t)
	}
	const evil = "\u202e<script>\x1b[31m\n"
	f.wantPasses("alice", 4, 2)
	allow := add("alice", "allow", 0)
	f.wantPasses("alice", 4, 4)
	deny := add(evil, "deny", 0)
	f.wantPasses(evil, 3, 0)
	f.wantPasses("carol", 3, 2)
	amount := add("carol", "amount", 2)
	carol := amount.Descriptor
	if c, err := f.operators.Peek(t.Context(), carol); err != nil || c.Limits[0].Used != 2 || c.Limits[0].Amount != 4 || c.Limits[0].Remaining != 2 || *c.Limits[0].RetryAfter != 0 || !strings.HasPrefix(c.Limits[0].Rate, "4 per") {
		t.Errorf("a peek with an exception: got %+v (error: %v)", c, err)
	}
	f.wantPasses("carol", 4, 2)
	add("nobody", "deny", 0)

	used := map[string]uint64{}
	list, _ := f.operators.Exceptions(t.Context(), false)
	for _, e := range list.Exceptions {
		used[e.ID] = e.Used
	}
	if len(list.Exceptions) != 4 || list.Servers != 1 || used[allow.ID] != 4 || used[deny.ID] != 3 || used[amount.ID] != 4 || list.Exceptions[0].Used != 0 {
		t.Errorf("got %+v", list)
	}
	below := operators.NewDescriptor("api", []limiter.Entry{{Key: "user", Value: evil}, {Key: "path", Value: "/"}})
	if c, err := f.operators.Peek(t.Context(), below); err != nil || c.Exception == nil || c.Exception.ID != deny.ID {
		t.Errorf("found %+v (error: %v)", c.Exception, err)
	}
	if _, entries, err := deny.Bytes(); err != nil || entries[0].Value != evil || deny.By != "bob" || deny.Reason != "a test" || deny.Until.Sub(deny.Created) != time.Hour {
		t.Errorf("got %+v, %q, %v", deny, entries, err)
	}
	f.wantAnswer("GET", f.metrics.addr(), "/metrics", 200, "weir_exceptions 4\n", `weir_exceptions_used_total{effect="deny"} 3`,
		`weir_limit_hits_total{domain="api",limit="deny",outcome="over",rule="exception"} 3`)
	f.wantAnswer("GET", f.debug.addr(), "/denials", 200, `"rule": "exception"`)
	for _, e := range []operators.Exception{allow, deny, amount} {
		out.WaitFor(t, fmt.Sprintf(`"exception":%q`, e.ID))
		if err := f.exceptions.Remove(t.Context(), e.ID, "carol", "::1"); err != nil {
			t.Error(err)
		}
	}
	f.wantPasses("alice", 1, 0)
	f.wantPasses(evil, 3, 2)
	f.wantLog(`msg="exception added" audit=true`)
	f.wantLog(`msg="exception removed" audit=true`)
	if strings.ContainsAny(f.log.String()+out.String(), "\x1b\u202e") {
		t.Error("bytes of a request are in a log as they are")
	}
}

// TestExceptionsWithoutRedis denies what an exception denies while no other request can
// be decided, and lets pass what one allows.
func TestExceptionsWithoutRedis(t *testing.T) {
	redis := testenv.RedisServer(t)
	f := start(t, "--config="+directory(t, limited(2)), "--redis-url="+redis.Addr())
	f.wantHealth(true, "")
	for _, effect := range []plan.Effect{"allow", "deny"} {
		testenv.Must(f.operators.AddException(t.Context(), newExceptionOf(string(effect), effect), ""))(t)
	}
	redis.Stop()
	f.wantUnavailable()
	f.wantPasses("allow", 3, 3)
	f.wantPasses("deny", 3, 0)
}
