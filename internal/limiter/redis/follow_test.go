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

	"weir/internal/testenv"
)

// changing returns a server that may be changed, and what follows it.
func changing(first Server) (o Server, now *atomic.Pointer[Server]) {
	now = new(atomic.Pointer[Server])
	now.Store(&first)
	first.Latest = func() Server { return *now.Load() }
	first.Renew = func(context.Context) {}
	return first, now
}

// TestPasswordWhereThereWasNone has Redis ask for a password before the server has it.
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

// TestRefusalIsShort has Redis refuse what the server has: a call learns of it before it
// has waited too long, without the password.
func TestRefusalIsShort(t *testing.T) {
	r := testenv.RedisServer(t, "--requirepass", "swordfish")
	o, _ := changing(Server{Addr: r.Addr(), Username: "weir", Password: "halibut", Timeout: time.Second})
	s := open(t, Options{Main: o})
	if err := mustFail(t, s); classify(err) != kindAuth || strings.Contains(err.Error(), "halibut") {
		t.Errorf("got error %v of kind %s, want %s and no password", err, classify(err), kindAuth)
	}
}

// TestOpenConnectionsAreReplaced has Redis know two passwords, and wants the connection of
// the first, which a token that expires would end, to go.
func TestOpenConnectionsAreReplaced(t *testing.T) {
	t.Parallel()
	r := testenv.RedisServer(t)
	do(t, connect(t, r), "acl", "setuser", "weir", "on", ">first", ">first2", "~*", "+@all")
	o, now := changing(Server{Addr: r.Addr(), Username: "weir", Password: "first", Timeout: 100 * time.Millisecond})
	c := testenv.Must(newClient(o, slog.New(slog.DiscardHandler)))(t)
	defer c.close()
	ids := func() map[string]bool {
		found := map[string]bool{}
		list, err := c.current().Do(t.Context(), "client", "list").Text()
		if err != nil {
			t.Error(err)
		}
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
	if got := c.clean(errors.New("ERR first2, not first")).Error(); got != "ERR ***, not ***" {
		t.Errorf("passwords show in %q", got)
	}
}

// TestSentinelsAreReplaced has the server name nobody, and then other sentinels, who know
// another primary. No call fails.
func TestSentinelsAreReplaced(t *testing.T) {
	t.Parallel() // it waits for sentinels
	first, second := testenv.RedisServer(t), testenv.RedisServer(t)
	testenv.RedisReplica(t, first)
	testenv.RedisReplica(t, second)
	old, other := testenv.RedisSentinel(t, first, steady), testenv.RedisSentinel(t, second, steady)
	at := func(primary string, r *testenv.Redis) Server {
		return Server{Type: Sentinel, Primary: primary, Addr: r.Addr(), Timeout: long}
	}
	o, now := changing(at("weir", old))
	c := testenv.Must(newClient(o, slog.New(slog.DiscardHandler)))(t)
	defer c.close()
	counts := func(r *testenv.Redis) func() bool {
		counter := connect(t, r)
		return func() bool {
			if err := c.current().Incr(t.Context(), "k").Err(); err != nil {
				t.Error(err)
			}
			return t.Failed() || do(t, counter, "exists", "k").(int64) == 1
		}
	}
	testenv.Until(t, "the first counts", counts(first))
	next := at("nobody", other)
	now.Store(&next)
	testenv.Until(t, "nobody is refused", func() bool {
		err := c.refused.Load()
		return err != nil && strings.Contains((*err).Error(), "the sentinels know no primary of this name")
	})
	next = at("weir", other)
	now.Store(&next)
	testenv.Until(t, "the second counts", counts(second))
	testenv.Until(t, "the change is accepted", func() bool { return c.refused.Load() == nil })
}

// testRotations changes the password of a cluster hundreds of times.
func testRotations(t *testing.T, c *cluster) {
	setUser := func(args ...any) {
		testenv.OK(t, c.admin.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
			return node.Do(ctx, append([]any{"acl", "setuser", "weir", "on", "~*", "+@all"}, args...)...).Err()
		}))
	}
	first := c.o.Main
	first.Username, first.Password, first.Timeout = "weir", "0", time.Second
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
		s.main.client.changing.Lock()
		testenv.OK(t, s.main.client.update(t.Context()))
		s.main.client.changing.Unlock()
		for _, key := range []string{"{a}k", "{b}k", "{c}k"} { // one of each node
			used[key]++
			if d := mustAsk(t, s, key, yearly(1000)); d.Used != used[key] {
				t.Fatalf("%s: %d used, want %d", key, d.Used, used[key])
			}
		}
		if i == 0 {
			goroutines = runtime.NumGoroutine()
		}
		s.main.mu.RLock()
		if n := len(s.main.nodes); n > 3 {
			t.Fatalf("%d nodes after %d rotations, want one for each primary", n, i+1)
		}
		s.main.mu.RUnlock()
	}
	testenv.Until(t, "the former clients are gone", func() bool { return runtime.NumGoroutine() <= goroutines+3 })
}
