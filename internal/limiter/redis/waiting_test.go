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

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limiter"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

// TestTimeoutOfACaller waits for a call that never ends, on a clock of its own.
func TestTimeoutOfACaller(t *testing.T) {
	for _, c := range []struct {
		timeout, deadline, want time.Duration // of Redis and of the caller, 0: none
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
			s := testenv.Must(New(Options{Main: Server{Addr: "127.0.0.1:1", Timeout: c.timeout}}))(t)
			defer s.Close()
			b := s.(*store).main
			began := time.Now()
			err := b.wait(ctx, b.timeout(ctx), make(chan struct{}))
			if !errors.Is(err, limiter.ErrUnavailable) {
				t.Errorf("got error %v, want one that wraps %v", err, limiter.ErrUnavailable)
			}
			if took := time.Since(began); took != c.want {
				t.Errorf("timeout %v, deadline %v: waited %v, want %v", c.timeout, c.deadline, took, c.want)
			}
		})
	}
}

// TestLateAnswersAreCounted has a Redis that answers when the callers'
// deadlines are over. It must not be taken for one that does not answer.
func TestLateAnswersAreCounted(t *testing.T) {
	for name, hits := range map[string][]limiter.Hit{
		"in one place":      {hit("k", perYear, 1)},
		"in several places": {hit("k", perYear, 1), hit("s", perSeconds(100), 1)},
	} {
		t.Run(name, func(t *testing.T) {
			r := testenv.RedisServer(t)
			admin := connect(t, r)
			reg := prometheus.NewRegistry()
			var log bytes.Buffer
			s := open(t, Options{Main: at(r.Addr()), PerSecond: &Server{Addr: testenv.RedisServer(t).Addr()}, Registerer: reg, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			do(t, admin, "client", "pause", 2*long.Milliseconds(), "write")
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
			do(t, admin, "client", "unpause")
			if _, err := s.Decide(t.Context(), hits, make([]limiter.Decision, len(hits))); err != nil {
				t.Errorf("the breaker is open: %v", err)
			}
			rest(s)
			if n := value(t, reg, "weir_redis_errors_total", kindTimeout); n != 2*maxUnanswered {
				t.Errorf("%v are counted, want %d and not the one that was canceled", n, 2*maxUnanswered)
			}
			if n := strings.Count(log.String(), "redis answers after the deadlines of requests"); n != 1 || strings.Count(log.String(), "\n") != 1 {
				t.Errorf("logged, of %d requests at the same time:\n%s", 2*maxUnanswered, log.String())
			}
		})
	}
}

// TestCallersThatLeaveAreCounted lets callers leave: those in flight are counted,
// and those who wait if anybody in their batch is needed; the others need no call, and who
// has left before is not counted.
func TestCallersThatLeaveAreCounted(t *testing.T) {
	for _, c := range []struct {
		name string
		last limiter.Hit // of the one more that waits
		stay bool
		want int64
	}{
		{"all leave", limiter.Hit{Cost: 1}, false, 2},
		{"one stays", limiter.Hit{Cost: 1}, true, 12},
		{"one has used it already", limiter.Hit{Cost: 1, Always: true}, false, 12},
		{"one gives something back", limiter.Hit{Cost: 2, Refund: true}, false, 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := testenv.RedisServer(t)
			admin := connect(t, r)
			s := open(t, Options{Main: at(r.Addr())})
			mustAsk(t, s, "k", perYear)
			rest(s)
			do(t, admin, "client", "pause", 2*long.Milliseconds(), "write")

			ctx, cancel := context.WithCancel(context.Background())
			var left, stayed sync.WaitGroup
			leave := func() {
				if _, err := ask(ctx, s, "k", perYear); !errors.Is(err, context.Canceled) {
					t.Errorf("got error %v, want one that wraps %v", err, context.Canceled)
				}
			}
			left.Go(leave)
			testenv.Until(t, "one is in flight", func() bool { return inFlight(s) && waiting(s) == 0 })
			for range 9 {
				left.Go(leave)
			}
			c.last.Limit, c.last.Key = perYear, []byte("k")
			if c.stay {
				stayed.Go(func() { mustAsk(t, s, "k", perYear) })
			} else {
				left.Go(func() {
					if _, err := s.Decide(ctx, []limiter.Hit{c.last}, make([]limiter.Decision, 1)); !errors.Is(err, context.Canceled) {
						t.Errorf("got error %v, want one that wraps %v", err, context.Canceled)
					}
				})
			}
			testenv.Until(t, "the others wait", func() bool { return waiting(s) == 10 })
			cancel()
			left.Wait() // while Redis still stands
			leave()     // and one that had left before it came
			do(t, admin, "client", "unpause")
			stayed.Wait()
			rest(s)
			if d := mustAsk(t, s, "k", perYear); d.Used != c.want+1 {
				t.Errorf("%d used, want %d", d.Used-1, c.want)
			}
		})
	}
}

// TestDenialsAreLearntAfterTheirCallersLeft has a Redis that answers later than
// its callers can wait. What it decides is known to later requests.
func TestDenialsAreLearntAfterTheirCallersLeft(t *testing.T) {
	perSecond := storetest.Must(limiter.Spec{RequestsPerUnit: 5, Unit: limiter.Second, UnitMultiplier: 1_000_000})
	for _, c := range []struct {
		name  string
		other *limiter.Limit
		calls int // of the request
	}{
		{"a request in one place", yearly(5), 1},
		{"a request in several places", perSecond, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			other, r := c.other, testenv.RedisServer(t)
			admin := connect(t, r)
			frozen := time.Now()
			s := open(t, Options{Main: at(r.Addr()), PerSecond: &Server{Addr: testenv.RedisServer(t).Addr()}})
			s.denials = newDenials(1<<20, func() time.Time { return frozen }) // which no slow machine forgets
			for _, b := range s.backends() {
				b.denials, b.local = s.denials, s.denials.now
			}
			request := []limiter.Hit{hit("user", yearly(1), 1), hit("other", other, 1)}
			out := make([]limiter.Decision, len(request))
			if denied, err := s.Decide(t.Context(), request, out); denied || err != nil {
				t.Fatalf("the first request: denied %t, error %v", denied, err)
			}

			do(t, admin, "client", "pause", 2*long.Milliseconds(), "write")
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			hits := []limiter.Hit{hit("user", request[0].Limit, 1), hit("other", other, 1)}
			left := make(chan error, 1)
			go func() {
				_, err := s.Decide(ctx, hits, make([]limiter.Decision, len(hits)))
				left <- err
			}()
			testenv.Until(t, "Redis is asked", func() bool { return inFlight(s) && waiting(s) == 0 }) // earlier, nobody would ask it
			leave()
			if err := <-left; !errors.Is(err, context.Canceled) {
				t.Fatalf("got error %v of a caller who left", err)
			}
			copy(hits[0].Key, "gone") // the caller's own, who uses them again
			copy(hits[1].Key, "again")
			do(t, admin, "client", "unpause")
			testenv.Until(t, "the denial is known", func() bool { return denies(s, "user") && denies(s, "other") == (c.calls == 1) }) // what was given back is forgotten

			do(t, admin, "client", "pause", 2*long.Milliseconds(), "write")
			defer do(t, admin, "client", "unpause")
			denied, err := s.Decide(t.Context(), request, out)
			if err != nil || !denied || !out[0].Remembered || out[0].Used != 1 || out[1].Used != 1 {
				t.Errorf("then: denied %t, error %v, %+v; want a denial from memory", denied, err, out)
			}
		})
	}
}
