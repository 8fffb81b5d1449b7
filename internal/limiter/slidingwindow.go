package limiter

// slidingWindow estimates what was used in the span of one period that ends
// now: all of the current window, and of the previous one the share that the
// span still covers, as if it had been used evenly. A hit is admitted if with
// it the estimate stays within the amount:
//
//	prev*rest/period + used + cost <= amount
//
// where rest is the time left of the current window. The share is rounded up to
// a unit, which changes nothing: all else is in whole units.
//
// State: At is the number of the current window, counted from the epoch, Used
// and Prev what was used in it and in the one before.
type slidingWindow struct {
	window
	simple int64 // largest use of which Lua's products are exact; the same for all amounts
}

// newSlidingWindow fails unless the products of ordinary uses can be exact,
// which are up to twice the amount. They are those with the whole seconds of a
// period, and with the microseconds of one second, to which a remainder below the
// period is added. A store in Lua shares out larger ones bit by bit.
func newSlidingWindow(s *Spec) (counting, error) {
	period, amount := s.Period().Microseconds(), int64(s.RequestsPerUnit)
	w := slidingWindow{window{period, amount}, min(MaxExact/(period/second), (MaxExact-period)/second)}
	if w.simple < 2*max(amount, 1) {
		return nil, inexact(s.Rate())
	}
	return w, nil
}

func (w slidingWindow) roll(s State, now int64) State {
	switch current := now / w.period; {
	case current == s.At:
		s.Until = 0
		return s
	case current == s.At+1:
		return State{At: current, Prev: s.Used}
	case current < s.At && !s.unused():
		return w.back(s, now)
	default:
		return State{At: current}
	}
}

// back makes all that was used in both windows that of the current one. A share
// of the previous one, by the clock as it is now, might be less than it was.
func (w slidingWindow) back(s State, now int64) State {
	return State{At: now / w.period, Used: min(s.Used+s.Prev, w.most())}
}

func (w slidingWindow) end(s State) int64 { return (s.At + 1) * w.period }

// estimate is the use of the last period, rounded up. Of a state that is not rolled
// it is no less.
func (w slidingWindow) estimate(s State, now int64) int64 {
	units, part := mulDiv(s.Prev, min(max(w.end(s)-now, 0), w.period), w.period)
	return s.Used + units + ceilDiv(part, w.period)
}

func (w slidingWindow) fits(s State, now, cost int64) bool {
	return w.estimate(s, now)+cost <= w.amount
}

// giveBack takes from the previous window what has become part of it.
func (w slidingWindow) giveBack(s, charged, then State, cost int64) (State, bool) {
	if charged.At != then.At {
		s.Prev = max(s.Prev-min(cost, charged.Prev), 0)
		return s, true
	}
	return w.give(s, min(cost, charged.Used)), true
}

func (w slidingWindow) left(s State, now int64) (used, whole int64) {
	return w.estimate(s, now), max(w.expiry(s)-now, 0)
}

func (w slidingWindow) wait(s State, now, cost int64) int64 {
	// It fits once no more than free units of a window are covered, which is the
	// previous one now, or will be when the current one is.
	end, free, window := w.end(s), w.amount-cost-s.Used, s.Prev
	if free < 0 {
		end, free, window = end+w.period, w.amount-cost, s.Used
	}
	covered, _ := mulDiv(free, w.period, window)
	return end - covered - now
}

// returnAfter of a sliding window: what it holds leaves it at about the amount per period.
func (w slidingWindow) returnAfter(ahead, _, cost int64) (int64, int64) {
	return returnEvenly(ahead, cost, w.period, w.amount)
}

func (w slidingWindow) expiry(s State) int64 {
	switch {
	case s.Used > 0:
		return w.end(s) + w.period
	case s.Prev > 0:
		return w.end(s)
	default:
		return 0
	}
}

func (w slidingWindow) ample() int64 { return 0 } // it depends on the previous window

func (w slidingWindow) constants() [4]int64 { return [4]int64{w.period, w.amount, w.simple} }
