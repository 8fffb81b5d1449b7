package redisconn

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/testenv"
)

func TestTargets(t *testing.T) {
	as := func(addr, password string) target { return target{addr, login{"", password}} }
	const set, accept = "set", "accept"
	type step struct {
		what string
		target
	}
	for name, c := range map[string]struct {
		steps []step
		want  []target
	}{
		"the first":                           {nil, []target{as("a", "1")}},
		"another password":                    {[]step{{accept, as("a", "1")}, {set, as("a", "2")}}, []target{as("a", "2"), as("a", "1")}},
		"the same":                            {[]step{{set, as("a", "1")}}, []target{as("a", "1")}},
		"another one before it was accepted":  {[]step{{accept, as("a", "1")}, {set, as("a", "2")}, {set, as("a", "3")}}, []target{as("a", "3"), as("a", "1")}},
		"another one after it was accepted":   {[]step{{set, as("a", "2")}, {accept, as("a", "2")}, {set, as("a", "3")}}, []target{as("a", "3"), as("a", "2")}},
		"back":                                {[]step{{set, as("a", "2")}, {set, as("a", "1")}}, []target{as("a", "1")}},
		"another server":                      {[]step{{accept, as("a", "1")}, {set, as("b", "1")}}, []target{as("a", "1"), as("b", "1")}},
		"another server that has accepted it": {[]step{{set, as("b", "1")}, {accept, as("b", "1")}}, []target{as("b", "1")}},
		"an old one is accepted":              {[]step{{set, as("b", "1")}, {accept, as("a", "1")}}, []target{as("a", "1"), as("b", "1")}},
	} {
		list := changing{newest: as("a", "1")}
		for _, s := range c.steps {
			if s.what == set {
				list.set(s.target)
			} else {
				list.accept(s.target)
			}
		}
		if got := list.targets(); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// TestPasswordWhereThereWasNone has Redis ask for a password before the options have it.
func TestPasswordWhereThereWasNone(t *testing.T) {
	server := testenv.RedisServer(t)
	admin := connect(t, server)
	var now atomic.Pointer[Options]
	now.Store(&Options{URL: "redis://" + server.Addr(), OpTimeout: long})
	o := *now.Load()
	o.Latest = func() Options { return *now.Load() }
	var renewed atomic.Int64
	o.Renew = func(context.Context) {
		if renewed.Add(1) == 3 {
			now.Store(&Options{URL: "redis://:sword%20fish@" + server.Addr(), OpTimeout: long})
		}
	}
	c := open(t, o)
	want := func(n int64) {
		t.Helper()
		if got, err := c.Incr(t.Context(), "k").Result(); got != n || err != nil {
			t.Errorf("counted to %d, error %v, want %d", got, err, n)
		}
	}
	want(1)
	do(t, admin, "config", "set", "requirepass", "sword fish")
	do(t, admin, "client", "kill", "type", "normal", "skipme", "yes")
	want(2)
	if n := renewed.Load(); n != 3 {
		t.Errorf("renewed %d times, want 3", n)
	}
}

// TestRefusalIsShort has Redis refuse what the options have: a call learns of it before it
// has waited too long, without the password.
func TestRefusalIsShort(t *testing.T) {
	server := testenv.RedisServer(t, "--requirepass", "swordfish")
	o := Options{URL: server.Addr(), Username: "weir", Password: "halibut", OpTimeout: time.Second, Renew: func(context.Context) {}}
	o.Latest = func() Options { return o }
	c := open(t, o)
	err := c.Clean(c.Ping(t.Context()).Err())
	if err == nil || !strings.HasPrefix(err.Error(), "logging in: WRONGPASS") {
		t.Errorf("got error %v", err)
	}
	if err := c.Clean(LoginError{refusal("ERR unknown command 'AUTH' halibut")}); strings.Contains(err.Error(), "halibut") {
		t.Errorf("the error shows the password: %v", err)
	}
}

// TestOpenConnectionsAreReplaced has Redis know two passwords, and wants the connection of
// the first, which a token that expires would end, to go without a call that fails.
func TestOpenConnectionsAreReplaced(t *testing.T) {
	server := testenv.RedisServer(t)
	do(t, connect(t, server), "acl", "setuser", "weir", "on", ">first", ">second", "~*", "+@all")
	var now atomic.Pointer[Options]
	now.Store(&Options{URL: server.Addr(), Username: "weir", Password: "first", OpTimeout: long})
	o := *now.Load()
	o.Latest, o.Renew = func() Options { return *now.Load() }, func(context.Context) {}
	c := open(t, o)
	id := func() any {
		id, err := c.Do(t.Context(), "client", "id").Result()
		if err != nil {
			t.Error(err)
		}
		return id
	}
	first := id()
	if id() != first {
		t.Error("the connection is replaced although nothing has changed")
	}
	now.Store(&Options{URL: server.Addr(), Username: "weir", Password: "second", OpTimeout: long})
	testenv.Until(t, "the connection is another one", func() bool { return t.Failed() || id() != first })
}
