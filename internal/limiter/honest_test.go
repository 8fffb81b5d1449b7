package limiter

import (
	"bytes"
	"fmt"
	"math"
	"testing"
	"time"
)

// FuzzHonestTimes asks after a history of requests whether the times that a
// request is told are true, if nothing else happens:
//
//   - A counter that was over admits the same hits on it after RetryAfter, and
//     not a microsecond earlier; it never does if it says Never.
//   - A denied request is admitted when all enforced limits and one quota limit
//     of it may come back, and not a microsecond earlier.
//   - After ResetAfter the whole limit is free, and not a microsecond earlier if
//     anything is used.
func FuzzHonestTimes(f *testing.F) {
	addHistories(f)
	f.Fuzz(func(t *testing.T, input []byte) {
		d := &draw{input[:min(len(input), 1024)]}
		h := history{TB: t, states: map[string]*State{}, now: at(0)}
		limits := map[int]*Limit{} // one for each counter
		first := d.below(len(drawn))
		for len(d.rest) > 0 {
			h.now = d.clock(h.now)
			var hits []Hit
			for range 1 + d.below(3) {
				counter := (first + d.below(3)) % len(drawn)
				if drawn[counter].Algorithm == Concurrency { // nobody knows when to come back
					counter = 0
				}
				if limits[counter] == nil {
					limits[counter] = d.limit(counter, bans[d.below(len(bans))])
					limits[counter].Mode = []Mode{Enforced, Enforced, Shadow, Quota}[d.below(4)]
				}
				hits = append(hits, d.hit(counter, limits[counter]))
			}
			h.decide(hits)
		}
	})
}

// history is counters and a time, which both go on.
type history struct {
	testing.TB
	states map[string]*State
	now    int64
}

// decide decides hits and checks the times that they get.
func (h *history) decide(hits []Hit) {
	out := make([]Decision, len(hits))
	denied := Decide(hits, statesOf(hits, h.states), nil, h.now, out)
	for i := range hits {
		h.checkReset(&hits[i], out[i].ResetAfter)
		if out[i].Over {
			h.checkRetry(onCounter(hits, i), out[i].RetryAfter, true)
		} else if out[i].RetryAfter != 0 {
			h.Fatalf("%s: it fits, but may come back after %v", h.at(hits[i]), out[i].RetryAfter)
		}
	}
	if denied && !fitsNoMore(hits, out) {
		retry, exact := comeBack(hits, out)
		h.checkRetry(hits, retry, exact)
	}
}

// fitsNoMore reports whether a denied request charged a counter on which one of
// its hits fitted. That hit was told nothing, and must fit once more when the
// request is tried again.
func fitsNoMore(hits []Hit, out []Decision) bool {
	for i := range hits {
		for j := range hits {
			charged := out[j].Charged && !hits[j].Refund && bytes.Equal(hits[i].Key, hits[j].Key)
			if charged && !out[i].Over && !hits[i].Refund {
				return true
			}
		}
	}
	return false
}

// onCounter are the hits on the counter of hits[i] that ask for something, as
// if the limit were enforced.
func onCounter(hits []Hit, i int) (same []Hit) {
	enforced := must(hits[i].Limit.Spec)
	enforced.Mode = Enforced
	for _, hit := range hits {
		if bytes.Equal(hit.Key, hits[i].Key) && !hit.Refund {
			hit.Limit = enforced
			same = append(same, hit)
		}
	}
	return same
}

// comeBack is when a denied request may come back: when all enforced limits
// admit it, and one of its quota limits does. It may be admitted even earlier if
// it gives units back each time it is tried, or if of several hits on a quota's
// counter only some must fit.
func comeBack(hits []Hit, out []Decision) (retry time.Duration, exact bool) {
	const forever = math.MaxInt64
	exact = true
	quota, quotas := time.Duration(forever), map[string]bool{}
	for i := range hits {
		wait := out[i].RetryAfter
		if wait == Never {
			wait = forever
		}
		switch key := string(hits[i].Key); {
		case hits[i].Refund:
			exact = false
		case hits[i].Limit.Mode == Enforced:
			retry = max(retry, wait)
		case hits[i].Limit.Mode == Quota:
			exact = exact && !quotas[key]
			quota, quotas[key] = min(quota, wait), true
		}
	}
	if len(quotas) > 0 {
		retry = max(retry, quota)
	}
	if retry == forever {
		retry = Never
	}
	return retry, exact
}

// checkRetry checks that hits are admitted after retry and, if it is exact, not
// earlier.
func (h *history) checkRetry(hits []Hit, retry time.Duration, exact bool) {
	switch {
	case retry == Never && exact:
		for _, later := range []time.Duration{0, time.Second, time.Hour, MaxPeriod / 4, MaxPeriod, 2*MaxPeriod + MaxPeriod/2} {
			if h.admits(hits, later) {
				h.Fatalf("%s: never, but it is admitted after %v", h.at(hits...), later)
			}
		}
	case retry == Never:
	case exact && retry > 0 && h.admits(hits, retry-time.Microsecond):
		h.Fatalf("%s: it is admitted before %v", h.at(hits...), retry)
	case !h.admits(hits, retry):
		h.Fatalf("%s: it is not admitted after %v", h.at(hits...), retry)
	}
}

// admits reports whether hits would be admitted later. It changes nothing.
func (h *history) admits(hits []Hit, later time.Duration) bool {
	states := map[string]*State{}
	for key, s := range h.states {
		kept := *s
		states[key] = &kept
	}
	return !Decide(hits, statesOf(hits, states), nil, h.now+later.Microseconds(), make([]Decision, len(hits)))
}

func (h *history) checkReset(hit *Hit, reset time.Duration) {
	size := int64(hit.Limit.Size())
	whole := func(after time.Duration) bool {
		states, out := []State{*h.states[string(hit.Key)]}, make([]Decision, 1)
		Describe([]Hit{*hit}, states, h.now+after.Microseconds(), out)
		return out[0].Remaining == size
	}
	if !whole(reset) {
		h.Fatalf("%s: not whole after %v", h.at(*hit), reset)
	}
	used := !hit.Limit.counting.roll(*h.states[string(hit.Key)], h.now).unused()
	if used && size > 0 && whole(reset-time.Microsecond) {
		h.Fatalf("%s: whole before %v", h.at(*hit), reset)
	}
}

// at returns where the history stands.
func (h *history) at(hits ...Hit) string {
	states := map[string]State{}
	for key, s := range h.states {
		states[key] = *s
	}
	text := fmt.Sprintf("at %d, of %+v", h.now, states)
	for i := range hits {
		text += fmt.Sprintf("\n%s cost %d always %v of %+v", hits[i].Key, hits[i].Cost, hits[i].Always, hits[i].Limit.Spec)
	}
	return text
}
