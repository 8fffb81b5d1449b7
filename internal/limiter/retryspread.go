package limiter

import "time"

// RetrySpread spreads the times at which denied requests come back. It changes only
// RetryAfter of a denied request: requests that are denied on one counter get times one
// after the other, in the order in which they were denied, so that what each asks for is
// free when it comes. No time is earlier than the exact one, and the first is exact.
//
// It cannot know who comes back. A client alone on its counter that does not wait, and is
// denied again and again, looks like many. So a limit of few units, of a long period, or
// with bans, is taken for that of one client: its times are less than a second later than
// the exact ones. Those of other limits are at most two periods later. A line that gets so
// long twice within half a period is of clients that do not wait: until all its times are
// due, new ones are at most a period, and 10 seconds, later than exact.
//
// Some hits get the exact time, because nobody means to come back: a peek, a hit that
// is written even if its request is denied, one that no waiting makes fit, and one that
// denies nothing by itself because its limit is in shadow mode or a quota.
type RetrySpread struct {
	now   func() time.Time
	start time.Time
	lines *Recent[line]
}

const (
	// crowdUnits a period, of crowdPeriod at most, are what many share.
	crowdUnits  = 20
	crowdPeriod = 60 * second
	// crowdPushPeriods is how far beyond the exact time the reported time of one of
	// them is at most. 100 workers that share 50 a minute need all of it.
	crowdPushPeriods = 2
	// impatientPush is the same while somebody is taken not to wait.
	impatientPush = 10 * second
	// lonePush is the same of the limit of one client.
	lonePush = second
)

// line is those who have a time to come back to a counter.
type line struct {
	due       int64 // when the last of them comes, in microseconds since RetrySpread.start
	together  int64 // the cost of all who come at that time, where they return by window
	full      int64 // when it was last as long as it may be, 0: never
	impatient int64 // until when somebody is taken not to wait
}

// NewRetrySpread returns a RetrySpread on a clock that shows how much time passes.
func NewRetrySpread(now func() time.Time) *RetrySpread {
	return &RetrySpread{now, now(), NewRecent[line](1 << 20)} // 32,768 counters: those denied last
}

// Spread gives a denied request a time at which it is admitted if all come at their times. Of
// several counters that deny it, the one that does so longest decides.
func (r *RetrySpread) Spread(hits []Hit, out []Decision) {
	last, longest := -1, time.Duration(-1)
	for i := range hits {
		h, d := &hits[i], &out[i]
		switch {
		case !d.Over || h.EffectiveMode() != Enforced:
			continue
		case d.RetryAfter == Never:
			return
		case d.RetryAfter > longest:
			last, longest = i, d.RetryAfter
		}
	}
	if last < 0 || hits[last].Cost == 0 || hits[last].Unconditional() || longest == 0 {
		return
	}
	h := &hits[last]
	var buf [few]demand
	cost := demandsOf(hits, buf[:0])[last].most
	since := r.now().Sub(r.start)
	now, free := since.Microseconds(), (since + longest).Microseconds()
	period, ahead := h.Limit.Period().Microseconds(), int64(0)
	r.lines.Touch(h.Key, func(l *line) {
		ahead, l.together = algorithms[h.Limit.Algorithm].returns(l.due-free, l.together, cost, period, int64(h.Limit.RequestsPerUnit))
		if ahead > l.mostAhead(h.Limit, free) { // who gets less than all would take begins the line anew
			if l.full > 0 && now-l.full < period/2 {
				l.impatient = max(l.impatient, l.due) // many who wait take longer to make it so long again
			}
			l.full, ahead, l.together = max(now, 1), 0, cost
		}
		l.due = free + ahead
	})
	out[last].RetryAfter += duration(ahead)
}

// mostAhead is how long after what they ask for is free somebody is to come back at most.
func (l *line) mostAhead(limit *Limit, free int64) int64 {
	period := limit.Period().Microseconds()
	switch {
	case limit.RequestsPerUnit < crowdUnits || period > crowdPeriod || limit.DenyFor > 0:
		return lonePush - 1
	case free < l.impatient:
		return min(period, impatientPush)
	default:
		return crowdPushPeriods * period
	}
}

// returning puts a denied cost, which fits at a time F, behind all costs that were denied
// earlier with a time to come back. ahead is how long after F the last of those comes, below 0
// if it comes before F. together is the cost of all who come at the same time as the last. It
// returns both with this cost added. Times are in microseconds.
type returning func(ahead, together, cost, period, amount int64) (newAhead, newTogether int64)

// atOnce has all come when they can: what is free then is not known.
func atOnce(_, _, _, _, _ int64) (ahead, together int64) { return 0, 0 }

// byWindow has as many come at the start of a window as it admits. The last window that was
// reported may begin a bit later than was reported, if it begins with the first hit.
func byWindow(ahead, together, cost, period, amount int64) (int64, int64) {
	windows := (ahead + period/2) / period // from the next to the last
	switch {
	case ahead < -period/2:
		return 0, cost
	case together+cost <= amount:
		return windows * period, together + cost
	default:
		return (windows + 1) * period, cost
	}
}

// evenly has them come at the amount per period, at which what is used drains.
func evenly(ahead, _, cost, period, amount int64) (int64, int64) {
	time, rest := mulDiv(cost, period, amount)
	time += min(rest, 1)
	if ahead < -max(time/2, clockTolerance) {
		return 0, 0 // all have come
	}
	return max(ahead, 0) + time, 0
}

// clockTolerance is by how much two readings of the same time may differ, in
// microseconds: the store and RetrySpread read their clocks one after the other.
const clockTolerance = 1000
