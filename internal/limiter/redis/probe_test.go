package redis

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// A Redis that answers PING but cannot decide is not one that works.
func TestPingProvesThatRedisCanDecide(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string // of redis-server
		want string   // in the error, "" for none
		kind kind
		mend []any // command after which it works
		full bool  // so that it can only deny
	}{
		{name: "primary"},
		{name: "replica", args: []string{"--replicaof", "127.0.0.1", "1"}, kind: kindReadOnly,
			want: "redis is a read-only replica", mend: []any{"replicaof", "no", "one"}},
		{name: "writable replica", args: []string{"--replicaof", "127.0.0.1", "1", "--replica-read-only", "no"}},
		{name: "cluster", args: []string{"--cluster-enabled", "yes"}, kind: kindCluster,
			want: "redis runs in cluster mode; set REDIS_TYPE=CLUSTER"},
		{name: "no scripts for this user", args: []string{"--user", "default", "on", "nopass", "~*", "+@all", "-evalsha"}, kind: kindAuth,
			want: "NOPERM", mend: []any{"acl", "setuser", "default", "+@all"}},
		{name: "no loading of scripts for this user", args: []string{"--user", "default", "on", "nopass", "~*", "+@all", "-eval"}, kind: kindAuth,
			want: "NOPERM"},
		{name: "no SET for this user", args: []string{"--user", "default", "on", "nopass", "~*", "+@all", "-set"}, kind: kindAuth,
			want: "script", mend: []any{"acl", "setuser", "default", "+set"}},
		{name: "other keys for this user", args: []string{"--user", "default", "on", "nopass", "~other*", "+@all"}, kind: kindAuth,
			want: "NOPERM", mend: []any{"acl", "setuser", "default", "allkeys"}},
		{name: "full", args: []string{"--maxmemory", "1kb", "--maxmemory-policy", "noeviction"}, full: true},
		{name: "no TIME", args: []string{"--rename-command", "TIME", "NOTIME"}, kind: kindOther, want: "Unknown "},
		{name: "no INFO for this user", args: []string{"--user", "default", "on", "nopass", "~*", "+@all", "-info"}},
		{name: "no password", args: []string{"--requirepass", "right"}, kind: kindAuth, want: "NOAUTH"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := testenv.RedisServer(t, c.args...)
			s := open(t, Options{Main: at(r.Addr())})
			err := s.Ping(context.Background())
			if c.want == "" {
				if err != nil {
					t.Fatalf("Ping: %v", err)
				}
				if !c.full {
					mustAsk(t, s, "k", perYear)
				}
				return
			}
			if !errors.Is(err, limiter.ErrUnavailable) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
			if state := s.State(); state.FailingSince.IsZero() || state.Kind != string(c.kind) || !strings.Contains(state.Problem, c.want) {
				t.Errorf("state %+v, want it to fail with kind %s for %q", state, c.kind, c.want)
			}
			if c.mend == nil {
				return
			}
			do(t, connect(t, r), c.mend...)
			if err := s.Ping(context.Background()); err != nil {
				t.Errorf("Ping after %v: %v", c.mend, err)
			}
			if state := s.State(); !state.FailingSince.IsZero() {
				t.Errorf("state %+v, want it to work", state)
			}
		})
	}
}

func TestPingLeavesNothing(t *testing.T) {
	r := testenv.RedisServer(t, "--user", "default", "on", "nopass", "~mine*", "+@all")
	s := open(t, Options{Main: at(r.Addr()), KeyPrefix: "mine "})
	for range 2 {
		testenv.OK(t, s.Ping(context.Background()))
	}
	admin := connect(t, r)
	if left := do(t, admin, "pttl", "mine w1|probe").(int64); left == -1 || left > 1000 {
		t.Errorf("the counter lives for %d ms", left)
	}
	testenv.Until(t, "no key is left", func() bool { return do(t, admin, "dbsize").(int64) == 0 })
}

// testPingAsksEachNode has one node refuse what the others permit.
func testPingAsksEachNode(t *testing.T, c *cluster) {
	s := open(t, c.o)
	testenv.OK(t, s.Ping(context.Background()))
	for i, n := range c.nodes {
		admin := connect(t, n)
		do(t, admin, "acl", "setuser", "default", "-set")
		testenv.Until(t, "the counter of the Ping before is gone", func() bool { return do(t, admin, "dbsize").(int64) == 0 })
		if err := s.Ping(context.Background()); err == nil || classify(err) != kindAuth {
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

// A cluster refuses what its client does not know to send elsewhere.
func TestClusterIsAKindOfItsOwn(t *testing.T) {
	r := testenv.RedisServer(t, "--cluster-enabled", "yes")
	s := open(t, Options{Main: at(r.Addr())})
	wantKind := func(code string) {
		t.Helper()
		testenv.Until(t, "an error says "+code, func() bool {
			hits := []limiter.Hit{{Limit: perYear, Key: []byte("a"), Cost: 1}, {Limit: perYear, Key: []byte("b"), Cost: 1}}
			_, err := s.Decide(context.Background(), hits, make([]limiter.Decision, 2))
			return err != nil && strings.Contains(err.Error(), code)
		})
		if state := s.State(); state.Kind != string(kindCluster) {
			t.Errorf("state %+v, want kind %s", state, kindCluster)
		}
	}
	wantKind("CLUSTERDOWN")
	do(t, connect(t, r), "cluster", "addslotsrange", 0, 16383)
	wantKind("CROSSSLOT")
	moved := miniredis.RunT(t)
	moved.SetError("MOVED 15495 127.0.0.1:1")
	s = open(t, Options{Main: at(moved.Addr())})
	wantKind("MOVED")
}
