package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/queue"
	"weir/internal/limiter/redis/wire"
	"weir/internal/testenv"
)

// untilWaiting waits until a call is in flight and the given number of hits wait for the next
// calls.
func (s *Store) untilWaiting(t testing.TB, hits int) {
	t.Helper()
	testenv.Until(t, fmt.Sprintf("%d hits wait", hits), func() bool {
		waiting, running, _ := s.main.queues.Stats()
		return running && waiting == hits
	})
}

// untilClosing waits until the store refuses requests because it closes.
func (s *Store) untilClosing(t testing.TB) {
	t.Helper()
	testenv.Until(t, "the store closes", func() bool {
		entered := s.main.queues.Enter()
		if entered {
			s.main.queues.Exit()
		}
		return !entered
	})
}

// rest waits until no call is in flight, including calls for callers that have left.
func rest(s *Store) {
	for _, b := range s.backends {
		b.queues.Idle()
	}
}

// gate is a hook that stops every call of the script before it reaches Redis.
type gate struct {
	keys chan []string // keys of a stopped call
	pass chan struct{} // lets the call pass
}

func newGate(t *testing.T, s *Store) gate {
	t.Helper()
	testenv.OK(t, s.main.client.Current().ScriptLoad(context.Background(), wire.Script).Err())
	g := gate{make(chan []string), make(chan struct{})}
	s.main.client.Current().AddHook(g)
	return g
}

func (gate) DialHook(next redis.DialHook) redis.DialHook { return next }

func (gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (g gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); cmd.Name() == "evalsha" {
			var keys []string
			for _, key := range args[3 : 3+args[2].(int)] {
				keys = append(keys, *key.(*string))
			}
			g.keys <- keys
			<-g.pass
		}
		return next(ctx, cmd)
	}
}

func TestRequestsThatArriveDuringACallShareTheNext(t *testing.T) {
	s := open(t, Options{Main: at(miniredis.RunT(t).Addr())})
	g := newGate(t, s)
	var wg sync.WaitGroup
	var waiting []string
	start := func(key string) {
		waiting = append(waiting, key)
		wg.Go(func() { mustAsk(t, s, key, perMinute) })
		if key != "first" {
			s.untilWaiting(t, len(waiting))
		}
	}
	expect := func() {
		t.Helper()
		testenv.EqualLists(t, <-g.keys, waiting, "keys of a call")
		waiting = nil
	}
	start("first")
	expect()
	for i := range 50 {
		start(fmt.Sprint("key ", i))
	}
	g.pass <- struct{}{}
	expect()
	start("last")
	g.pass <- struct{}{}
	expect()
	g.pass <- struct{}{}
	wg.Wait()
}

// request returns a request of n hits.
func request(n int) []limiter.Hit {
	hits := make([]limiter.Hit, n)
	for i := range hits {
		hits[i] = limiter.Hit{Limit: perMinute, Key: []byte("k"), Cost: 1}
	}
	return hits
}

// A full queue rejects more requests. The queued requests are decided in calls of queue.MaxBatch
// hits.
func TestAFullQueueRefuses(t *testing.T) {
	s := newFixture(t, Options{})
	mustAsk(t, s, "k", perYear) // loads the script
	rest(s.Store)
	s.pause()
	var wg sync.WaitGroup
	wg.Go(func() { mustAsk(t, s, "first", perYear) })
	s.untilWaiting(t, 0)
	for range queue.MaxQueue / 64 {
		wg.Go(func() {
			mustDecide(t, s, request(64)...)
		})
	}
	s.untilWaiting(t, queue.MaxQueue)
	const full = "store unavailable: more than 8192 hits are waiting for Redis"
	if err := mustFail(t, s); err.Error() != full || s.value("weir_redis_errors_total", "queue_full") != 1 {
		t.Errorf("one more: got error %v, want %s", err, full)
	}
	s.do("client", "unpause")
	wg.Wait()
	testenv.Equal(t, s.calls(), 2+queue.MaxQueue/queue.MaxBatch, "calls, one for each of %d hits", queue.MaxBatch)
}

func TestCloseFinishesWhatWaits(t *testing.T) {
	r := miniredis.RunT(t)
	s := New(Options{Main: at(r.Addr())})
	g := newGate(t, s)
	var wg sync.WaitGroup
	wg.Go(func() { mustAsk(t, s, "in flight", perMinute) })
	<-g.keys
	wg.Go(func() { mustAsk(t, s, "waiting", perMinute) })
	s.untilWaiting(t, 1)

	wg.Go(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	s.untilClosing(t)
	if _, err := ask(context.Background(), s, "late", perMinute); !errors.Is(err, queue.ErrClosed) {
		t.Errorf("got error %v, want %v", err, queue.ErrClosed)
	}
	g.pass <- struct{}{}
	<-g.keys
	g.pass <- struct{}{}
	wg.Wait()
	if !r.Exists("in flight") || !r.Exists("waiting") || r.Exists("late") {
		t.Errorf("counters %q, want the one in flight and the one that waited", r.Keys())
	}
}

func TestCloseIsBounded(t *testing.T) {
	s := New(Options{Main: Server{Addr: silent(t), Timeout: 20 * time.Millisecond}})
	for range queue.MaxQueue / queue.MaxBatch { // their calls together take longer than Close may wait
		_, _ = s.main.queues.Of(nil).Add(t.Context(), 0, request(queue.MaxBatch), false, time.Hour)
	}
	testenv.OK(t, s.Close())
	if _, running, _ := s.main.queues.Stats(); running {
		t.Error("calls go on after Close")
	}
}
