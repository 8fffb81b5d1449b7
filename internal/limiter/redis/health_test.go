package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/conn"
	"weir/internal/testenv"
)

// Calls without a reply open the breaker, unless Redis replies in between.
func TestBreaker(t *testing.T) {
	silent, reply := context.DeadlineExceeded, redis.TxFailedErr
	many := slices.Repeat([]error{silent}, maxUnanswered)
	few := many[1:]
	for _, c := range []struct {
		name  string
		calls []error
		open  bool
	}{
		{"some are silent", few, false},
		{"all are silent", many, true},
		{"one works meanwhile", slices.Concat(few, []error{nil}, few), false},
		{"one is refused meanwhile", slices.Concat(few, []error{reply}, few), false},
		{"all are refused", slices.Repeat([]error{reply}, 2*maxUnanswered), false},
		{"no connection", append(slices.Repeat([]error{io.EOF}, maxUnanswered-1), silent), true},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHealth(nil, "", prometheus.NewGauge(prometheus.GaugeOpts{}), func() *slog.Logger { return slog.New(slog.DiscardHandler) })
			defer h.close()
			for _, err := range c.calls {
				h.called(err, time.Second)
			}
			testenv.Equal(t, h.open.Load(), c.open, "%s: open", c.name)
		})
	}
}

// Callers do not wait for a Redis that hangs, although the timeout is long. They use that Redis
// again when it replies.
func TestBreakerOnRedisThatHangs(t *testing.T) {
	t.Parallel()
	const opTimeout = 500 * time.Millisecond
	f := newFixture(t, Options{Main: Server{Timeout: opTimeout}})
	s := f.Store
	untilDecides(t, s)
	f.pause()

	var wg sync.WaitGroup
	for range 3 * maxUnanswered { // they wait, in more than one call
		wg.Go(func() {
			for !s.main.health.open.Load() {
				_, _ = ask(t.Context(), s, "k", perYear)
			}
		})
	}
	wg.Wait()
	const requests = 100
	calls := f.calls()
	began := time.Now()
	for range requests {
		if err := mustFail(t, s); !strings.Contains(err.Error(), "gets no requests") {
			t.Fatalf("got error %v, want that of the breaker", err)
		}
	}
	if took := time.Since(began); took > requests*opTimeout/2 {
		t.Errorf("%d requests took %v, as if they had waited", requests, took)
	}
	testenv.Equal(t, f.calls()-calls, 0, "calls")
	f.do("client", "unpause")
	untilDecides(t, s)
	testenv.Equal(t, f.value("weir_redis_breaker_open", ""), 0, "the breaker's gauge")
}

// While the Redis for limits per second fails, requests without such limits work, and requests
// with both kinds of limits charge nothing.
func TestBreakerOfOneOfTwo(t *testing.T) {
	second := testenv.RedisServer(t)
	f := newFixture(t, Options{PerSecond: &Server{Addr: second.Addr()}})
	s, limit := f.Store, perSeconds(100)
	mustAsk(t, s, "k", perYear)
	second.Stop()
	for !s.backends[1].health.open.Load() {
		if _, err := ask(t.Context(), s, "second", limit); err == nil {
			t.Fatal("decided without Redis")
		}
	}
	calls := f.calls()
	hits := []limiter.Hit{hit("k", perYear, 1), hit("second", limit, 1)}
	if _, err := s.Decide(t.Context(), hits, make([]limiter.Decision, 2)); !errors.Is(err, errOpen) {
		t.Errorf("got error %v, want %v", err, errOpen)
	}
	testenv.Equal(t, f.calls()-calls, 0, "calls in vain")
	testenv.Equal(t, mustAsk(t, s, "k", perYear).Used, 2, "used in the Redis that works")
}

