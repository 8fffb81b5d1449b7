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
// It cannot know who comes back. A client alone on its counter that is denied again
// and again, because it does not wait, looks like many. So a limit of few units, or of
// a long period, is taken for that of one client: all are told the exact time, or one
// less than a second later. Of other limits nobody is told more than two periods beyond
// it. Who makes promises for as long twice within half a period does not wait: until
// all of them are due, nobody is told more than a period, and 10 seconds, beyond the
// exact time.
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

const (
	// crowdUnits a period, of crowdPeriod at most, are what many share.
	crowdUnits  = 20
	crowdPeriod = 60 * second
	// crowdPushPeriods is how far beyond the exact time somebody of them is told to
	// come back at most. 100 workers that share 50 a minute need all of it.
	crowdPushPeriods = 2
	// impatientPush is the same while somebody is taken not to wait.
	impatientPush = 10 * second
	// lonePush is the same of the limit of one client.
	lonePush = second
)

// line is those who were told when to come back to a counter.
type line struct {
	due       int64 // when the last of them will, in microseconds since Promises.start
	together  int64 // what those who will at that time cost, see counting.queue
	full      int64 // when it was last as long as it may be, 0: never
	impatient int64 // until when somebody is taken not to wait
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

// queue returns how long beyond the exact time a hit is to come back. Who is told less
// than all would take begins the line anew.
func (p *Promises) queue(h *Hit, exact time.Duration, cost int64) (push time.Duration) {
	now := p.now().Sub(p.start)
	free := (now + exact).Microseconds()
	var ahead int64
	p.lines.Touch(h.Key, func(l *line) {
		ahead, l.together = h.Limit.counting.queue(l.due-free, l.together, cost)
		if ahead > l.mostAhead(h.Limit, free) {
			l.fill(now.Microseconds(), h.Limit.Period().Microseconds())
			ahead, l.together = 0, cost
		}
		l.due = free + ahead
	})
	return duration(ahead)
}

// fill notes that the line is as long as it may be. It takes many who wait longer to
// make it so again.
func (l *line) fill(now, period int64) {
	if l.full > 0 && now-l.full < period/2 {
		l.impatient = max(l.impatient, l.due)
	}
	l.full = max(now, 1)
}

// mostAhead is how long beyond a time, at which what they ask for is free, somebody
// may be told to come back.
func (l *line) mostAhead(limit *Limit, free int64) int64 {
	period := limit.Period().Microseconds()
	switch {
	case limit.RequestsPerUnit < crowdUnits || period > crowdPeriod:
		return lonePush - 1
	case free < l.impatient:
		return min(period, impatientPush)
	default:
		return crowdPushPeriods * period
	}
}
