package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"weir/internal/limiter"
)

// waiting is how many hits wait for a call.
func waiting(s *Store) int {
	s.main.only.queue.mu.Lock()
	defer s.main.only.queue.mu.Unlock()
	return s.main.only.queue.requests.hits
}

// inFlight tells whether somebody makes calls.
func inFlight(s *Store) bool {
	s.main.only.queue.mu.Lock()
	defer s.main.only.queue.mu.Unlock()
	return s.main.only.queue.flying
}

// gate is a hook that stops every call of the script before it reaches Redis.
type gate struct {
	keys chan []string // of a call that has come
	pass chan struct{} // lets it go on
}

func newGate(t *testing.T, s *Store) gate {
	t.Helper()
	if err := s.main.client.ScriptLoad(context.Background(), decideScript.text).Err(); err != nil {
		t.Fatal(err)
	}
	g := gate{make(chan []string), make(chan struct{})}
	s.main.client.AddHook(g)
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
	s := open(t, Options{URL: miniredis.RunT(t).Addr(), OpTimeout: long})
	g := newGate(t, s)
	var wg sync.WaitGroup
	start := func(key string) {
		wg.Go(func() { mustAsk(t, s, key, perMinute) })
	}
	expect := func(want ...string) {
		t.Helper()
		if got := <-g.keys; !slices.Equal(got, want) {
			t.Errorf("a call for %q, want %q", got, want)
		}
	}

	start("first")
	expect("first")
	var want []string
	for i := range 50 {
		key := fmt.Sprint("key ", i)
		want = append(want, key)
		start(key)
		eventually(t, "the request waits", func() bool { return waiting(s) == i+1 })
	}
	g.pass <- struct{}{}
	expect(want...)
	start("last")
	eventually(t, "the request waits", func() bool { return waiting(s) == 1 })
	g.pass <- struct{}{}
	expect("last")
	g.pass <- struct{}{}
	wg.Wait()
}

// request is one of n hits.
func request(n int) []limiter.Hit {
	hits := make([]limiter.Hit, n)
	for i := range hits {
		hits[i] = limiter.Hit{Limit: perMinute, Key: []byte("k"), Cost: 1}
	}
	return hits
}

func TestBatchesAreBounded(t *testing.T) {
	for _, c := range []struct {
		requests, want []int // hits
	}{
		{[]int{1}, []int{1}},
		{[]int{1, 2, 3}, []int{6}},
		{[]int{maxBatch}, []int{maxBatch}},
		{[]int{maxBatch - 1, 1, 1}, []int{maxBatch, 1}},
		{[]int{1, maxBatch}, []int{1, maxBatch}},
		{[]int{maxBatch + 1}, []int{maxBatch + 1}},
		{[]int{1, 3 * maxBatch, 1, 1}, []int{1, 3 * maxBatch, 2}},
		{[]int{600, 600, 400, 100}, []int{600, 1000, 100}},
		{[]int{2 * maxQueue}, []int{2 * maxQueue}},
	} {
		q := newQueue()
		for _, n := range c.requests {
			if _, _, _, err := q.add(request(n), false); err != nil {
				t.Fatalf("%v: %v", c.requests, err)
			}
		}
		var got []int
		for b := q.next(); b != nil; b = q.next() {
			got = append(got, b.keys.len())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("requests of %v hits make batches of %v, want %v", c.requests, got, c.want)
		}
		if q.requests.hits != 0 || q.flying {
			t.Errorf("%v: an empty queue holds %d hits, flying is %v", c.requests, q.requests.hits, q.flying)
		}
	}
}

// charges are n counters to which something is to be given back.
func charges(n int) []giveBack {
	list := make([]giveBack, n)
	for i := range list {
		list[i] = giveBack{key: []byte("k"), limit: perMinute, units: 1}
	}
	return list
}

// TestLinesTakeTurns gives back while requests wait: neither makes the other wait
// for more than one call, nor takes the room of the other.
func TestLinesTakeTurns(t *testing.T) {
	for _, c := range []struct {
		name               string
		requests, giveBack []int // hits of each
		want               []int // hits of the calls, what is given back as a negative number
	}{
		{"one of each", []int{1}, []int{1}, []int{1, -1}},
		{"only given back", nil, []int{1, 2, maxBatch}, []int{-3, -maxBatch}},
		{"a flood of requests", []int{maxBatch, maxBatch, maxBatch}, []int{5, 6}, []int{maxBatch, -11, maxBatch, maxBatch}},
		{"a flood of what is given back", []int{1, 2}, []int{maxBatch, maxBatch, maxBatch}, []int{3, -maxBatch, -maxBatch, -maxBatch}},
		{"of both", []int{maxBatch, 7}, []int{maxBatch, 8}, []int{maxBatch, -maxBatch, 7, -8}},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := newQueue()
			for i := range max(len(c.requests), len(c.giveBack)) { // they arrive in turn
				if i < len(c.giveBack) {
					q.addGiveBacks(charges(c.giveBack[i]))
				}
				if i < len(c.requests) {
					if _, _, _, err := q.add(request(c.requests[i]), false); err != nil {
						t.Fatal(err)
					}
				}
			}
			var got []int
			for b := q.next(); b != nil; b = q.next() {
				n := b.keys.len()
				if b.script == giveBackScript {
					n = -n
				}
				got = append(got, n)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("calls of %v hits, want %v", got, c.want)
			}
		})
	}
}

