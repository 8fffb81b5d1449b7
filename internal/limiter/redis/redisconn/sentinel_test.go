package redisconn

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"weir/internal/testenv"
)

// steady makes a sentinel take nobody for dead who is only slow.
const steady = "sentinel down-after-milliseconds weir 600000"

// TestSentinelsReportAnotherPrimary has an old primary that serves on and learns of
// nothing, as one that is cut off from the sentinels; and a sentinel that only the
// other one knows.
func TestSentinelsReportAnotherPrimary(t *testing.T) {
	old, other := testenv.RedisServer(t), testenv.RedisServer(t)
	testenv.RedisReplica(t, old)
	first, second := testenv.RedisSentinel(t, old, steady), testenv.RedisSentinel(t, old, steady)
	c := open(t, Options{Type: Sentinel, URL: "weir," + first.Addr(), OpTimeout: long})
	if err := c.Incr(t.Context(), "k").Err(); err != nil {
		t.Fatal(err)
	}
	sentinels := c.dialer.sentinels
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
	testenv.Until(t, "the other primary counts", func() bool {
		_ = c.Incr(t.Context(), "k").Err()
		return do(t, counters, "exists", "k").(int64) == 1
	})
	if n, err := c.Incr(t.Context(), "new").Result(); n != 1 || err != nil || do(t, connect(t, old), "exists", "new").(int64) != 0 {
		t.Errorf("counted to %d, error %v, want 1 on the other primary alone", n, err)
	}
}

// TestSentinelsAreReplaced has the options name nobody, and then others, who know another
// primary. No call fails.
func TestSentinelsAreReplaced(t *testing.T) {
	first, second := testenv.RedisServer(t), testenv.RedisServer(t)
	testenv.RedisReplica(t, first)
	testenv.RedisReplica(t, second)
	old, other := testenv.RedisSentinel(t, first, steady), testenv.RedisSentinel(t, second, steady)
	var url atomic.Value
	url.Store("weir," + old.Addr())
	o := Options{Type: Sentinel, URL: "weir," + old.Addr(), OpTimeout: long, Renew: func(context.Context) {}}
	o.Latest = func() Options { next := o; next.URL = url.Load().(string); return next }
	refused, accepted := make(chan error, 1), make(chan struct{}, 1)
	o.Changed = func(err error) {
		if err == nil {
			accepted <- struct{}{}
			return
		}
		select {
		case refused <- err:
		default: // one is enough
		}
	}
	c := open(t, o)
	counts := func(r *testenv.Redis) func() bool {
		counter := connect(t, r)
		return func() bool {
			if err := c.Incr(t.Context(), "k").Err(); err != nil {
				t.Error(err)
			}
			return t.Failed() || do(t, counter, "exists", "k").(int64) == 1
		}
	}
	testenv.Until(t, "the first counts", counts(first))
	url.Store("nobody," + other.Addr())
	if err := <-refused; !strings.Contains(err.Error(), "the sentinels know no primary of this name") {
		t.Errorf("got error %v", err)
	}
	url.Store("weir," + other.Addr())
	testenv.Until(t, "the second counts", counts(second))
	<-accepted
}

// TestSentinelsAreReplacedDuringSearches replaces the sentinels while others look for the
// primary. One that was found before is not taken for one of the new sentinels.
func TestSentinelsAreReplacedDuringSearches(t *testing.T) {
	redis := testenv.RedisServer(t)
	testenv.RedisReplica(t, redis)
	addrs := []string{testenv.RedisSentinel(t, redis, steady).Addr()}
	c := open(t, Options{Type: Sentinel, URL: "weir," + addrs[0], OpTimeout: long})
	find := func() error { _, err := c.dialer.find(t.Context(), ""); return err }
	for range 100 {
		if err := find(); err != nil {
			t.Fatal(err)
		}
		var searches sync.WaitGroup
		for range 8 {
			searches.Go(func() { _ = find() })
		}
		c.dialer.sentinels.move("nobody", addrs)
		searches.Wait()
		if !c.dialer.sentinels.isMoving() {
			t.Fatal("a primary found before counts as that of the new sentinels")
		}
		c.dialer.sentinels.move("weir", addrs)
	}
}
