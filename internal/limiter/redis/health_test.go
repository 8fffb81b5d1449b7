package redis

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// Silence opens the breaker, if nothing else comes meanwhile.
func TestBreaker(t *testing.T) {
	silent, reply := context.DeadlineExceeded, redis.TxFailedErr
	many := slices.Repeat([]error{silent}, maxUnanswered)
	few := many[1:]
	for _, c := range []struct {
		name  string
		calls []error
		open  bool
	}{
		{"some are silent", few, false},
		{"all are silent", many, true},
		{"one works meanwhile", slices.Concat(few, []error{nil}, few), false},
		{"one is refused meanwhile", slices.Concat(few, []error{reply}, few), false},
		{"all are refused", slices.Repeat([]error{reply}, 2*maxUnanswered), false},
		{"no connection", append(slices.Repeat([]error{io.EOF}, maxUnanswered-1), silent), true},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHealth(nil, "", prometheus.NewGauge(prometheus.GaugeOpts{}), func() *slog.Logger { return slog.New(slog.DiscardHandler) })
			defer h.close()
			for _, err := range c.calls {
				h.called(err, time.Second)
			}
			if h.open.Load() != c.open {
				t.Errorf("%s: open is %v", c.name, h.open.Load())
			}
		})
	}
}

// A Redis that hangs is not waited for, although a call may take long, and is used
// again when it goes on.
func TestBreakerOnRedisThatHangs(t *testing.T) {
	t.Parallel()
	const opTimeout = 500 * time.Millisecond
	f := newFixture(t, Options{Main: Server{Timeout: opTimeout}})
	s := f.store
	untilDecides(t, s)
	f.pause()

	var wg sync.WaitGroup
	for range 3 * maxUnanswered { // that wait, in more than one call
		wg.Go(func() {
			for !s.main.health.open.Load() {
				_, _ = ask(t.Context(), s, "k", perYear)
			}
		})
	}
	wg.Wait()
	const requests = 100
	calls := f.calls()
	began := time.Now()
	for range requests {
		if err := mustFail(t, s); !strings.Contains(err.Error(), "gets no requests") {
			t.Fatalf("got error %v, want that of the breaker", err)
		}
	}
	if took := time.Since(began); took > requests*opTimeout/2 {
		t.Errorf("%d requests took %v, as if they had waited", requests, took)
	}
	if n := f.calls() - calls; n != 0 {
		t.Errorf("%v calls were made", n)
	}
	f.do("client", "unpause")
	untilDecides(t, s)
	if n := f.value("weir_redis_breaker_open", ""); n != 0 {
		t.Errorf("the breaker's gauge is %v, want 0", n)
	}
}

// The Redis of limits per second fails: others do not notice, and a request with
// limits in both charges nothing.
func TestBreakerOfOneOfTwo(t *testing.T) {
	second := testenv.RedisServer(t)
	f := newFixture(t, Options{PerSecond: &Server{Addr: second.Addr()}})
	s, limit := f.store, perSeconds(100)
	mustAsk(t, s, "k", perYear)
	second.Stop()
	for !s.perSecond.health.open.Load() {
		if _, err := ask(t.Context(), s, "second", limit); err == nil {
			t.Fatal("decided without Redis")
		}
	}
	calls := f.calls()
	hits := []limiter.Hit{hit("k", perYear, 1), hit("second", limit, 1)}
	if _, err := s.Decide(t.Context(), hits, make([]limiter.Decision, 2)); !errors.Is(err, errOpen) {
		t.Errorf("got error %v, want %v", err, errOpen)
	}
	if n := f.calls() - calls; n != 0 {
		t.Errorf("%v calls were made in vain", n)
	}
	if d := mustAsk(t, s, "k", perYear); d.Used != 2 {
		t.Errorf("%d used in the Redis that works, want 2", d.Used)
	}
}
