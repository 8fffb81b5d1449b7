package e2e

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"weir/internal/testenv"
)

const longestHold = 5 * time.Second

// highest is the largest number passed to note.
type highest struct{ atomic.Int64 }

func (h *highest) note(n int64) {
	for most := h.Load(); n > most && !h.CompareAndSwap(most, n); most = h.Load() {
	}
}

// TestNeverMoreInFlightThanTheLimit runs 1,000 callers of two servers on one Redis. One of the
// servers is killed with its callers while they hold units.
func TestNeverMoreInFlightThanTheLimit(t *testing.T) {
	t.Parallel()
	redis := testenv.RedisServer(t)
	held := func() int64 {
		return testenv.Must(strconv.ParseInt(redis.Command("ZCARD w1|api|user=alice|c5s"), 10, 64))(t)
	}
	dir := writeRules(t, `
domain: api
descriptors:
  - key: user
    rate_limit: {algorithm: concurrency, requests_per_unit: 50, unit: second, unit_multiplier: 5}
`)
	f := &flights{T: t}
	killed, survivor := startWeir(t, dir, onRedis(redis)...), startWeir(t, dir, onRedis(redis)...)

	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	mortal, die := context.WithCancel(ctx)
	defer die()
	var callers sync.WaitGroup
	var ofSurvivor, ofKilled []service.RateLimitServiceClient
	for range 8 {
		ofSurvivor, ofKilled = append(ofSurvivor, dial(t, survivor.grpc)), append(ofKilled, dial(t, killed.grpc))
	}
	for i := range 1000 {
		callers.Go(func() {
			if i%2 == 0 {
				f.fly(ctx, ofSurvivor[i/2%8], fmt.Sprint("survivor ", i), 2)
			} else {
				f.fly(mortal, ofKilled[i/2%8], fmt.Sprint("killed ", i), 1000)
			}
		})
	}
	testenv.Until(t, "300 have ended", func() bool { return f.landed.Load() >= 300 })
	die()
	killed.kill()
	callers.Wait()
	ended := time.Now()
	t.Logf("after %v: %d ended, %d at once at most, %d left behind by callers that died; %d calls were denied",
		time.Since(began).Round(time.Millisecond), f.landed.Load(), f.most.Load(), f.lost.Load(), f.denied.Load())

	if most := f.most.Load(); most > 50 || most < 25 {
		t.Errorf("%d in flight at once, want at most 50, and more than half of that", most)
	}
	if got, most := held(), f.lost.Load(); most == 0 || got > most {
		t.Errorf("%d are held at the end, want at most the %d that callers left behind", got, most)
	}
	testenv.Becomes(t, "held", 0, held)
	if took := time.Since(ended); took > 2*longestHold {
		t.Errorf("what died was held for %v, want %v", took, longestHold)
	}
	client := dial(t, survivor.grpc)
	for i := range 51 {
		code := f.ask(ctx, client, fmt.Sprint("last ", i), false)
		testenv.Equal(t, code == service.RateLimitResponse_OK, i < 50, "call %d after all is admitted", i+1)
	}
}

// flights counts the requests in flight, as their callers see them.
type flights struct {
	*testing.T
	now, landed, lost, denied atomic.Int64
	most                      highest
}

// fly takes a hold and releases it, times times or until ctx ends.
func (f *flights) fly(ctx context.Context, client service.RateLimitServiceClient, caller string, times int) {
	for n := 0; n < times && ctx.Err() == nil; n++ {
		id := fmt.Sprint(caller, " ", n)
		f.lost.Add(1) // until the hold is denied or released
		asked := time.Now()
		switch f.ask(ctx, client, id, false) {
		case service.RateLimitResponse_UNKNOWN:
			return // Weir may have taken the hold
		case service.RateLimitResponse_OVER_LIMIT:
			f.lost.Add(-1)
			f.denied.Add(1)
			time.Sleep(100*time.Millisecond + rand.N(400*time.Millisecond))
			n--
			continue
		}
		if time.Since(asked) < longestHold/2 { // on a very busy machine the hold may have expired
			f.most.note(f.now.Add(1))
			time.Sleep(20*time.Millisecond + rand.N(20*time.Millisecond))
			f.now.Add(-1)
		}
		if ctx.Err() != nil || f.ask(ctx, client, id, true) == service.RateLimitResponse_UNKNOWN {
			return
		}
		if rand.IntN(4) == 0 {
			f.ask(ctx, client, id, true) // a second release has no effect
		}
		f.lost.Add(-1)
		f.landed.Add(1)
	}
}

// ask takes the hold with an ID or, if refund is set, releases it. The code is UNKNOWN if the
// call fails, for example because the caller has died.
func (f *flights) ask(ctx context.Context, client service.RateLimitServiceClient, id string, refund bool) service.RateLimitResponse_Code {
	d := descriptor("user", "alice", "request_id", id)
	if refund {
		d.IsNegativeHits, d.HitsAddend = true, wrapperspb.UInt64(1)
	}
	resp, err := client.ShouldRateLimit(ctx, request(d))
	if err != nil {
		if ctx.Err() == nil {
			f.Errorf("%s: %v", id, err)
		}
		return service.RateLimitResponse_UNKNOWN
	}
	return resp.OverallCode
}

// Three requests of a user can be in flight and never a fourth, no matter how earlier
// requests have ended. The upstream counts them.
func TestInFlight(t *testing.T) {
	t.Parallel()
	testenv.Envoy(t)
	var now, begun atomic.Int64
	var most highest
	answer := make(chan struct{})
	upstream := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		most.note(now.Add(1))
		defer now.Add(-1)
		begun.Add(1)
		select {
		case <-answer:
		case <-r.Context().Done():
		}
	}))
	// A lost unit would expire after a minute, so the test uses an hour instead.
	rules := strings.Replace(readDocument(t, "examples/in-flight/rules/in-flight.yaml"), "unit: minute", "unit: hour", 1)
	s := gateway{example: "examples/in-flight/envoy.yaml", upstream: upstream}.start(t, rules)
	waitForFree := func(want uint32) {
		t.Helper()
		s.weir.waitForRemaining(want, "in-flight", "user", "alice", "request_id", "peek")
	}
	begins := func(n int) { testenv.Becomes(t, "requests that have begun", int64(n), begun.Load) }
	statuses := make(chan int, 21)
	ask := func() { statuses <- (<-s.askInBackground("/", "alice")).status }
	for range 20 {
		go ask()
	}
	wantNext(t, statuses, 17, 429)
	answer <- struct{}{}
	wantNext(t, statuses, 1, 200)
	waitForFree(1)
	go ask()
	begins(4)
	for range 3 {
		answer <- struct{}{}
	}
	wantNext(t, statuses, 3, 200)
	waitForFree(3)

	// Clients disconnect, first before the upstream answers and then while Weir decides.
	for i := range 4 {
		s.abandon("/", "alice", func(*bufio.Reader) { begins(5 + i) })
		waitForFree(3)
	}
	hold(s.redis)
	calls := s.stat("cluster.weir.upstream_rq_total")
	called := func() {
		calls++
		testenv.Becomes(t, "calls", calls, func() int { return s.stat("cluster.weir.upstream_rq_total") })
	}
	for range 3 {
		s.abandon("/", "alice", func(*bufio.Reader) { called() }) // the call that takes a unit
		called()                                                  // the call that releases it
	}
	release(s.redis)
	waitForFree(3)
	testenv.Equal(t, most.Load(), 3, "requests in flight at most")
}
