package limiter

import "fmt"

// slidingLog admits an amount in any span of one period, exactly. A Log, or the store, has the time
// of each unit; the state has only the number of units, which suffices for a decision. Charges that
// do not fit raise this number to at most twice the amount.
//
// State: At is the time of the newest unit, in microseconds since the epoch; Used is the number of
// units. Prev is not stored. After a hit that is over, Prev is the time at which all the request's
// hits on the counter fit; after a charge in Redis, the time of the newest earlier unit or 0.
type slidingLog struct{ window }

// MaxLogged is the largest amount of a SlidingLog limit.
const MaxLogged = 10_000

func newSlidingLog(s *Spec) (counting, error) {
	if s.RequestsPerUnit > MaxLogged {
		return nil, fmt.Errorf("an amount of %d is too large for sliding_log, which keeps the time of each unit; at most %d is allowed, else use sliding_window, which estimates, or token_bucket, fixed_window, first_hit or calendar",
			s.RequestsPerUnit, MaxLogged)
	}
	return slidingLog{s.window()}, nil
}

// roll keeps or drops all units, because only the log has their times.
func (w slidingLog) roll(s State, now int64) State {
	if s.unused() || now >= s.At+w.period {
		return State{At: now}
	}
	return State{At: min(s.At, now), Used: s.Used, Prev: s.Prev}
}

func (w slidingLog) wait(s State, now, cost int64) int64 {
	return w.waitFor(max(s.Prev-now, 1), s, cost)
}

// add adds cost up to twice the amount, or nothing if a larger amount left more units.
func (w slidingLog) add(s State, cost int64) State {
	s.Used = max(min(s.Used+cost, max(s.Used, 2*max(w.amount, 1))), 0)
	return s
}

// giveBack also sets At back to the time of the newest unit before the charge.
func (w slidingLog) giveBack(s, remains, charged State, cost int64) State {
	if s.At != remains.At {
		return s
	}
	s = w.window.giveBack(s, remains, charged, cost)
	if s.Used == 0 {
		s.Prev = 0
	} else if remains.Prev > 0 {
		s.At = remains.Prev
	}
	return s
}

// numbers returns twice MaxLogged as maxCost: a refund of that cost empties any log.
func (w slidingLog) numbers() (int64, [4]int64) {
	return 2 * MaxLogged, [4]int64{w.period, w.amount}
}

// Log has the times of the units of one SlidingLog counter, oldest first, in microseconds since
// the epoch. It implements Uses.
type Log struct{ times []int64 }

// Len implements Uses. A unit takes about a tenth of the memory of a hold, which counts as 1.
func (l *Log) Len() int { return len(l.times) / 10 }

// State implements Uses.
func (l *Log) State(of *Limit, needed, now int64) (s State) {
	period, size := of.Period().Microseconds(), int64(of.Size())
	for i := len(l.times) - 1; i >= 0 && l.times[i] > now; i-- {
		l.times[i] = now
	}
	for len(l.times) > 0 && l.times[0] <= now-period {
		l.times = l.times[1:]
	}
	if used := len(l.times); used > 0 {
		s = State{At: l.times[used-1], Used: int64(used)}
	}
	if excess := s.Used + needed - size; excess > 0 && needed <= size {
		s.Prev = l.times[excess-1] + period
	}
	return s
}

// write charges or refunds the cost of h. A refund removes the newest units.
func (l *Log) write(h *Hit, now int64) {
	cost := h.CountedCost()
	if h.Refund {
		cost = -cost
	}
	used := int(h.Limit.counting.add(State{Used: int64(len(l.times))}, cost).Used)
	for len(l.times) < used {
		l.times = append(l.times, now)
	}
	l.times = l.times[:used]
}
