package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"weir/internal/limiter"
	"weir/internal/testenv"
)

// waiting is how many hits wait for a call.
func waiting(s *store) int {
	q := s.main.only.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.small.hits + q.large.hits
}

// inFlight reports whether calls are made.
func inFlight(s *store) bool {
	s.main.only.queue.mu.Lock()
	defer s.main.only.queue.mu.Unlock()
	return s.main.only.queue.serving
}

// rest waits until no calls are made: the goroutine that made the last one looks for
// more after it has answered.
func rest(t *testing.T, s *store) {
	t.Helper()
	testenv.Until(t, "nobody makes calls", func() bool { return !inFlight(s) })
}

// gate is a hook that stops every call of the script before it reaches Redis.
type gate struct {
	keys chan []string // of a call that has come
	pass chan struct{} // lets it go on
}

func newGate(t *testing.T, of Store) gate {
	t.Helper()
	s := of.(*store)
	if err := s.main.client.current().ScriptLoad(context.Background(), scriptText).Err(); err != nil {
		t.Fatal(err)
	}
	g := gate{make(chan []string), make(chan struct{})}
	s.main.client.current().AddHook(g)
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
		testenv.Until(t, "the request waits", func() bool { return waiting(s) == i+1 })
	}
	g.pass <- struct{}{}
	expect(want...)
	start("last")
	testenv.Until(t, "the request waits", func() bool { return waiting(s) == 1 })
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
		{[]int{maxBatch - 20, 20, 20}, []int{maxBatch, 20}},
		{[]int{20, maxBatch}, []int{20, maxBatch}},
		{[]int{maxBatch + 1}, []int{maxBatch + 1}},
		{[]int{20, 3 * maxBatch, 20, 20}, []int{20, 3 * maxBatch, 40}},
		{[]int{150, 150, 100, 25}, []int{150, 250, 25}},
		{[]int{100, smallRequest, smallRequest + 1, 1}, []int{smallRequest + 1, 100 + smallRequest + 1}},
		{[]int{2 * maxQueue}, []int{2 * maxQueue}},
	} {
		q := newQueue()
		for _, n := range c.requests {
			if _, _, _, err := q.add(t.Context(), request(n), false, noDeadline); err != nil {
				t.Fatalf("%v: %v", c.requests, err)
			}
		}
		var got []int
		for b := q.next(true); b != nil; b = q.next(true) {
			got = append(got, b.weight())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("requests of %v hits make batches of %v, want %v", c.requests, got, c.want)
		}
		if n := q.small.hits + q.large.hits; n != 0 || q.serving {
			t.Errorf("%v: an empty queue holds %d hits, serving is %v", c.requests, n, q.serving)
		}
	}
}

// charges are n counters to which something is to be given back.
func charges(n int) []giveBack {
	list := make([]giveBack, n)
	for i := range list {
		list[i] = giveBack{key: []byte("k"), limit: perMinute, cost: 1}
	}
	return list
}

