package conn

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"weir/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// changing returns a Server whose Latest returns *now.
func changing(first Server) (s Server, now *atomic.Pointer[Server]) {
	now = new(atomic.Pointer[Server])
	now.Store(&first)
	first.Latest = func() Server { return *now.Load() }
	first.Renew = func(context.Context) {}
	return first, now
}

// command returns a function that sends a command to r. The command must succeed.
func command(t *testing.T, r *testenv.Redis) func(args ...any) any {
	c := redis.NewClient(&redis.Options{Addr: r.Addr()})
	t.Cleanup(func() { c.Close() })
	return func(args ...any) any {
		return testenv.Must(c.Do(context.Background(), args...).Result())(t)
	}
}

// TestOpenConnectionsAreReplaced has a Redis that accepts two passwords. The connection with the
// first password must be closed, because an expiring token would break it.
func TestOpenConnectionsAreReplaced(t *testing.T) {
	t.Parallel()
	r := testenv.RedisServer(t)
	command(t, r)("acl", "setuser", "weir", "on", ">first", ">first2", "~*", "+@all")
	o, now := changing(Server{Addr: r.Addr(), Username: "weir", Password: "first", Timeout: 100 * time.Millisecond})
	c := Open(o, slog.New(slog.DiscardHandler))
	defer c.Close()
	ids := func() map[string]bool {
		found := map[string]bool{}
		list, err := c.Current().Do(t.Context(), "client", "list").Text()
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
	testenv.Equal(t, c.clean(errors.New("ERR first2, not first")).Error(), "ERR ***, not ***", "text without passwords")
}

// TestSentinelsAreReplaced changes to an unknown primary, and then to other sentinels with
// another primary. No call fails.
func TestSentinelsAreReplaced(t *testing.T) {
	t.Parallel() // it waits for sentinels
	first, second := testenv.RedisServer(t), testenv.RedisServer(t)
	testenv.RedisReplica(t, first)
	testenv.RedisReplica(t, second)
	old, other := testenv.RedisSentinel(t, first, "sentinel down-after-milliseconds weir 600000"), testenv.RedisSentinel(t, second, "sentinel down-after-milliseconds weir 600000")
	at := func(primary string, r *testenv.Redis) Server {
		return Server{Type: Sentinel, Primary: primary, Addr: r.Addr(), Timeout: 20 * time.Second}
	}
	o, now := changing(at("weir", old))
	c := Open(o, slog.New(slog.DiscardHandler))
	defer c.Close()
	counts := func(r *testenv.Redis) func() bool {
		do := command(t, r)
		return func() bool {
			if err := c.Current().Incr(t.Context(), "k").Err(); err != nil {
				t.Error(err)
			}
			return t.Failed() || do("exists", "k").(int64) == 1
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
