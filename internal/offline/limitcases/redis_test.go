package limitcases

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"weir/internal/limiter"
	"weir/internal/limiter/memory"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

// inspector looks at the counters behind the store's back.
type inspector struct {
	testing.TB
	client *goredis.Client
}

func inspect(t testing.TB, r *testenv.Redis) inspector {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: r.Addr(), ReadTimeout: patience})
	t.Cleanup(func() { c.Close() })
	return inspector{t, c}
}

// ttl is how long a key still lives, 0 if there is none. A key that would stay forever is
// an error.
func (i inspector) ttl(key []byte) time.Duration {
	i.Helper()
	left, err := i.client.PTTL(i.Context(), string(key)).Result()
	if err != nil || left == -1 {
		i.Errorf("PTTL: %v, %v", left, err)
	}
	return max(left, 0)
}

// expectGone waits until Redis has dropped all keys by itself.
func (i inspector) expectGone() {
	i.Helper()
	testenv.Until(i, "no counter is left", func() bool {
		n, err := i.client.DBSize(i.Context()).Result()
		return err == nil && n == 0
	})
}

// A counter lives until its window ends and no longer, however often its key is used.
func TestRedisDropsTheCounterWithItsWindow(t *testing.T) {
	t.Parallel()
	server := testenv.RedisServer(t)
	c, redis := new(clock), inspect(t, server)
	r := onRedis(t, server, c.now)
	for _, tt := range []struct {
		spec limiter.Spec
		at   time.Time
		left time.Duration
	}{
		{limiter.Spec{RequestsPerUnit: 20, Unit: limiter.Minute}, noon.Add(15 * time.Second), 45 * time.Second},
		{limiter.Spec{RequestsPerUnit: 20, Unit: limiter.Minute, Algorithm: limiter.FirstHit}, oddTime, time.Minute},
		// Now Redis need not be waited for long.
		{limiter.Spec{RequestsPerUnit: 20, Unit: limiter.Hour}, noon.Add(time.Hour - 200*time.Millisecond), 200 * time.Millisecond},
	} {
		c.set(tt.at)
		h := hit(storetest.Must(tt.spec), "api_key", "k-1")
		r.expectAdmitted(1, h)
		first := redis.ttl(h.Key)
		r.expectAdmitted(19, h)
		r.expectDenied(tt.left, h)
		if last := redis.ttl(h.Key); first > tt.left || last > first {
			t.Errorf("the counter lives for %v after its first hit, %v after its last, want at most %v and no extension", first, last, tt.left)
		}
		if tt.left < time.Second {
			testenv.Until(t, "the counter is gone", func() bool { return redis.ttl(h.Key) == 0 })
		}
	}
}

// "5 requests per 10 seconds, attacked by 10 and by 200 concurrent clients": however many
// ask at the same time, exactly 5 are admitted.
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
	h := hit(storetest.Must(limiter.Spec{RequestsPerUnit: 5, Unit: limiter.Second, UnitMultiplier: 10, Algorithm: limiter.FirstHit}), "ip", "192.0.2.1")
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

