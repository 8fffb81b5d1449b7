package redisstore

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// steady makes a sentinel take nobody for dead who is only slow.
const steady = "sentinel down-after-milliseconds weir 600000"

func TestSentinelPromotesAReplica(t *testing.T) {
	primary := testenv.RedisServer(t)
	replica := testenv.RedisReplica(t, primary)
	sentinel := testenv.RedisSentinel(t, primary, steady)
	s := open(t, Options{Type: Sentinel, URL: "weir," + sentinel.Addr(), OpTimeout: long})
	if err := s.Ping(context.Background()); err != nil {
		t.Fatalf("Ping: %v", err)
	}
	mustAsk(t, s, "k", perYear)
	do(t, connect(t, primary), "wait", 1, long.Milliseconds()) // until the replica has it
	primary.Stop()
	mustFail(t, s)
	admin := connect(t, sentinel)
	testenv.Until(t, "the promoted replica decides", func() bool {
		_ = admin.Do(t.Context(), "sentinel", "failover", "weir").Err() // refused while one is under way
		_, err := ask(context.Background(), s, "k", perYear)
		return err == nil
	})
	if n := do(t, connect(t, replica), "exists", "k").(int64); n != 1 {
		t.Error("the counter is not on the replica")
	}
	if d := mustAsk(t, s, "k", perYear); d.Used < 3 {
		t.Errorf("%d used, want what was used before the failover as well", d.Used)
	}
}

// TestSentinelsTellOfAnotherPrimary has an old primary that serves on and learns of
// nothing, as one that is cut off from the sentinels; and a sentinel that only the
// other one tells of.
func TestSentinelsTellOfAnotherPrimary(t *testing.T) {
	old, other := testenv.RedisServer(t), testenv.RedisServer(t)
	testenv.RedisReplica(t, old)
	first, second := testenv.RedisSentinel(t, old, steady), testenv.RedisSentinel(t, old, steady)
	s := open(t, Options{Type: Sentinel, URL: "weir," + first.Addr(), OpTimeout: long})
	mustAsk(t, s, "k", perYear)
	sentinels := s.main.dialer.sentinels
	testenv.Until(t, "the second sentinel is known", func() bool {
		sentinels.mu.Lock()
		defer sentinels.mu.Unlock()
		return slices.Equal(sentinels.others, []string{second.Addr()})
	})
	first.Stop()
	host, port, _ := net.SplitHostPort(other.Addr())
	admin := connect(t, second)
	do(t, admin, "sentinel", "remove", "weir")
	do(t, admin, "sentinel", "monitor", "weir", host, port, 1)
	counters := connect(t, other)
	testenv.Until(t, "the other primary decides", func() bool {
		_, _ = ask(context.Background(), s, "k", perYear)
		return do(t, counters, "exists", "k").(int64) == 1
	})
	if d := mustAsk(t, s, "new", perYear); d.Used != 1 || do(t, connect(t, old), "exists", "new").(int64) != 0 {
		t.Errorf("%d used, want 1 of the other primary alone", d.Used)
	}
}

func TestSentinelThatDoesNotKnow(t *testing.T) {
	primary := testenv.RedisServer(t, "--requirepass", "right", "--masterauth", "right")
	testenv.RedisReplica(t, primary, "--requirepass", "right", "--masterauth", "right")
	sentinel := testenv.RedisSentinel(t, primary, steady, "sentinel auth-pass weir right", "requirepass watchword")
	for _, c := range []struct {
		name    string
		options Options
		want    string // in the error, "" for none
		kind    kind
	}{
		{"all right", Options{URL: "weir," + sentinel.Addr(), Password: "right", SentinelPassword: "watchword"}, "", ""},
		{"other name", Options{URL: "other," + sentinel.Addr(), Password: "right", SentinelPassword: "watchword"}, "the sentinels know no primary of this name", kindOther},
		{"wrong password of the sentinel", Options{URL: "weir," + sentinel.Addr(), Password: "right", SentinelPassword: "swordfish"}, "WRONGPASS", kindAuth},
		{"wrong password of the primary", Options{URL: "weir," + sentinel.Addr(), Password: "swordfish", SentinelPassword: "watchword"}, "WRONGPASS", kindAuth},
		{"nobody there", Options{URL: "weir,127.0.0.1:1", Password: "right"}, "sentinels", kindConnection},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.options.Type, c.options.OpTimeout = Sentinel, long
			s := open(t, c.options)
			err := s.Ping(context.Background())
			if c.want == "" {
				if err != nil {
					t.Fatalf("Ping: %v", err)
				}
				mustAsk(t, s, "k", perYear)
				return
			}
			if !errors.Is(err, limiter.ErrUnavailable) || !strings.Contains(err.Error(), c.want) || classify(err) != c.kind {
				t.Errorf("got error %v of kind %s, want one with %q of kind %s", err, classify(err), c.want, c.kind)
			}
			if strings.Contains(err.Error(), "swordfish") {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}
