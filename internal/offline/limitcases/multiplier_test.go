package limitcases

import (
	"fmt"
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
		wait time.Duration // when all is used up
	}{
		{"20 per 2 s from the first hit", limiter.Spec{RequestsPerUnit: 20, Unit: limiter.Second, UnitMultiplier: 2, Anchor: limiter.FirstHit}, 2 * time.Second},
		{"10 per 15 s by token bucket", limiter.Spec{RequestsPerUnit: 10, Unit: limiter.Second, UnitMultiplier: 15, Algorithm: limiter.TokenBucket}, 1500 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := testenv.RedisServer(t)
			replicas := []replica{onRedis(t, server, nil), onRedis(t, server, nil)}
			limit := storetest.Must(c.spec)
			for user := 0; ; user++ {
				h := hit(limit, "user", fmt.Sprint("user ", user))
				started := time.Now()
				replicas[0].expectAdmitted(1, units(c.spec.RequestsPerUnit, h))
				denials := askUntilAdmitted(t, replicas, h)
				switch took := time.Since(started); {
				case denials > 0:
					return
				case took < c.wait:
					t.Fatalf("admitted %v after all was used up, want it denied at first", took)
				case user == 9: // a busy machine may take the wait for the second request
					t.Fatalf("the second request took %v each time", took)
				}
			}
		})
	}
}

// askUntilAdmitted asks replicas in turn, holds them to what they tell, and
// returns how often they denied.
func askUntilAdmitted(t *testing.T, replicas []replica, h limiter.Hit) (denials int) {
	t.Helper()
	var told moment
	for ; ; denials++ {
		asked := time.Now()
		d, admitted := replicas[denials%2].ask(h)
		if admitted {
			told.expectReached(t)
			return denials
		}
		told.expectAgain(t, asked, d.RetryAfter)
		time.Sleep(2 * time.Millisecond)
	}
}

// moment is when a request will be admitted, as far as a client knows that was
// told so several times: each time it lies between when the client asked and when
// it had the answer, plus what it was told to wait.
type moment struct{ earliest, latest time.Time }

// slack is for clocks that are being slewed.
const slack = 50 * time.Millisecond

// expectAgain narrows m down to what one more denial tells.
func (m *moment) expectAgain(t *testing.T, asked time.Time, retry time.Duration) {
	t.Helper()
	earliest, latest := asked.Add(retry), time.Now().Add(retry)
	if m.earliest.IsZero() {
		*m = moment{earliest, latest}
	}
	if asked.After(m.latest.Add(slack)) {
		t.Fatalf("denied %v after the moment that it was told", asked.Sub(m.latest))
	}
	if earliest.After(m.latest.Add(slack)) || latest.Before(m.earliest.Add(-slack)) {
		t.Fatalf("told another moment, between %v and %v instead of %v and %v", earliest, latest, m.earliest, m.latest)
	}
	if earliest.After(m.earliest) {
		m.earliest = earliest
	}
	if latest.Before(m.latest) {
		m.latest = latest
	}
}

// expectReached wants m to be over.
func (m *moment) expectReached(t *testing.T) {
	t.Helper()
	if early := time.Until(m.earliest); early > slack {
		t.Fatalf("admitted %v before the moment that it was told", early)
	}
}
