package limiter

import "time"

// RetrySpread spreads the times at which denied clients retry. It changes only the RetryAfter of
// denied requests: requests that one counter denies get successive times, in the order of their
// denials, so that each request fits when its client retries. No time is earlier than the exact
// RetryAfter, and the first is exact.
//
// RetrySpread cannot identify clients. If the only client of a counter repeatedly retries too
// early, its denials look like denials of many clients. So a limit with few units, a long period or
// bans is treated as a per-client limit: its retry times are delayed by less than a second. Retry
// times of other limits are delayed by at most two periods. If a queue reaches its longest delay
// twice within half a period, some clients are not waiting. Until all times of the queue have
// passed, new times are then delayed by at most 10 seconds and at most a period.
//
// Some hits get the exact time and do not join the queue, because no client retries for them: a
// peek, a hit that is written even if its request is denied, a hit that will never fit, and a
// hit in shadow or quota mode, which denies nothing by itself.
type RetrySpread struct {
	now    func() time.Time
	start  time.Time
	queues *Recent[queue]
}

const (
	// Limits of crowdUnits or more per crowdPeriod or less are treated as shared, unless they have bans.
	crowdUnits  = 20
	crowdPeriod = 60 * second
	// crowdPushPeriods is the longest delay of a shared limit's retry times, in periods. 100
	// workers that share a limit of 50 a minute need this full delay.
	crowdPushPeriods = 2
	// impatientPush is the longest delay for a shared limit while some clients do not wait.
	impatientPush = 10 * second
	// lonePush is the exclusive bound of the delay for a per-client limit.
	lonePush = second
)

// queue describes the clients that wait to retry on a counter.
type queue struct {
	due       int64 // retry time of the last client; all times here are in microseconds since RetrySpread.start
	together  int64 // total cost of the clients that retry at due, for algorithms with windows
	full      int64 // time at which the queue last reached its longest delay, or 0 if it never did
	impatient int64 // time until which some clients are assumed not to wait
}

// NewRetrySpread returns a RetrySpread. now should be a monotonic clock.
func NewRetrySpread(now func() time.Time) *RetrySpread {
	return &RetrySpread{now, now(), NewRecent[queue](1 << 20)} // 32,768 counters
}

// Spread delays the RetryAfter of a denied request to a time at which the request is admitted if
// all clients wait. If several counters deny the request, only the longest RetryAfter is delayed.
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
	cost := demandsOf(hits, buf[:0])[last].needed
	since := r.now().Sub(r.start)
	now, free := since.Microseconds(), (since + longest).Microseconds()
	period, ahead := h.Limit.Period().Microseconds(), int64(0)
	r.queues.Touch(h.Key, func(q *queue) {
		ahead, q.together = algorithms[h.Limit.Algorithm].spacing(q.due-free, q.together, cost, period, int64(h.Limit.RequestsPerUnit))
		if ahead > q.mostAhead(h.Limit, free) { // the queue is full: this client begins a new one, at the exact time
			if q.full > 0 && now-q.full < period/2 {
				q.impatient = max(q.impatient, q.due) // clients that wait would take longer to fill the queue again
			}
			q.full, ahead, q.together = max(now, 1), 0, cost
		}
		q.due = free + ahead
	})
	out[last].RetryAfter += duration(ahead)
}

// mostAhead returns the longest delay of a retry. free is the exact time of the retry.
func (q *queue) mostAhead(limit *Limit, free int64) int64 {
	period := limit.Period().Microseconds()
	switch {
	case limit.RequestsPerUnit < crowdUnits || period > crowdPeriod || limit.DenyFor > 0:
		return lonePush - 1
	case free < q.impatient:
		return min(period, impatientPush)
	default:
		return crowdPushPeriods * period
	}
}

// spacing queues a denied cost, which fits at a time F, behind the costs that were denied earlier.
// ahead is the time from F to the last queued retry, negative if that retry is before F. together
// is the total cost of the clients with that last time. The results are the new values of ahead and
// together. Times are in microseconds.
type spacing func(ahead, together, cost, period, amount int64) (newAhead, newTogether int64)

// atOnce delays no retry, because the times of later releases are unknown.
func atOnce(_, _, _, _, _ int64) (ahead, together int64) { return 0, 0 }

// byWindow lets as many clients retry at the start of a window as the window admits. It rounds
// ahead to whole windows, because a window of FirstHit may begin a bit later than reported.
func byWindow(ahead, together, cost, period, amount int64) (int64, int64) {
	windows := (ahead + period/2) / period // from the next window to the last queued one
	switch {
	case ahead < -period/2:
		return 0, cost
	case together+cost <= amount:
		return windows * period, together + cost
	default:
		return (windows + 1) * period, cost
	}
}

// evenly spaces retries at the amount per period, the rate at which use drains.
func evenly(ahead, _, cost, period, amount int64) (int64, int64) {
	time, rest := mulDiv(cost, period, amount)
	time += min(rest, 1)
	if ahead < -max(time/2, clockTolerance) {
		return 0, 0 // all queued clients have retried
	}
	return max(ahead, 0) + time, 0
}

// clockTolerance is the largest expected difference between the times that the store and
// RetrySpread read for the same request, in microseconds.
const clockTolerance = 1000