// TestLinesTakeTurns gives back while small and large requests wait: none makes
// another wait for more than one call, nor takes the room of another.
func TestLinesTakeTurns(t *testing.T) {
	full := func(n int) []int { return slices.Repeat([]int{maxBatch}, n) }
	for _, c := range []struct {
		name               string
		requests, giveBack []int // hits of each
		want               []int // hits of the calls, what is given back as a negative number
	}{
		{"one of each", []int{1, 100}, []int{1}, []int{1, 100, -1}},
		{"only given back", nil, []int{1, 2, maxBatch}, []int{-3, -maxBatch}},
		{"a flood of large requests", append(full(3), 2, 3), []int{5, 6}, []int{5, maxBatch, -11, maxBatch, maxBatch}},
		{"a huge request", []int{9 * maxBatch, 1}, nil, []int{1, 9 * maxBatch}},
		{"a flood of small requests", append(slices.Repeat([]int{smallRequest}, 40), 50, 60), []int{5}, []int{maxBatch, 110, -5, maxBatch, 128}},
		{"a flood of what is given back", []int{1, 2}, full(3), []int{3, -maxBatch, -maxBatch, -maxBatch}},
		{"of large ones and of what is given back", []int{maxBatch, 70}, []int{maxBatch, 8}, []int{maxBatch, -maxBatch, 70, -8}},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := newQueue()
			for i := range max(len(c.requests), len(c.giveBack)) { // they arrive in turn
				if i < len(c.giveBack) {
					q.addGiveBacks(charges(c.giveBack[i]))
				}
				if i < len(c.requests) {
					if _, _, _, err := q.add(t.Context(), request(c.requests[i]), false, noDeadline); err != nil {
						t.Fatal(err)
					}
				}
			}
			var got []int
			for b := q.next(true); b != nil; b = q.next(true) {
				n := b.weight()
				if b.hits[0].charged != nil {
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

// TestFullLineRefusesOnlyItsOwn fills one line of requests: the other has room.
func TestFullLineRefusesOnlyItsOwn(t *testing.T) {
	for _, c := range []struct{ full, other int }{{100, 1}, {1, 100}} {
		q := newQueue()
		var err error
		for err == nil {
			_, _, _, err = q.add(t.Context(), request(c.full), false, noDeadline)
		}
		if !errors.Is(err, errQueueFull) {
			t.Fatal(err)
		}
		if _, _, _, err := q.add(t.Context(), request(c.other), false, noDeadline); err != nil {
			t.Errorf("a request of %d hits beside many of %d: %v", c.other, c.full, err)
		}
	}
}

// TestCallsThatHelpNobodyAreNotMade puts requests, each with a batch of its own, in
// line whose callers wait, have left, or cannot be answered in time.
func TestCallsThatHelpNobodyAreNotMade(t *testing.T) {
	inTime, late := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	type asked struct {
		hits     int
		deadline time.Time
		left     bool
	}
	const n = maxBatch // no other request is in its batch
	for _, c := range []struct {
		name     string
		requests []asked
		want     []int // hits of the calls
	}{
		{"all wait", []asked{{n, inTime, false}, {n + 1, inTime, false}}, []int{n, n + 1}},
		{"one has left", []asked{{n, inTime, true}, {n + 1, inTime, false}}, []int{n + 1}},
		{"all have left", []asked{{n, inTime, true}, {n + 1, inTime, true}, {1, inTime, true}}, nil},
		{"one of a batch has left", []asked{{20, inTime, true}, {30, inTime, false}}, []int{50}},
		{"all of a batch have left", []asked{{20, inTime, true}, {30, inTime, true}, {n, inTime, false}}, []int{n}},
		{"one is late", []asked{{n, late, false}, {n + 1, inTime, false}}, []int{n + 1}},
		{"one of a batch is late", []asked{{20, inTime, false}, {30, late, false}, {n, inTime, false}}, []int{50, n}},
		{"the last is late", []asked{{n, late, false}, {n + 1, late, false}}, []int{n + 1}},
		{"the last of a line is late", []asked{{n, late, false}, {1, inTime, false}}, []int{1, n}},
		{"the last has left", []asked{{n, late, false}, {n + 1, late, true}}, nil},
		{"one must be called", []asked{{n, noDeadline, false}, {n + 1, inTime, false}}, []int{n, n + 1}},
		{"one of a batch must be called", []asked{{20, noDeadline, false}, {30, late, true}, {n, inTime, false}}, []int{50, n}},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := newQueue()
			var batches []*batch
			for _, a := range c.requests {
				b, _, _, err := q.add(t.Context(), request(a.hits), false, a.deadline)
				if err != nil {
					t.Fatal(err)
				}
				if a.left {
					b.leave()
				}
				batches = append(batches, b)
			}
			var got []int
			called := map[*batch]bool{}
			for b := q.next(true); b != nil; b = q.next(true) {
				got = append(got, b.weight())
				called[b] = true
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("calls of %v hits, want %v", got, c.want)
			}
			for i, b := range batches {
				if called[b] {
					continue
				}
				select {
				case <-b.done:
				default:
					t.Fatalf("request %d is neither called nor done", i)
				}
				if !errors.Is(b.err, errLate) || !errors.Is(b.err, limiter.ErrUnavailable) {
					t.Errorf("request %d: got error %v, want %v", i, b.err, errLate)
				}
			}
			if q.small.hits+q.large.hits != 0 || q.serving {
				t.Errorf("an empty queue holds %d and %d hits, serving is %v", q.small.hits, q.large.hits, q.serving)
			}
		})
	}
}

// sizes is a hook that notes how many keys each call has, and which is the first.
type sizes struct {
	gate // for the hooks that do nothing
	mu   sync.Mutex
	list []string
}

// made is how many calls there were.
func (s *sizes) made() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.list)
}

