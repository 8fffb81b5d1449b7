package redis

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/conn"
	"weir/internal/testenv"
)

// TestTimeoutOfACaller waits for a call that never ends, on the clock of synctest.
func TestTimeoutOfACaller(t *testing.T) {
	for _, c := range []struct {
		timeout, deadline, want time.Duration // timeout of Redis, deadline of the caller, 0 for none
	}{
		{0, 0, 100 * time.Millisecond},
		{0, 20 * time.Millisecond, 15 * time.Millisecond}, // Envoy's default
		{0, 40 * time.Millisecond, 35 * time.Millisecond},
		{0, 80 * time.Millisecond, 70 * time.Millisecond},
		{0, 800 * time.Millisecond, 700 * time.Millisecond},
		{0, time.Hour, time.Second},
		{5 * time.Second, time.Hour, 5 * time.Second},
		{5 * time.Second, 0, 100 * time.Millisecond},
		{10 * time.Millisecond, 0, 10 * time.Millisecond},
		{10 * time.Millisecond, 20 * time.Millisecond, 10 * time.Millisecond},
		{0, 10 * time.Millisecond, 5 * time.Millisecond},
		{0, 4 * time.Millisecond, 2 * time.Millisecond},
		{0, -time.Second, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			if c.deadline != 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, c.deadline)
				defer cancel()
			}
			s := New(Options{Main: Server{Addr: "127.0.0.1:1", Timeout: c.timeout}})
			defer s.Close()
			b := s.main
			began := time.Now()
			err := b.queues.Wait(ctx, b.queues.Timeout(ctx), make(chan struct{}))
			if !errors.Is(err, limiter.ErrUnavailable) {
				t.Errorf("got error %v, want one that wraps %v", err, limiter.ErrUnavailable)
			}
			testenv.Equal(t, time.Since(began), c.want, "timeout %v, deadline %v: waited", c.timeout, c.deadline)
		})
	}
}

// TestLateAnswersAreCounted has a Redis that replies after the callers' deadlines. It must not
// count as a Redis that does not reply.
func TestLateAnswersAreCounted(t *testing.T) {
	for name, hits := range map[string][]limiter.Hit{
		"in one place":      {hit("k", perYear, 1)},
		"in several places": {hit("k", perYear, 1), hit("s", perSeconds(100), 1)},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			s := newFixture(t, Options{PerSecond: &Server{Addr: testenv.RedisServer(t).Addr()}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			s.pause()
			var wg sync.WaitGroup
			ask := func(ctx context.Context) {
				if _, err := s.Decide(ctx, hits, make([]limiter.Decision, len(hits))); !errors.Is(err, limiter.ErrUnavailable) {
					t.Errorf("got error %v, want one that wraps %v", err, limiter.ErrUnavailable)
				}
			}
			for range 2 * maxUnanswered {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
				defer cancel()
				wg.Go(func() { ask(ctx) })
			}
			canceled, cancel := context.WithCancel(t.Context())
			cancel()
			ask(canceled)
			wg.Wait()
			s.do("client", "unpause")
			mustDecide(t, s, hits...) // the breaker is closed
			rest(s.Store)
			testenv.Equal(t, s.value("weir_redis_errors_total", conn.KindTimeout), 2*maxUnanswered, "counted timeouts, without the one that was canceled")
			if n := strings.Count(log.String(), "redis answers after the deadlines of requests"); n != 1 || strings.Count(log.String(), "\n") != 1 {
				t.Errorf("logged, of %d requests at the same time:\n%s", 2*maxUnanswered, log.String())
			}
		})
	}
}

// TestCallersThatLeaveAreCounted cancels requests. Canceled requests in flight are charged, and
// so are waiting requests if their batch has a request that must be decided. Other waiting
// requests need no call, and requests that were canceled before Decide are not charged.
func TestCallersThatLeaveAreCounted(t *testing.T) {
	for _, c := range []struct {
		name string
		last limiter.Hit // hit of the last request that waits
		stay bool
		want int64
	}{
		{"all leave", limiter.Hit{Cost: 1}, false, 2},
		{"one stays", limiter.Hit{Cost: 1}, true, 12},
		{"one has used it already", limiter.Hit{Cost: 1, Always: true}, false, 12},
		{"one gives something back", limiter.Hit{Cost: 2, Refund: true}, false, 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newFixture(t, Options{})
			mustAsk(t, s, "k", perYear)
			rest(s.Store)
			s.pause()

			ctx, cancel := context.WithCancel(t.Context())
			var left, stayed sync.WaitGroup
			leave := func(h limiter.Hit) {
				if _, err := s.Decide(ctx, []limiter.Hit{h}, make([]limiter.Decision, 1)); !errors.Is(err, context.Canceled) {
					t.Errorf("got error %v, want one that wraps %v", err, context.Canceled)
				}
			}
			one := hit("k", perYear, 1)
			left.Go(func() { leave(one) })
			s.untilWaiting(t, 0)
			for range 9 {
				left.Go(func() { leave(one) })
			}
			if c.last.Limit, c.last.Key = perYear, []byte("k"); c.stay {
				stayed.Go(func() { mustAsk(t, s, "k", perYear) })
			} else {
				left.Go(func() { leave(c.last) })
			}
			s.untilWaiting(t, 10)
			cancel()
			left.Wait() // while Redis is still paused
			leave(one)  // a request that was canceled before
			s.do("client", "unpause")
			stayed.Wait()
			rest(s.Store)
			testenv.Equal(t, mustAsk(t, s, "k", perYear).Used, c.want+1, "used with this request")
		})
	}
}

// TestDenialsAreLearntAfterTheirCallersLeft has a Redis that replies after the callers'
// deadlines. Later requests must know its denials.
func TestDenialsAreLearntAfterTheirCallersLeft(t *testing.T) {
	for name, other := range map[string]*limiter.Limit{"a request in one place": yearly(5), "a request in several places": perSeconds(5)} {
		t.Run(name, func(t *testing.T) {
			frozen := time.Now() // so that no denial is forgotten on a slow machine
			s := newFixture(t, Options{DenyMemory: 1 << 20, local: func() time.Time { return frozen }, PerSecond: &Server{Addr: testenv.RedisServer(t).Addr()}})
			request := []limiter.Hit{hit("user", yearly(1), 1), hit("other", other, 1)}
			mustDecide(t, s, request...)

			s.pause()
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			hits := []limiter.Hit{hit("user", request[0].Limit, 1), hit("other", other, 1)}
			left := make(chan error, 1)
			go func() {
				_, err := s.Decide(ctx, hits, make([]limiter.Decision, len(hits)))
				left <- err
			}()
			s.untilWaiting(t, 0) // the request is in flight; a waiting one would not be sent after its caller left
			leave()
			if err := <-left; !errors.Is(err, context.Canceled) {
				t.Fatalf("got error %v of a caller who left", err)
			}
			copy(hits[0].Key, "gone") // the caller reuses the memory
			copy(hits[1].Key, "again")
			s.do("client", "unpause")
			rest(s.Store)

			s.pause()
			defer s.do("client", "unpause")
			out, denied := mustDecide(t, s, request...)
			if !denied || !out[0].Remembered || out[0].Used != 1 || out[1].Used != 1 {
				t.Errorf("then: denied %t, %+v; want a denial from memory", denied, out)
			}
		})
	}
}
