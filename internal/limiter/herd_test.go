package limiter

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// herdLimits are limits that 100 workers share.
var herdLimits = []struct {
	spec      Spec
	inSeconds float64 // maximum time of workers that wait for whole seconds, relative to the least time that the limit allows
}{
	{Spec{RequestsPerUnit: 50, Unit: Second}, 1.2},
	{Spec{RequestsPerUnit: 50, Unit: Second, Algorithm: FirstHit}, 1.2},
	// Workers that begin together and wait for whole seconds always come in the same part of a
	// second. Once a second, a sliding window then admits 25 to 50 requests, and a bucket its
	// burst. No retry time can improve that.
	{Spec{RequestsPerUnit: 50, Unit: Second, Algorithm: SlidingWindow}, 2.1},
	{Spec{RequestsPerUnit: 50, Unit: Second, Algorithm: TokenBucket, Burst: 5}, 10.1},
	{Spec{RequestsPerUnit: 50, Unit: Minute}, 1.2},
	{Spec{RequestsPerUnit: 50, Unit: Minute, Algorithm: SlidingWindow}, 1.2},
	{Spec{RequestsPerUnit: 50, Unit: Minute, Algorithm: TokenBucket, Burst: 5}, 1.2},
}

const (
	herdWorkers = 100
	herdJobs    = 500
	herdTries   = 3 // maximum average number of tries for a job
)

// TestHerdOfWorkers has workers that share a limit and do jobs one after the other. A denied worker
// waits for the retry time, which it rounds up to a whole unit.
func TestHerdOfWorkers(t *testing.T) {
	for _, l := range herdLimits {
		limit := MustLimit(l.spec)
		for _, phase := range []time.Duration{0, 370 * time.Millisecond} {
			least := newHerd(t, limit, time.Millisecond, 0, phase).run(1, 1)
			for _, w := range []struct {
				unit        time.Duration
				jitter      float64 // maximum random change of the time to wait, as a fraction of that time
				most, tries float64 // maximum time of the workers relative to the least time, and maximum tries for a job
			}{
				{time.Millisecond, 0, 1.2, herdTries}, {time.Second, 0.5, 1.2, herdTries}, {time.Second, 0, l.inSeconds, 4 * herdTries},
			} {
				h := newHerd(t, limit, w.unit, w.jitter, phase)
				took, tried := h.run(herdWorkers, 1000), float64(h.tries)/herdJobs
				what := fmt.Sprintf("%s %s from %v, waits in %v with a jitter of %v", limit.Rate(), limit.Algorithm, phase, w.unit, w.jitter)
				if took.Seconds() > w.most*least.Seconds() {
					t.Errorf("%s: the workers need %v, want at most %.1f times %v", what, took, w.most, least)
				}
				if tried > w.tries {
					t.Errorf("%s: a job takes %.2f tries, want at most %.0f", what, tried, w.tries)
				}
			}
		}
	}
}

// herd is a store whose clock the workers set.
type herd struct {
	*spreading
	limit  *Limit
	unit   time.Duration
	jitter float64
	began  time.Time
	random *rand.Rand
	tries  int
}

// newHerd returns a herd whose workers begin at the given phase of a minute.
func newHerd(t *testing.T, limit *Limit, unit time.Duration, jitter float64, phase time.Duration) *herd {
	h := &herd{spreading: newSpreading(t), limit: limit, unit: unit, jitter: jitter, random: rand.New(rand.NewPCG(1, 2))}
	h.began = h.now.Truncate(time.Minute).Add(time.Minute + phase)
	return h
}

// try requests a job at the given time. It reports whether the job is admitted and, if not,
// returns the time to wait.
func (h *herd) try(at time.Time) (admitted bool, wait time.Duration) {
	h.now = at
	h.tries++
	out, _, denied := h.ask(hitOn(h.limit, "job", 1))
	wait = (out[0].RetryAfter + h.unit - 1).Truncate(h.unit)
	return !denied, time.Duration(float64(wait) * (1 + h.jitter*(2*h.random.Float64()-1)))
}

// run has workers do the jobs, and returns the time that they take. A request and its answer each
// travel for less than travels microseconds. A single worker with travels = 1 always asks at the
// right time, and so needs the least time that the limit allows.
func (h *herd) run(workers, travels int) time.Duration {
	travel := func() time.Duration { return time.Duration(h.random.IntN(travels)) * time.Microsecond }
	arrives := make([]time.Time, workers)
	for i := range arrives {
		arrives[i] = h.began.Add(travel())
	}
	for done := 0; ; {
		next := 0
		for i := range arrives {
			if arrives[i].Before(arrives[next]) {
				next = i
			}
		}
		at := arrives[next]
		admitted, wait := h.try(at)
		if admitted {
			if done++; done == herdJobs {
				return at.Sub(h.began)
			}
			wait = 0
		}
		arrives[next] = at.Add(travel() + wait + travel())
	}
}