func (s *sizes) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); cmd.Name() == "evalsha" {
			name, _, _ := strings.Cut(*args[3].(*string), " ")
			s.mu.Lock()
			s.list = append(s.list, fmt.Sprint(args[2], " ", name))
			s.mu.Unlock()
		}
		return next(ctx, cmd)
	}
}

// TestLargeRequestsDoNotHoldSmallOnesBack lets large requests fill their line while
// Redis stands. Small ones that come after them all are taken on nevertheless, and
// decided by the next call but one at the latest.
func TestLargeRequestsDoNotHoldSmallOnesBack(t *testing.T) {
	r := testenv.RedisServer(t)
	admin := connect(t, r)
	reg := prometheus.NewRegistry()
	s := open(t, Options{Main: at(r.Addr()), Registerer: reg})
	mustAsk(t, s, "k", perYear) // Redis has the script now
	rest(t, s)
	do(t, admin, "client", "pause", 2*long.Milliseconds(), "write")
	calls := &sizes{}
	s.main.client.current().AddHook(calls)

	var wg sync.WaitGroup
	requests := 0
	decide := func(name string, hits int) {
		requests++
		n := requests
		wg.Go(func() {
			request := make([]limiter.Hit, hits)
			for i := range request {
				request[i] = limiter.Hit{Limit: perYear, Key: fmt.Appendf(nil, "%s %d of request %d", name, i, n), Cost: 1}
			}
			if denied, err := s.Decide(context.Background(), request, make([]limiter.Decision, hits)); denied || err != nil {
				t.Errorf("%s request of %d hits: denied %v, error %v", name, hits, denied, err)
			}
		})
	}
	decide("first", 1)
	testenv.Until(t, "one is in flight", func() bool { return inFlight(s) && waiting(s) == 0 })
	const large, small = maxQueue / 100, 50
	for range large {
		decide("large", 100)
	}
	testenv.Until(t, "the large ones wait", func() bool { return waiting(s) == 100*large })
	if _, err := s.Decide(t.Context(), request(100), make([]limiter.Decision, 100)); !errors.Is(err, errQueueFull) {
		t.Errorf("a further large one: got error %v, want %v", err, errQueueFull)
	}
	for range small {
		decide("small", 1)
	}
	testenv.Until(t, "the small ones wait", func() bool { return waiting(s) == 100*large+small })
	do(t, admin, "client", "unpause")
	wg.Wait()

	want := append([]string{"1 first"}, slices.Repeat([]string{"200 large"}, large/2)...)
	if large%2 == 1 {
		want = append(want, "100 large")
	}
	var got []string
	for i, call := range calls.list {
		switch {
		case call != fmt.Sprint(small, " small"):
			got = append(got, call)
		case i > 2:
			t.Errorf("the small ones are in call %d of %q", i, calls.list)
		}
	}
	if !slices.Equal(got, want) || len(calls.list) != len(want)+1 {
		t.Errorf("calls %q, want %q and the small ones", calls.list, want)
	}
}

