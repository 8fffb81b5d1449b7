package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/conn"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

// A server that resets counters forgets their denials immediately. Other servers forget them when
// they are told of the reset.
func TestResetEndsRememberedDenials(t *testing.T) {
	f := newMemoryFixture(t)
	l := storetest.Must(limiter.Spec{RequestsPerUnit: 1, Unit: limiter.Year, DenyFor: time.Hour})
	one := []limiter.Hit{hit("k", l, 1)}
	fill := func() {
		t.Helper()
		testenv.Until(t, "the denial is remembered", func() bool {
			_, denied, calls := f.ask(one...)
			return denied && calls == 0
		})
	}
	fill()
	testenv.OK(t, f.Reset(t.Context(), one))
	if out, denied, _ := f.ask(one...); denied || out[0].Used != 1 {
		t.Errorf("after a reset here: denied is %v, %+v", denied, out)
	}
	fill()
	testenv.OK(t, f.other.Reset(t.Context(), one))
	if _, denied, calls := f.ask(one...); !denied || calls != 0 {
		t.Errorf("a reset elsewhere is known already: denied is %v with %d calls", denied, calls)
	}
}

// Peek and Reset reach counters on several nodes and on the second Redis.
func testCountersInSeveralPlaces(t *testing.T, c *cluster) {
	o, second := c.o, testenv.RedisServer(t)
	perSecond := at(second.Addr())
	o.PerSecond = &perSecond
	s := open(t, o)
	quick := storetest.Must(limiter.Spec{RequestsPerUnit: 100, Unit: limiter.Second, UnitMultiplier: 3600})
	hits := []limiter.Hit{hit("{a}", perYear, 3), hit("{b}", perYear, 4), hit("{c}", bucketYear, 5), hit("q", quick, 6)}
	mustDecide(t, s, hits...)
	used := func() (list []int64) {
		t.Helper()
		counters := testenv.Must(s.Peek(t.Context(), hits))(t)
		for _, c := range counters {
			list = append(list, c.Used)
		}
		return list
	}
	testenv.EqualLists(t, used(), []int64{3, 4, 5, 6}, "used units")
	testenv.OK(t, s.Reset(t.Context(), hits[1:]))
	testenv.EqualLists(t, used(), []int64{3, 0, 0, 0}, "used units after the reset")
	second.Stop()
	if _, err := s.Peek(t.Context(), hits); !errors.Is(err, limiter.ErrUnavailable) {
		t.Errorf("Peek: got error %v", err)
	}
	if err := s.Reset(t.Context(), hits); !errors.Is(err, limiter.ErrUnavailable) {
		t.Errorf("Reset: got error %v", err)
	}
	if got, err := s.Peek(t.Context(), hits[:1]); err != nil || got[0].Used != 0 {
		t.Errorf("the counter on the other Redis: got %+v, error %v", got, err)
	}
}

// testSilentNodes pauses a node of a cluster and a second Redis. Every call on behalf of operators
// returns within one timeout, and counters on other nodes are reset.
func testSilentNodes(t *testing.T, c *cluster) {
	o, second := c.o, testenv.RedisServer(t)
	o.Main.Timeout = 2 * time.Second
	perSecond := at(second.Addr())
	perSecond.Timeout = o.Main.Timeout
	o.PerSecond = &perSecond
	s, shared := open(t, o), openShared(t, o.Main, "{c}")
	quick := storetest.Must(limiter.Spec{RequestsPerUnit: 100, Unit: limiter.Second, UnitMultiplier: 3600})
	hits := []limiter.Hit{hit("{a}", perYear, 3), hit("{b}", perYear, 4), hit("{c}", perYear, 5), hit("q", quick, 6)}
	mustDecide(t, s, hits...)
	testenv.Must(shared.Version(t.Context()))(t)
	silent := []*testenv.Redis{second}
	for _, node := range c.nodes {
		if len(do(t, connect(t, node), "keys", "{c}").([]any)) > 0 {
			silent = append(silent, node)
		}
	}
	for _, r := range silent {
		r.Pause()
		defer r.Resume()
	}
	ctx := context.Background()
	var calls sync.WaitGroup
	for name, call := range map[string]func() error{
		"Reset":         func() error { return s.Reset(ctx, hits) },
		"Peek":          func() error { _, err := s.Peek(ctx, hits); return err },
		"Ping":          func() error { return s.Ping(ctx) },
		"Version":       func() error { _, err := shared.Version(ctx); return err },
		"Scan":          func() error { return shared.Scan(ctx, 1, func(string, string) {}) },
		"Change":        func() error { return putException(ctx, shared, "1") },
		"ReportsWanted": func() error { _, err := shared.ReportsWanted(ctx); return err },
		"Report":        func() error { return shared.Report(ctx, "one", nil) },
		"Reports":       func() error { _, err := shared.Reports(ctx, reportsWanted); return err },
	} {
		calls.Go(func() {
			began := time.Now()
			err := call()
			late := conn.Classify(err) == conn.KindTimeout || strings.Contains(fmt.Sprint(err), "Redis did not answer within")
			if !errors.Is(err, limiter.ErrUnavailable) || !late {
				t.Errorf("%s: got error %v, want one that wraps %v and says that Redis is late", name, err, limiter.ErrUnavailable)
			}
			if took := time.Since(began); took > 2*o.Main.Timeout {
				t.Errorf("%s took %v, want one timeout of %v", name, took, o.Main.Timeout)
			}
		})
	}
	calls.Wait()
	if got, err := s.Peek(t.Context(), hits[:1]); err != nil || got[0].Used != 0 {
		t.Errorf("the counter on a node that answers: got %+v, error %v", got, err)
	}
}
