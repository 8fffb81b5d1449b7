package limitcases

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/limiter"
	"weir/internal/limiter/memory"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

// "5 requests per 10 seconds, attacked by 10 and by 200 concurrent clients", in
// windows that start with their first hit.
var per10Seconds = storetest.Must(limiter.Spec{
	RequestsPerUnit: 5, Unit: limiter.Second, UnitMultiplier: 10, Anchor: limiter.FirstHit,
})

// However many ask at the same time, exactly 5 are admitted.
func TestAttackGetsExactly5(t *testing.T) {
	t.Parallel()
	for _, clients := range []int{10, 200} {
		t.Run(fmt.Sprint(clients, " clients in memory"), func(t *testing.T) {
			t.Parallel()
			attack(t, clients, replica{t, memory.New(memory.Options{})})
		})
		t.Run(fmt.Sprint(clients, " clients of two replicas on redis"), func(t *testing.T) {
			t.Parallel()
			server := testenv.RedisServer(t)
			attack(t, clients, onRedis(t, server, nil), onRedis(t, server, nil))
		})
	}
}

// attack lets clients ask at the same moment, each one of the replicas.
func attack(t *testing.T, clients int, replicas ...replica) {
	t.Helper()
	h := hit(per10Seconds, "ip", "192.0.2.1")
	for _, r := range replicas {
		r.expectUsed(0, h) // connects
	}
	var admitted atomic.Int64
	var attackers sync.WaitGroup
	gate := make(chan struct{})
	for i := range clients {
		attackers.Go(func() {
			<-gate
			if _, ok := replicas[i%len(replicas)].ask(h); ok {
				admitted.Add(1)
			}
		})
	}
	close(gate)
	attackers.Wait()
	if n := admitted.Load(); n != 5 {
		t.Errorf("%d of %d clients are admitted, want 5", n, clients)
	}
	replicas[0].expectUsed(5, h)
}

// "The window is not extended by later requests", admitted or denied: it ends
// 10 s after the first.
func TestLaterRequestsDoNotExtendTheWindow(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(r replica, c *clock) {
		h := hit(per10Seconds, "ip", "192.0.2.1")
		for second := range 10 {
			c.set(oddTime.Add(time.Duration(second) * time.Second))
			rest := time.Duration(10-second) * time.Second
			d, admitted := r.ask(h)
			if admitted != (second < 5) || d.ResetAfter != rest {
				r.Fatalf("request at %d s: admitted %v, window ends after %v, want the first 5 admitted and the end after %v", second, admitted, d.ResetAfter, rest)
			}
		}
		c.set(oddTime.Add(10*time.Second - time.Microsecond))
		r.expectDenied(time.Microsecond, h)
		c.set(oddTime.Add(10 * time.Second))
		r.expectAdmitted(5, h)
		r.expectDenied(10*time.Second, h)
	})
}

// Nor does a later request extend the life of the key in Redis.
func TestLaterRequestsDoNotExtendTheKey(t *testing.T) {
	t.Parallel()
	server := testenv.RedisServer(t)
	r, redis := onRedis(t, server, nil), inspect(t, server)
	h := hit(per10Seconds, "ip", "192.0.2.1")
	r.expectAdmitted(1, h)
	answered := time.Now()

	pace := time.Tick(30 * time.Millisecond)
	for request := 2; request <= 10; request++ {
		<-pace
		if _, admitted := r.ask(h); admitted != (request <= 5) {
			t.Fatalf("request %d: admitted %v, want the first 5", request, admitted)
		}
		since := time.Since(answered)
		const rounding = 2 * time.Millisecond // of PX and of PTTL
		left, there := redis.ttl(h.Key)
		if !there || left > 10*time.Second-since+rounding {
			t.Fatalf("request %d, %v after the first: the key lives for %v (there: %v), want its end 10s after the first", request, since, left, there)
		}
	}
}

// "A key that expires between check and increment does no harm": there is no
// such moment, because the decision is one step. Clients ask without a pause
// while windows end in real time. Each window counts 1, 2, 3, 4, 5, so among all
// admitted requests every count must occur once for each window, and no more
// windows fit into the time than their length allows. Only where a busy machine
// let clients wait, windows may have ended before their fifth request.
func TestAttackAcrossWindowEnds(t *testing.T) {
	t.Parallel()
	for name, anchor := range map[string]limiter.Anchor{"full seconds": limiter.Epoch, "from the first hit": limiter.FirstHit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.RedisServer(t)
			redis := inspect(t, server)
			perSecond := storetest.Must(limiter.Spec{RequestsPerUnit: 5, Unit: limiter.Second, Anchor: anchor})
			for try := 1; ; try++ {
				h := hit(perSecond, "ip", fmt.Sprint("192.0.2.", try))
				start := time.Now()
				end := start.Add(2200 * time.Millisecond)
				var watcher sync.WaitGroup
				watcher.Go(func() {
					for time.Now().Before(end) && !t.Failed() {
						if left, _ := redis.ttl(h.Key); left > time.Second {
							t.Errorf("the key lives for %v, want at most 1s", left)
						}
					}
				})
				admittedAs, slowest := siege(end, h, onRedis(t, server, nil), onRedis(t, server, nil))
				took := time.Since(start)
				watcher.Wait()

				windows := admittedAs[1]
				if most := int(took/time.Second) + 2; windows > most {
					t.Errorf("%d windows in %v, want at most %d", windows, took, most)
				}
				for n, times := range admittedAs {
					if n < 1 || n > 5 || times > windows {
						t.Errorf("requests admitted as number n of a window: %v, want numbers from 1 to 5, and none more often than the first", admittedAs)
					}
				}
				redis.expectGone()
				if slowest > 100*time.Millisecond && try < 3 {
					t.Logf("a request took %v, another try", slowest)
					continue
				}
				want := map[int64]int{1: windows, 2: windows, 3: windows, 4: windows, 5: windows}
				if slowest <= 100*time.Millisecond && (windows < 2 || !maps.Equal(admittedAs, want)) {
					t.Errorf("requests admitted as number n of a window: %v, want each number once for each of 2 or more windows", admittedAs)
				}
				return
			}
		})
	}
}

// siege lets 16 clients of the replicas ask without a pause until end. It counts
// the admitted requests by what the counter held with them, and says how long
// the slowest request took.
func siege(end time.Time, h limiter.Hit, replicas ...replica) (admittedAs map[int64]int, slowest time.Duration) {
	admittedAs = map[int64]int{}
	var mu sync.Mutex
	var attackers sync.WaitGroup
	for i := range 16 {
		r := replicas[i%len(replicas)]
		attackers.Go(func() {
			// The last request of each is a denied one, so that the last window is full.
			for admitted := true; (admitted || time.Now().Before(end)) && !r.Failed(); {
				var d limiter.Decision
				asked := time.Now()
				d, admitted = r.ask(h)
				mu.Lock()
				slowest = max(slowest, time.Since(asked))
				if admitted {
					admittedAs[d.Used]++
				}
				mu.Unlock()
			}
		})
	}
	attackers.Wait()
	return admittedAs, slowest
}
