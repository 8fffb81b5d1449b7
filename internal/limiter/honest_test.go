package limiter

import (
	"fmt"
	"testing"
	"time"
)

// FuzzHonestTimes asks after a history of requests whether the times that a
// request is told are true, if nothing else happens:
//
//   - A denied request is admitted after the longest RetryAfter of its hits, and
//     not a microsecond earlier.
//   - A request that is told Never is not admitted whenever it is tried again.
//   - After ResetAfter the whole limit is free, and not a microsecond earlier if
//     anything is used.
func FuzzHonestTimes(f *testing.F) {
	addHistories(f)
	f.Fuzz(func(t *testing.T, bytes []byte) {
		d := &draw{bytes[:min(len(bytes), 1024)]}
		h := history{TB: t, states: map[string]*State{}, now: at(0)}
		limits := map[int]*Limit{} // one for each counter
		first := d.below(len(drawn))
		for len(d.rest) > 0 {
			h.now = d.clock(h.now)
			var hits []Hit
			for range 1 + d.below(3) {
				counter := (first + d.below(3)) % len(drawn)
				if limits[counter] == nil {
					limits[counter] = d.limit(counter)
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

// decide decides hits and checks what they are told.
func (h *history) decide(hits []Hit) {
	out := make([]Decision, len(hits))
	denied := Decide(hits, statesOf(hits, h.states), h.now, out)
	moved, retry := false, time.Duration(0)
	for i := range hits {
		h.checkReset(&hits[i], out[i].ResetAfter)
		moved = moved || out[i].Charged && !out[i].Over
		if retry != Never && (out[i].RetryAfter == Never || out[i].RetryAfter > retry) {
			retry = out[i].RetryAfter
		}
		if !out[i].Over && out[i].RetryAfter != 0 {
			h.Fatalf("%s: it fits, but may come back after %v", h.at(hits[i]), out[i].RetryAfter)
		}
	}
	switch {
	case !denied:
	case moved: // a refund or a charge beside the denial, which happens each time it is tried
	case retry == Never:
		for _, later := range []time.Duration{0, time.Second, time.Hour, MaxPeriod / 4, MaxPeriod, 2*MaxPeriod + MaxPeriod/2} {
			if h.admits(hits, later) {
				h.Fatalf("%s: never, but it is admitted after %v", h.at(hits...), later)
			}
		}
	case h.admits(hits, retry-time.Microsecond):
		h.Fatalf("%s: it is admitted before %v", h.at(hits...), retry)
	case !h.admits(hits, retry):
		h.Fatalf("%s: it is not admitted after %v", h.at(hits...), retry)
	}
}

// admits tells whether hits would be admitted later. It changes nothing.
func (h *history) admits(hits []Hit, later time.Duration) bool {
	states := map[string]*State{}
	for key, s := range h.states {
		kept := *s
		states[key] = &kept
	}
	return !Decide(hits, statesOf(hits, states), h.now+later.Microseconds(), make([]Decision, len(hits)))
}

func (h *history) checkReset(hit *Hit, reset time.Duration) {
	size := int64(hit.Limit.Size())
	whole := func(after time.Duration) bool {
		s := *h.states[string(hit.Key)]
		var d Decision
		Describe([]Hit{*hit}, 0, s, h.now+after.Microseconds(), &d)
		return d.Remaining == size
	}
	if !whole(reset) {
		h.Fatalf("%s: not whole after %v", h.at(*hit), reset)
	}
	used := !hit.Limit.meter.roll(*h.states[string(hit.Key)], h.now).unused()
	if used && size > 0 && whole(reset-time.Microsecond) {
		h.Fatalf("%s: whole before %v", h.at(*hit), reset)
	}
}

// at tells where the history stands.
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
