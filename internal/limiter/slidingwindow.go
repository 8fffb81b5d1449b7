package limiter

// slidingWindow estimates what was used in the span of one period that ends now: all of the
// current window, and of the previous one the share that the span still covers, as if it had
// been used evenly. A hit is admitted if with it the estimate stays within the amount:
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
	w := slidingWindow{window: s.window()}
	w.simple = min(MaxExact/(w.period/second), (MaxExact-w.period)/second)
	if w.simple < 2*max(w.amount, 1) {
		return nil, inexact(s.Rate())
	}
	return w, nil
}

func (w slidingWindow) roll(s State, now int64) State {
	switch current := now / w.period; {
	case current == s.At:
		return s
	case current == s.At+1:
		return State{At: current, Prev: s.Used}
	case current < s.At:
		// All is used in the current window. A share of the previous one, by the clock as
		// it is now, might be less than it was.
		return State{At: current, Used: min(s.Used+s.Prev, most)}
	default:
		return State{At: current}
	}
}

func (w slidingWindow) end(s State) int64 { return (s.At + 1) * w.period }

// estimate is the use of the last period, rounded up.
func (w slidingWindow) estimate(s State, now int64) int64 {
	if s.Prev == 0 {
		return s.Used
	}
	units, part := mulDiv(s.Prev, min(max(w.end(s)-now, 0), w.period), w.period)
	return s.Used + units + ceilDiv(part, w.period)
}

func (w slidingWindow) wait(s State, now, cost int64) int64 {
	switch {
	case cost > w.amount:
		return never
	case w.estimate(s, now)+cost <= w.amount:
		return 0
	}
	// It fits once no more than free units of a window are covered, which is the
	// previous one now, or will be when the current one is.
	end, free, window := w.end(s), w.amount-cost-s.Used, s.Prev
	if free < 0 {
		end, free, window = end+w.period, w.amount-cost, s.Used
	}
	covered, _ := mulDiv(free, w.period, window)
	return end - covered - now
}

// giveBack takes from the previous window what has become part of it.
func (w slidingWindow) giveBack(s, charged, then State, cost int64) State {
	if charged.At != then.At {
		s.Prev = max(s.Prev-min(cost, charged.Prev), 0)
		return s
	}
	return w.window.giveBack(s, charged, then, cost)
}

func (w slidingWindow) usage(s State, now int64) (used, whole int64) {
	var end int64
	if s.Used > 0 {
		end = w.end(s) + w.period
	} else if s.Prev > 0 {
		end = w.end(s)
	}
	return w.estimate(s, now), max(end-now, 0)
}

func (w slidingWindow) numbers() (int64, [4]int64) {
	return most, [4]int64{w.period, w.amount, w.simple}
}
