package redis

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/internal/limiter/redis/conn"
	"weir/internal/testenv"
)

// changing returns a Server whose Latest returns *now.
func changing(first Server) (o Server, now *atomic.Pointer[Server]) {
	now = new(atomic.Pointer[Server])
	now.Store(&first)
	first.Latest = func() Server { return *now.Load() }
	first.Renew = func(context.Context) {}
	return first, now
}

// TestPasswordWhereThereWasNone sets a password in Redis before the store learns it.
func TestPasswordWhereThereWasNone(t *testing.T) {
	r := testenv.RedisServer(t)
	o, now := changing(Server{Addr: r.Addr(), Timeout: long})
	var renewed atomic.Int64
	o.Renew = func(context.Context) {
		if renewed.Add(1) == 3 {
			now.Store(&Server{Addr: r.Addr(), Password: "sword fish", Timeout: long})
		}
	}
	s := open(t, Options{Main: o})
	mustAsk(t, s, "k", perYear)
	admin := connect(t, r)
	do(t, admin, "config", "set", "requirepass", "sword fish")
	do(t, admin, "client", "kill", "type", "normal", "skipme", "yes")
	if d := mustAsk(t, s, "k", perYear); d.Used != 2 || renewed.Load() != 3 {
		t.Errorf("%d used, renewed %d times, want 2 and 3", d.Used, renewed.Load())
	}
}

// TestRefusalIsShort has a Redis that rejects the store's password. A call must return the error
// of Redis before its timeout, and without the password.
func TestRefusalIsShort(t *testing.T) {
	r := testenv.RedisServer(t, "--requirepass", "swordfish")
	o, _ := changing(Server{Addr: r.Addr(), Username: "weir", Password: "halibut", Timeout: time.Second})
	s := open(t, Options{Main: o})
	if err := mustFail(t, s); conn.Classify(err) != conn.KindAuth || strings.Contains(err.Error(), "halibut") {
		t.Errorf("got error %v of kind %s, want %s and no password", err, conn.Classify(err), conn.KindAuth)
	}
}

// TestOpenConnectionsAreReplaced has a Redis that accepts two passwords. The connection with the
// first password must be closed, because an expiring token would break it.
func TestOpenConnectionsAreReplaced(t *testing.T) {
	t.Parallel()
	r := testenv.RedisServer(t)
	do(t, connect(t, r), "acl", "setuser", "weir", "on", ">first", ">first2", "~*", "+@all")
	o, now := changing(Server{Addr: r.Addr(), Username: "weir", Password: "first", Timeout: 100 * time.Millisecond})
	c := conn.Open(o, slog.New(slog.DiscardHandler))
	defer c.Close()
	ids := func() map[string]bool {
		found := map[string]bool{}
		list := testenv.Must(c.Current().Do(t.Context(), "client", "list").Text())(t)
		for line := range strings.Lines(list) {
			if strings.Contains(line, "user=weir") {
				id, _, _ := strings.Cut(line, " ")
				found[id] = true
			}
		}
		return found
	}
	first := ids()
	if again := ids(); len(first) != 1 || len(again) != 1 {
		t.Errorf("connections %v, then %v, want one", first, again)
	}
	now.Store(&Server{Addr: r.Addr(), Username: "weir", Password: "first2", Timeout: 100 * time.Millisecond})
	testenv.Until(t, "the connection is another one", func() bool {
		for id := range ids() {
			if first[id] {
				return t.Failed()
			}
		}
		return true
	})
	testenv.Equal(t, c.Failed(errors.New("ERR first2, not first")).Error(), "ERR ***, not ***", "text without passwords")
}

// TestSentinelsAreReplaced changes to an unknown primary, and then to other sentinels with
// another primary. No call fails.
func TestSentinelsAreReplaced(t *testing.T) {
	t.Parallel() // it waits for sentinels
	first, second := testenv.RedisServer(t), testenv.RedisServer(t)
	testenv.RedisReplica(t, first)
	testenv.RedisReplica(t, second)
	old, other := testenv.RedisSentinel(t, first, steady), testenv.RedisSentinel(t, second, steady)
	at := func(primary string, r *testenv.Redis) Server {
		return Server{Type: conn.Sentinel, Primary: primary, Addr: r.Addr(), Timeout: long}
	}
	o, now := changing(at("weir", old))
	c := conn.Open(o, slog.New(slog.DiscardHandler))
	defer c.Close()
	counts := func(r *testenv.Redis) func() bool {
		admin := connect(t, r)
		return func() bool {
			testenv.OK(t, c.Current().Incr(t.Context(), "k").Err())
			return t.Failed() || do(t, admin, "exists", "k").(int64) == 1
		}
	}
	testenv.Until(t, "the first counts", counts(first))
	next := at("nobody", other)
	now.Store(&next)
	testenv.Until(t, "nobody is refused", func() bool {
		err := c.Refused()
		return err != nil && strings.Contains(err.Error(), "the sentinels know no primary of this name")
	})
	next = at("weir", other)
	now.Store(&next)
	testenv.Until(t, "the second counts", counts(second))
	testenv.Until(t, "the change is accepted", func() bool { return c.Refused() == nil })
}

// testRotations changes the password of a cluster hundreds of times.
func testRotations(t *testing.T, c *cluster) {
	setUser := func(args ...any) {
		testenv.OK(t, c.admin.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
			return node.Do(ctx, append([]any{"acl", "setuser", "weir", "on", "~*", "+@all"}, args...)...).Err()
		}))
	}
	first := c.o.Main
	first.Username, first.Password, first.Timeout = "weir", "0", 4*time.Second // a former client is closed after twice that
	setUser("resetpass", ">0")
	o, now := changing(first)
	s := open(t, Options{Main: o})
	used := map[string]int64{}
	var goroutines int
	for i := range 300 {
		next := *now.Load()
		next.Password = strconv.Itoa(i)
		setUser("resetpass", ">"+next.Password)
		now.Store(&next)
		testenv.OK(t, s.main.client.Update(t.Context()))
		for _, key := range []string{"{a}k", "{b}k", "{c}k"} { // one key on each node
			used[key]++
			if d := mustAsk(t, s, key, yearly(1000)); d.Used != used[key] {
				t.Fatalf("%s: %d used, want %d", key, d.Used, used[key])
			}
		}
		if i == 0 {
			goroutines = runtime.NumGoroutine()
		}
		if _, _, n := s.main.queues.Stats(); n > 3 {
			t.Fatalf("%d queues after %d rotations, want one for each primary", n, i+1)
		}
	}
	testenv.Until(t, "the former clients are gone", func() bool { return runtime.NumGoroutine() <= goroutines+3 })
}
