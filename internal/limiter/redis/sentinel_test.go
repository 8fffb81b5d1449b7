package redis

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/conn"
	"weir/internal/testenv"
)

// steady makes a sentinel tolerate a slow Redis.
const steady = "sentinel down-after-milliseconds weir 600000"

func TestSentinelPromotesAReplica(t *testing.T) {
	t.Parallel()
	primary := testenv.RedisServer(t)
	replica := testenv.RedisReplica(t, primary)
	sentinel := testenv.RedisSentinel(t, primary, steady)
	o := Server{Type: conn.Sentinel, Primary: "weir", Addr: sentinel.Addr(), Timeout: long}
	s, shared := open(t, Options{Main: o}), openShared(t, o, "")
	testenv.OK(t, s.Ping(t.Context()))
	mustAsk(t, s, "k", perYear)
	testenv.OK(t, putException(t.Context(), shared, "1"))
	do(t, connect(t, primary), "wait", 1, long.Milliseconds()) // until the replica has the counter
	primary.Stop()
	mustFail(t, s)
	admin := connect(t, sentinel)
	testenv.Until(t, "the promoted replica decides", func() bool {
		_ = admin.Do(t.Context(), "sentinel", "failover", "weir").Err() // fails during a failover
		_, err := ask(t.Context(), s, "k", perYear)
		return err == nil
	})
	testenv.Until(t, "what servers share is there, too", func() bool {
		_, _, texts, _, err := shared.Changes(t.Context(), 0, "")
		return err == nil && slices.Equal(texts, []string{"1"})
	})
	testenv.Equal(t, do(t, connect(t, replica), "exists", "k").(int64), 1, "counters on the replica")
	if d := mustAsk(t, s, "k", perYear); d.Used < 3 {
		t.Errorf("%d used, want what was used before the failover as well", d.Used)
	}
}

func TestSentinelThatDoesNotKnow(t *testing.T) {
	t.Parallel()
	primary := testenv.RedisServer(t, "--requirepass", "right", "--masterauth", "right")
	testenv.RedisReplica(t, primary, "--requirepass", "right", "--masterauth", "right")
	sentinel := testenv.RedisSentinel(t, primary, steady, "sentinel auth-pass weir right", "requirepass watchword")
	for _, c := range []struct {
		name   string
		server Server
		want   string // text in the error, or "" for no error
		kind   conn.Kind
	}{
		{"all right", Server{Primary: "weir", Addr: sentinel.Addr(), Password: "right", SentinelPassword: "watchword"}, "", ""},
		{"other name", Server{Primary: "other", Addr: sentinel.Addr(), Password: "right", SentinelPassword: "watchword"}, "the sentinels know no primary of this name", conn.KindOther},
		{"wrong password of the sentinel", Server{Primary: "weir", Addr: sentinel.Addr(), Password: "right", SentinelPassword: "swordfish"}, "WRONGPASS", conn.KindAuth},
		{"wrong password of the primary", Server{Primary: "weir", Addr: sentinel.Addr(), Password: "swordfish", SentinelPassword: "watchword"}, "WRONGPASS", conn.KindAuth},
		{"nobody there", Server{Primary: "weir", Addr: "127.0.0.1:1", Password: "right"}, "sentinels", conn.KindConnection},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.server.Type, c.server.Timeout = conn.Sentinel, long
			s := open(t, Options{Main: c.server})
			err := s.Ping(t.Context())
			if set := putException(t.Context(), openShared(t, c.server, ""), "1"); (set == nil) != (err == nil) {
				t.Errorf("setting an exception: got error %v, and from Ping %v", set, err)
			}
			if c.want == "" {
				testenv.OK(t, err)
				mustAsk(t, s, "k", perYear)
				return
			}
			if !errors.Is(err, limiter.ErrUnavailable) || !strings.Contains(err.Error(), c.want) || conn.Classify(err) != c.kind {
				t.Errorf("got error %v of kind %s, want one with %q of kind %s", err, conn.Classify(err), c.want, c.kind)
			}
			if strings.Contains(err.Error(), "swordfish") {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}
