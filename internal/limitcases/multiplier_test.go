package limitcases

import (
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/limiter"
	"weir/internal/limiter/storetest"
	"weir/internal/testenv"
)

// oddTime is in the middle of every period that one could count from the epoch.
var oddTime = time.Date(2026, time.January, 2, 12, 34, 17, 123_456_000, time.UTC)

// "20 requests per 30 seconds, from the first request on": 30 times a second,
// anchored at the first hit.
var per30Seconds = storetest.Must(limiter.Spec{
	RequestsPerUnit: 20, Unit: limiter.Second, UnitMultiplier: 30, Anchor: limiter.FirstHit,
})

// The 21st request waits until 30 s after the first, to the microsecond.
func Test20Per30SecondsFromTheFirstHit(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(r replica, c *clock) {
		h := hit(per30Seconds, "user", "alice")
		for second := range 20 {
			c.set(oddTime.Add(time.Duration(second) * time.Second))
			r.expectAdmitted(1, h)
		}
		c.set(oddTime.Add(20 * time.Second))
		r.expectDenied(10*time.Second, h)
		c.set(oddTime.Add(30*time.Second - time.Microsecond))
		r.expectDenied(time.Microsecond, h)

		// What is admitted now begins the next 30 s.
		c.set(oddTime.Add(30 * time.Second))
		r.expectAdmitted(20, h)
		r.expectDenied(30*time.Second, h)
	})
}

// "10 per 60 seconds with GCRA": ten at once, then one every 6 s.
func Test10Per60SecondsByTokenBucket(t *testing.T) {
	t.Parallel()
	bucket := storetest.Must(limiter.Spec{
		RequestsPerUnit: 10, Unit: limiter.Second, UnitMultiplier: 60, Algorithm: limiter.TokenBucket,
	})
	onEachStore(t, func(r replica, c *clock) {
		h := hit(bucket, "user", "alice")
		c.set(oddTime)
		r.expectAdmitted(10, h)
		r.expectDenied(6*time.Second, h)
		for refilled := oddTime.Add(6 * time.Second); refilled.Before(oddTime.Add(20 * time.Second)); refilled = refilled.Add(6 * time.Second) {
			c.set(refilled.Add(-time.Microsecond))
			r.expectDenied(time.Microsecond, h)
			c.set(refilled)
			r.expectAdmitted(1, h)
			r.expectDenied(6*time.Second, h)
		}
	})
}

// "Redis' clock, not the replicas', decides": of two replicas one has the right
// time, and for the other it is the first of January 2000, where synctest starts
// its clocks. They share the window all the same, and name the same end of it.
func TestReplicasNeedNoClock(t *testing.T) {
	t.Parallel()
	server := testenv.RedisServer(t)
	right := onRedis(t, server, nil)
	h := hit(per30Seconds, "user", "alice")

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

// In real time, shortened: a client that asks two replicas in turn is told one
// and the same moment by every denial, and is admitted then and not before.
func TestRedisClockKeepsItsWord(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		spec limiter.Spec
	}{
		{"20 per 2 s from the first hit", limiter.Spec{RequestsPerUnit: 20, Unit: limiter.Second, UnitMultiplier: 2, Anchor: limiter.FirstHit}},
		{"10 per 15 s by token bucket", limiter.Spec{RequestsPerUnit: 10, Unit: limiter.Second, UnitMultiplier: 15, Algorithm: limiter.TokenBucket}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := testenv.RedisServer(t)
			replicas := []replica{onRedis(t, server, nil), onRedis(t, server, nil)}
			h := hit(storetest.Must(c.spec), "user", "alice")
			replicas[0].expectAdmitted(1, units(uint64(c.spec.RequestsPerUnit), h))

			// The moment lies between the times of asking and of the answer, each
			// with the wait that was told. slack is for clocks that are being slewed.
			const slack = time.Millisecond
			var earliest, latest time.Time
			tries := 0
			eventually(t, "the next request is admitted", func() bool {
				asked := time.Now()
				d, admitted := replicas[tries%2].ask(h)
				answered := time.Now()
				tries++
				if admitted {
					if tries == 1 || answered.Before(earliest.Add(-slack)) {
						t.Errorf("admitted in try %d, %v too early", tries, earliest.Sub(answered))
					}
					return true
				}
				if tries > 1 && asked.After(latest.Add(slack)) {
					t.Errorf("denied in try %d, %v after the time it was told", tries, asked.Sub(latest))
				}
				if e := asked.Add(d.RetryAfter); tries == 1 || e.After(earliest) {
					earliest = e
				}
				if l := answered.Add(d.RetryAfter); tries == 1 || l.Before(latest) {
					latest = l
				}
				if earliest.After(latest.Add(slack)) {
					t.Errorf("try %d is told another time than those before it, %v away", tries, earliest.Sub(latest))
				}
				return false
			})
		})
	}
}