func TestGivingBackRefusesNoRequest(t *testing.T) {
	q := newQueue()
	for range 2 * maxQueue {
		q.addGiveBacks(charges(1))
	}
	if _, _, _, err := q.add(t.Context(), request(maxQueue), false, noDeadline); err != nil {
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
		_, _, _, err = q.add(t.Context(), request([]int{smallRequest + 1, maxBatch}[i%2]), false, noDeadline)
		q.addGiveBacks(charges(1)) // parts no requests
	}
	if !errors.Is(err, errQueueFull) {
		t.Fatal(err)
	}
	if n, most := len(q.large.batches), 2*maxQueue/maxBatch+1; n > most || n < most/2 {
		t.Errorf("%d batches, want at most %d", n, most)
	}
}

func TestQueueStartsOneGoroutine(t *testing.T) {
	q := newQueue()
	for _, want := range []bool{true, false, false} {
		if _, _, start, _ := q.add(t.Context(), request(1), false, noDeadline); start != want {
			t.Errorf("start is %v, want %v", start, want)
		}
	}
	q.next(true)
	if _, _, start, _ := q.add(t.Context(), request(1), false, noDeadline); start {
		t.Error("a second goroutine shall start while one makes calls")
	}
	for q.next(true) != nil { // empties the queue
	}
	if _, _, start, _ := q.add(t.Context(), request(1), false, noDeadline); !start {
		t.Error("nobody makes calls any more")
	}
}

func TestQueueIsBounded(t *testing.T) {
	s := open(t, Options{Main: at(miniredis.RunT(t).Addr())})
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
	testenv.Until(t, "the queue is full", func() bool { return waiting(s) == maxQueue })

	_, err := s.Decide(context.Background(), request(100), make([]limiter.Decision, 100))
	const want = "store unavailable: more than 8192 hits wait for Redis"
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
	s, err := New(Options{Main: at(r.Addr())})
	if err != nil {
		t.Fatal(err)
	}
	g, q := newGate(t, s), s.(*store).main.only.queue
	var wg sync.WaitGroup
	wg.Go(func() { mustAsk(t, s, "in flight", perMinute) })
	<-g.keys
	wg.Go(func() { mustAsk(t, s, "waiting", perMinute) })
	testenv.Until(t, "the request waits", func() bool { return waiting(s.(*store)) == 1 })

	wg.Go(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	testenv.Until(t, "the store closes", func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.closed
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
	s, err := New(Options{Main: Server{Addr: silent(t), OpTimeout: 20 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	for range maxQueue / maxBatch { // their calls take longer than Close waits
		s.(*store).main.only.queue.add(t.Context(), request(maxBatch), false, noDeadline)
	}
	s.(*store).main.only.wake()
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if inFlight(s.(*store)) {
		t.Error("calls go on after Close")
	}
}

func TestLateRequestsAreCounted(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := open(t, Options{Main: at(miniredis.RunT(t).Addr()), Registerer: reg})
	l := s.main.only
	l.queue.start() // so that nobody else makes calls
	errs := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := s.Decide(context.Background(), request(maxBatch), make([]limiter.Decision, maxBatch))
			errs <- err
		}()
	}
	testenv.Until(t, "both wait", func() bool { return waiting(s) == 2*maxBatch })
	wakeTooLate(t, l, reg, errs)
}

// wakeTooLate calls the two requests that wait in l, when the first of them is too late,
// and expects their errors.
func wakeTooLate(t *testing.T, l *lane, reg *prometheus.Registry, errs <-chan error) {
	t.Helper()
	l.queue.mu.Lock()
	l.queue.large.batches[0].deadline = time.Now().Add(-time.Hour)
	l.queue.mu.Unlock()
	l.wake()
	first, second := <-errs, <-errs
	if first == nil {
		first, second = second, first
	}
	if !errors.Is(first, errLate) || second != nil {
		t.Errorf("got errors %v and %v, want %v and none", first, second, errLate)
	}
	if n := value(t, reg, "weir_redis_errors_total", kindQueueFull); n != 1 {
		t.Errorf("%v late requests are counted, want 1", n)
	}
}