// An outage is logged immediately and then once a minute. Its end is logged only if the outage was logged.
func TestOutageIsLoggedSparingly(t *testing.T) {
	timeout := fmt.Errorf("no answer: %w", context.DeadlineExceeded)
	const fails = `WARN "redis is failing, failure modes apply" kind=timeout err="no answer: context deadline exceeded" `
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := newHealth(nil, "", nil, func() *slog.Logger { return slog.New(slog.NewTextHandler(&log, nil)) })
		for i, s := range []struct {
			after time.Duration // on the clock of synctest
			err   error
			want  string // the expected log
		}{
			{time.Hour, nil, ""},
			{time.Second, timeout, fails + "failed_calls=1 for=0s"},
			{2 * time.Second, nil, `INFO "redis works again" after=2s`},
			{time.Second, nil, ""},
			// A long failure.
			{reminder, timeout, fails + "failed_calls=1 for=0s"},
			{30 * time.Second, timeout, ""},
			{30 * time.Second, timeout, fails + "failed_calls=2 for=1m0s"},
			{time.Second, timeout, ""},
			{time.Second, nil, `INFO "redis works again" after=1m2s`},
			// A second outage soon after another is logged only if it lasts.
			{time.Second, timeout, ""},
			{time.Second, nil, ""},
			{time.Second, timeout, ""},
			{time.Minute, timeout, fails + "failed_calls=4 for=1m0s"},
			{time.Second, nil, `INFO "redis works again" after=1m1s`},
		} {
			time.Sleep(s.after)
			h.observe(s.err)
			_, got, _ := strings.Cut(log.String(), "level=")
			testenv.Equal(t, strings.TrimSpace(strings.Replace(got, "msg=", "", 1)), s.want, "step %d: logged", i)
			log.Reset()
		}
	})
}

func TestState(t *testing.T) {
	s := newFixture(t, Options{})
	testenv.Equal(t, s.State(), (State{Breaker: "closed"}), "state before any call")
	mustAsk(t, s, "k", perYear)
	worked := s.State()
	if worked.WorkedAt.IsZero() || worked != (State{WorkedAt: worked.WorkedAt, Breaker: "closed"}) {
		t.Errorf("after a decision: %+v", worked)
	}
	s.do("replicaof", "127.0.0.1", "1")
	mustFail(t, s)
	mustFail(t, s)
	failed := s.State() // TestRefusals checks the reason
	if failed.WorkedAt != worked.WorkedAt || failed.FailingSince.Before(worked.WorkedAt) || !failed.FailedAt.After(failed.FailingSince) {
		t.Errorf("times of a failure: %+v after %+v", failed, worked)
	}
	s.do("replicaof", "no", "one")
	mustAsk(t, s, "k", perYear)
	if again := s.State(); !again.FailingSince.IsZero() || !again.WorkedAt.After(failed.FailedAt) || again.FailedAt != failed.FailedAt || again.Problem != failed.Problem {
		t.Errorf("after the failure: %+v", again)
	}
}

