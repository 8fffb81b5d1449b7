package redis

import (
	"context"
	"errors"
	"strings"
	"testing"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/conn"
	"weir/internal/testenv"
)

// Redis is there, but does not do what it is asked to. A Redis that answers PING but cannot
// decide is not one that works.
func TestRefusals(t *testing.T) {
	acl := func(rules ...string) []string {
		return append([]string{"--user", "default", "on", "nopass"}, rules...)
	}
	right := []string{"--requirepass", "right"}
	for _, c := range []struct {
		name       string
		args       []string // of redis-server
		ping, want string   // in the errors of Ping and Decide, "" for none
		kind       conn.Kind
		mend       []any  // command after which it works
		login      Server // the user and password
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
		{name: "full", args: []string{"--maxmemory", "1kb", "--maxmemory-policy", "noeviction"}, kind: conn.KindOOM, // it can deny
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
				if n := s.value("weir_redis_errors_total", c.kind); n != 1 {
					t.Errorf("%v errors of this kind are counted, want 1", n)
				}
			}
			if c.mend != nil {
				s.do(c.mend...)
				check("Ping after it was mended", s.Ping(t.Context()), "")
				if d := mustAsk(t, s, "k", perYear); d.Used != 1 {
					t.Errorf("%d used, want 1: the refused request was counted", d.Used)
				}
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

// testPingAsksEachNode has one node refuse what the others permit.
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
		if err := s.Ping(context.Background()); err != nil {
			t.Errorf("then: %v", err)
		}
	}
}

func TestCancelledPingIsNoOutage(t *testing.T) {
	s := open(t, Options{Main: at(silent(t))})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Ping(ctx); !errors.Is(err, limiter.ErrUnavailable) {
		t.Errorf("got error %v, want one that wraps %v", err, limiter.ErrUnavailable)
	}
	if state := s.State(); state != (State{Breaker: "closed"}) {
		t.Errorf("state %+v, want that of no call", state)
	}
}