func TestGivingBackRefusesNoRequest(t *testing.T) {
	q := newQueue()
	for range 2 * maxQueue {
		q.addGiveBacks(charges(1))
	}
	if _, _, _, err := q.add(request(maxQueue), false); err != nil {
		t.Errorf("a request beside what is given back: %v", err)
	}
	if n := len(q.giveBacks.batches); n != 2*maxQueue/maxBatch {
		t.Errorf("%d batches, want full ones", n)
	}
}

// TestBatchesAreFew makes as many batches of the most hits as can be: of two that
// follow each other, one more hit would have made one.
func TestBatchesAreFew(t *testing.T) {
	q := newQueue()
	var err error
	for i := 0; err == nil; i++ {
		_, _, _, err = q.add(request([]int{1, maxBatch}[i%2]), false)
		q.addGiveBacks(charges(1)) // parts no requests
	}
	if !errors.Is(err, errQueueFull) {
		t.Fatal(err)
	}
	if n, most := len(q.requests.batches), 2*maxQueue/maxBatch+1; n > most || n < most/2 {
		t.Errorf("%d batches, want at most %d", n, most)
	}
}

func TestQueueTellsWhoMakesTheCalls(t *testing.T) {
	q := newQueue()
	for _, want := range []bool{true, false, false} {
		if _, _, start, _ := q.add(request(1), false); start != want {
			t.Errorf("start is %v, want %v", start, want)
		}
	}
	q.next()
	if _, _, start, _ := q.add(request(1), false); start {
		t.Error("a second goroutine shall start while one makes calls")
	}
	for q.next() != nil { // empties the queue
	}
	if _, _, start, _ := q.add(request(1), false); !start {
		t.Error("nobody makes calls any more")
	}
}

func TestQueueIsBounded(t *testing.T) {
	s := open(t, Options{URL: miniredis.RunT(t).Addr(), OpTimeout: long})
	g := newGate(t, s)
	var wg sync.WaitGroup
	decide := func(n int) {
		hits := request(n)
		if _, err := s.Decide(context.Background(), hits, make([]limiter.Decision, n)); err != nil {
			t.Errorf("Decide: %v", err)
		}
	}
	wg.Go(func() { decide(1) })
	<-g.keys
	for range maxQueue / maxBatch {
		wg.Go(func() { decide(maxBatch) })
	}
	eventually(t, "the queue is full", func() bool { return waiting(s) == maxQueue })

	_, err := ask(context.Background(), s, "k", perMinute)
	const want = "store unavailable: more than 16384 hits wait for Redis"
	if !errors.Is(err, limiter.ErrUnavailable) || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
	g.pass <- struct{}{}
	for range maxQueue / maxBatch {
		<-g.keys
		g.pass <- struct{}{}
	}
	wg.Wait()
}

func TestCloseFinishesWhatWaits(t *testing.T) {
	r := miniredis.RunT(t)
	s, err := New(Options{URL: r.Addr(), OpTimeout: long})
	if err != nil {
		t.Fatal(err)
	}
	g := newGate(t, s)
	var wg sync.WaitGroup
	wg.Go(func() { mustAsk(t, s, "in flight", perMinute) })
	<-g.keys
	wg.Go(func() { mustAsk(t, s, "waiting", perMinute) })
	eventually(t, "the request waits", func() bool { return waiting(s) == 1 })

	wg.Go(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	eventually(t, "the store closes", func() bool {
		s.main.only.queue.mu.Lock()
		defer s.main.only.queue.mu.Unlock()
		return s.main.only.queue.closed
	})
	if _, err := ask(context.Background(), s, "late", perMinute); !errors.Is(err, errClosed) {
		t.Errorf("got error %v, want %v", err, errClosed)
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
	s, err := New(Options{URL: silent(t), OpTimeout: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for range maxQueue / maxBatch { // their calls take longer than Close waits
		s.main.only.queue.add(request(maxBatch), false)
	}
	go s.main.only.fly()
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if inFlight(s) {
		t.Error("calls go on after Close")
	}
}