// "A key that expires between check and increment does no harm": there is no
// such moment, because the decision is one step. Clients ask without a pause
// while windows end in real time. Each window counts 1, 2, 3, 4, 5, so among all
// admitted requests every count must occur once for each window, and no more
// windows fit into the time than their length allows. Only where a busy machine
// let clients wait, windows may have ended before their fifth request.
func TestAttackAcrossWindowEnds(t *testing.T) {
	t.Parallel()
	for name, algorithm := range map[string]limiter.Algorithm{"full seconds": limiter.FixedWindow, "from the first hit": limiter.FirstHit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.RedisServer(t)
			redis := inspect(t, server)
			perSecond := storetest.Must(limiter.Spec{RequestsPerUnit: 5, Unit: limiter.Second, Algorithm: algorithm})
			for try := 1; ; try++ {
				h := hit(perSecond, "ip", fmt.Sprint("192.0.2.", try))
				start := time.Now()
				end := start.Add(2200 * time.Millisecond)
				var watcher sync.WaitGroup
				watcher.Go(func() {
					for time.Now().Before(end) && !t.Failed() {
						if left := redis.ttl(h.Key); left > time.Second {
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

// "Redis' clock, not the replicas', decides": of two replicas one has the right
// time, and for the other it is the first of January 2000, where synctest starts
// its clocks. They share the window all the same, and name the same end of it.
func TestReplicasNeedNoClock(t *testing.T) {
	t.Parallel()
	server := testenv.RedisServer(t)
	right := onRedis(t, server, nil)
	h := hit(storetest.Must(limiter.Spec{RequestsPerUnit: 20, Unit: limiter.Second, UnitMultiplier: 30, Algorithm: limiter.FirstHit}), "user", "alice")

	started := time.Now()
	right.expectAdmitted(10, h)
	var wrong limiter.Decision
	synctest.Test(t, func(t *testing.T) {
		if year := time.Now().Year(); year != 2000 {
			t.Fatalf("the clock says %d, want it to be wrong", year)
		}
		r := onRedis(t, server, nil)
		r.expectAdmitted(10, h)
		wrong, _ = r.ask(h)
	})
	d, admitted := right.ask(h)
	took := time.Since(started)

	if !wrong.Over || wrong.RetryAfter > 30*time.Second || wrong.RetryAfter < 30*time.Second-took {
		t.Errorf("the 21st request, %v after the first, on the wrong clock: %+v, want it over until 30s after the first", took, wrong)
	}
	if admitted || d.RetryAfter > wrong.RetryAfter || d.RetryAfter < wrong.RetryAfter-took {
		t.Errorf("it waits %v on the wrong clock and then %v on the right one, want the same end", wrong.RetryAfter, d.RetryAfter)
	}
}

// In real time, shortened: a client that uses all up and then asks two replicas in turn
// is told one and the same moment by every denial, and is admitted then and not before.
func TestRedisClockKeepsItsWord(t *testing.T) {
	t.Parallel()
	const slack = 50 * time.Millisecond // for clocks that are being slewed
	for name, spec := range map[string]limiter.Spec{
		"from the first hit": {RequestsPerUnit: 20, Unit: limiter.Second, UnitMultiplier: 2, Algorithm: limiter.FirstHit},
		"by token bucket":    {RequestsPerUnit: 10, Unit: limiter.Second, UnitMultiplier: 15, Algorithm: limiter.TokenBucket},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.RedisServer(t)
			replicas := []replica{onRedis(t, server, nil), onRedis(t, server, nil)}
			all := hit(storetest.Must(spec), "user", "alice")
			all.Cost = spec.RequestsPerUnit
			pace := time.Tick(2 * time.Millisecond)
			replicas[0].expectAdmitted(1, all)
			one := all
			one.Cost = 1
			// The moment lies between the latest of what was told from when it was asked, and the
			// earliest of what was told from when it was answered.
			var earliest, latest time.Time
			for denials := 0; ; denials++ {
				<-pace
				asked := time.Now()
				d, admitted := replicas[denials%2].ask(one)
				if admitted {
					if early := time.Until(earliest); early > slack { // none was told if the machine was too busy
						t.Errorf("admitted after %d denials, %v before the moment that it was told", denials, early)
					}
					return
				}
				from, to := asked.Add(d.RetryAfter), time.Now().Add(d.RetryAfter)
				if denials == 0 {
					earliest, latest = from, to
				}
				if from.After(latest.Add(slack)) || to.Before(earliest.Add(-slack)) || asked.After(latest.Add(slack)) {
					t.Fatalf("at %v it is told %v to %v instead of %v to %v", asked, from, to, earliest, latest)
				}
				if from.After(earliest) {
					earliest = from
				}
				if to.Before(latest) {
					latest = to
				}
			}
		})
	}
}
