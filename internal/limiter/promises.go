package limiter

import (
	"context"
	"time"
)

// Promises is a Store around another one that keeps those who are denied from coming
// back all at once. Its decisions are those of the other store; only RetryAfter of a
// denied request counts those who were already told when to come back to the same
// counter: each is told a time when what they ask for is free as well, in the order in
// which they were denied. The first is told the exact time, and nobody less than that.
//
// It cannot know who comes back. A client that is denied again and again, because it
// does not wait, takes the places of many. So nobody is told more than two periods
// of the limit, and 2 minutes, beyond the exact time: the next one after that is
// told the exact time again, and those after it in order.
//
// Nothing is promised to who does not mean to come back: a peek, a hit that is written
// whatever becomes of its request, one that no waiting makes fit, or one that denies
// nothing by itself because its limit is in shadow mode or a quota.
type Promises struct {
	store Store
	now   func() time.Time
	start time.Time
	lines *Recent[line]
}

// promisesBytes is what the lines of 32,768 counters take: those denied last, of which
// a few share each place.
const promisesBytes = 1 << 20

// maxPush is how far beyond the exact time somebody is told to come back at most.
const (
	maxPush        = 2 * time.Minute
	maxPushPeriods = 2
)

// line is those who were told when to come back to a counter.
type line struct {
	due      int64 // when the last of them will, in microseconds since Promises.start
	together int64 // what those who will at that time cost, see counting.queue
}

// NewPromises returns a Store around store, on a clock that tells how much time
// passes: time.Now if nil.
func NewPromises(store Store, now func() time.Time) *Promises {
	if now == nil {
		now = time.Now
	}
	return &Promises{store, now, now(), NewRecent[line](promisesBytes)}
}

// Decide implements Store.
func (p *Promises) Decide(ctx context.Context, hits []Hit, out []Decision) (denied bool, err error) {
	if denied, err = p.store.Decide(ctx, hits, out); denied && err == nil {
		p.promise(hits, out)
	}
	return denied, err
}

// promise promises to a denied request a time at which it will be admitted if all come
// as they were told. Of several counters that deny it, that which does so for longest
// tells when it comes.
func (p *Promises) promise(hits []Hit, out []Decision) {
	last := -1
	for i := range hits {
		h, d := &hits[i], &out[i]
		switch {
		case !d.Over || h.EffectiveMode() != Enforced:
			continue
		case d.RetryAfter == Never:
			return
		case last < 0 || d.RetryAfter > out[last].RetryAfter:
			last = i
		}
	}
	if last < 0 || hits[last].Cost == 0 || hits[last].Unconditional() || out[last].RetryAfter == 0 {
		return
	}
	var all demands
	cost := all.onCounterOf(hits, last)
	out[last].RetryAfter += p.queue(&hits[last], out[last].RetryAfter, cost)
}

// queue tells how long beyond the exact time a hit is to come back.
func (p *Promises) queue(h *Hit, exact time.Duration, cost int64) (push time.Duration) {
	free := (p.now().Sub(p.start) + exact).Microseconds()
	period := h.Limit.Period().Microseconds()
	most := min(maxPush.Microseconds(), maxPushPeriods*period)
	var ahead int64
	p.lines.Touch(h.Key, func(l *line) {
		ahead, l.together = h.Limit.counting.queue(l.due-free, l.together, cost)
		if ahead > most {
			ahead, l.together = 0, cost
		}
		l.due = free + ahead
	})
	return duration(ahead)
}