// Redis runs, but refuses commands. A Redis that replies to PING but cannot decide requests
// counts as failing.
func TestRefusals(t *testing.T) {
	acl := func(rules ...string) []string {
		return append([]string{"--user", "default", "on", "nopass"}, rules...)
	}
	right := []string{"--requirepass", "right"}
	for _, c := range []struct {
		name       string
		args       []string // arguments of redis-server
		ping, want string   // text in the errors of Ping and Decide, or "" for no error
		kind       conn.Kind
		mend       []any  // command after which Redis works
		login      Server // user and password
	}{
		{name: "primary"},
		{name: "replica", args: []string{"--replicaof", "127.0.0.1", "1"}, kind: conn.KindReadOnly,
			ping: "redis is a read-only replica", want: "READONLY", mend: []any{"replicaof", "no", "one"}},
		{name: "writable replica", args: []string{"--replicaof", "127.0.0.1", "1", "--replica-read-only", "no"}},
		{name: "cluster", args: []string{"--cluster-enabled", "yes"}, kind: conn.KindCluster,
			ping: "redis runs in cluster mode; set REDIS_TYPE=CLUSTER", want: "CLUSTERDOWN"},
		{name: "no cluster", login: Server{Type: conn.Cluster}, kind: conn.KindCluster, ping: "redis does not run in cluster mode", want: "cluster support disabled"},
		{name: "cluster without slots", args: []string{"--cluster-enabled", "yes"}, login: Server{Type: conn.Cluster}, kind: conn.KindCluster,
			ping: "the Redis cluster is down", want: "CLUSTERDOWN"},
		{name: "password of a cluster", args: []string{"--cluster-enabled", "yes", "--requirepass", "right"}, login: Server{Type: conn.Cluster, Password: "swordfish"},
			kind: conn.KindAuth, ping: "WRONGPASS", want: "WRONGPASS"},
		{name: "no scripts", args: acl("~*", "+@all", "-evalsha"), kind: conn.KindAuth,
			ping: "NOPERM", want: "NOPERM", mend: []any{"acl", "setuser", "default", "+@all"}},
		{name: "no loading of scripts", args: acl("~*", "+@all", "-eval"), kind: conn.KindAuth, ping: "NOPERM", want: "NOPERM"},
		{name: "no SET", args: acl("~*", "+@all", "-set"), kind: conn.KindAuth,
			ping: "script", want: "script", mend: []any{"acl", "setuser", "default", "+set"}},
		{name: "other keys", args: acl("~other*", "+@all"), kind: conn.KindAuth,
			ping: "NOPERM", want: "NOPERM", mend: []any{"acl", "setuser", "default", "allkeys"}},
		{name: "no INFO", args: acl("~*", "+@all", "-info")},
		{name: "full", args: []string{"--maxmemory", "1kb", "--maxmemory-policy", "noeviction"}, kind: conn.KindOOM, // Ping succeeds, because a full Redis can deny
			want: "OOM", mend: []any{"config", "set", "maxmemory", "0"}},
		{name: "no TIME", args: []string{"--rename-command", "TIME", "NOTIME"}, kind: conn.KindOther, ping: "Unknown ", want: "Unknown "},
		{name: "no password", args: right, kind: conn.KindAuth, ping: "NOAUTH", want: "NOAUTH"},
		{name: "wrong password", args: right, kind: conn.KindAuth, ping: "WRONGPASS", want: "WRONGPASS", login: Server{Password: "swordfish"}},
		{name: "wrong user", args: right, kind: conn.KindAuth, ping: "WRONGPASS", want: "WRONGPASS", login: Server{Username: "nobody", Password: "swordfish"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newFixture(t, Options{Main: c.login}, c.args...)
			check := func(what string, err error, want string) {
				t.Helper()
				switch {
				case want == "" && err != nil:
					t.Errorf("%s: %v", what, err)
				case want != "" && (!errors.Is(err, limiter.ErrUnavailable) || conn.Classify(err) != c.kind || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "swordfish")):
					t.Errorf("%s: got error %v, want one of kind %s with %q", what, err, c.kind, want)
				}
				if state := s.State(); state.FailingSince.IsZero() != (want == "") || want != "" && (state.Kind != string(c.kind) || !strings.Contains(state.Problem, want)) {
					t.Errorf("%s: state %+v", what, state)
				}
			}
			check("Ping", s.Ping(t.Context()), c.ping)
			_, err := ask(t.Context(), s, "k", perYear)
			check("Decide", err, c.want)
			if c.want != "" {
				testenv.Equal(t, s.value("weir_redis_errors_total", c.kind), 1, "counted errors of this kind")
			}
			if c.mend != nil {
				s.do(c.mend...)
				check("Ping after it was mended", s.Ping(t.Context()), "")
				testenv.Equal(t, mustAsk(t, s, "k", perYear).Used, 1, "used without the refused request")
			}
		})
	}
}

func TestPingLeavesNothing(t *testing.T) {
	s := newFixture(t, Options{KeyPrefix: "mine "}, "--user", "default", "on", "nopass", "~mine*", "+@all")
	for range 2 {
		testenv.OK(t, s.Ping(t.Context()))
	}
	if left := s.do("pttl", "mine w1|probe").(int64); left == -1 || left > 1000 {
		t.Errorf("the counter lives for %d ms", left)
	}
	testenv.Until(t, "no key is left", func() bool { return s.do("dbsize").(int64) == 0 })
}

// testPingAsksEachNode forbids one node at a time to write.
func testPingAsksEachNode(t *testing.T, c *cluster) {
	s := open(t, c.o)
	testenv.OK(t, s.Ping(context.Background()))
	for i, n := range c.nodes {
		admin := connect(t, n)
		do(t, admin, "acl", "setuser", "default", "-set")
		testenv.Until(t, "the counter of the Ping before is gone", func() bool { return do(t, admin, "dbsize").(int64) == 0 })
		if err := s.Ping(context.Background()); err == nil || conn.Classify(err) != conn.KindAuth {
			t.Errorf("node %d refuses to write: got error %v", i, err)
		}
		do(t, admin, "acl", "setuser", "default", "+set")
		testenv.OK(t, s.Ping(context.Background()))
	}
}

func TestCancelledPingIsNoOutage(t *testing.T) {
	s := open(t, Options{Main: at(silent(t))})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Ping(ctx); !errors.Is(err, limiter.ErrUnavailable) {
		t.Errorf("got error %v, want one that wraps %v", err, limiter.ErrUnavailable)
	}
	testenv.Equal(t, s.State(), (State{Breaker: "closed"}), "state, which is that of no call")
}
