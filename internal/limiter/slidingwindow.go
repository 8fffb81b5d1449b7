package limiter

// slidingWindow estimates the use of the period that ends now. It counts all use of the current
// window, and the share of the previous window that the period still covers, as if that window had
// been used evenly. A hit is admitted if the estimate with the hit's cost stays within the amount:
//
//	prev*rest/period + used + cost <= amount
//
// where rest is the time left of the current window. The share is rounded up to a unit, which
// changes no decision, because all other terms are whole units.
//
// State: At is the number of the current window, counted from the epoch; Used is its use, and
// Prev is the use of the previous window.
type slidingWindow struct {
	window
	simple int64 // largest use for which Lua's products are exact, the same for all amounts
}

// newSlidingWindow fails unless Lua's two products are exact for ordinary uses, up to twice the
// amount: the use times the whole seconds of a period, and the use times the microseconds of one
// second, to which a remainder below the period is added. For larger uses, Lua computes the
// share bit by bit.
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
		// All use moves to the current window, because the new share of the previous window
		// might be smaller than the share before.
		return State{At: current, Used: min(s.Used+s.Prev, maxUsed)}
	default:
		return State{At: current}
	}
}

func (w slidingWindow) end(s State) int64 { return (s.At + 1) * w.period }

// estimate returns the estimated use of the last period, rounded up.
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
	// The cost fits once the period covers at most free units of the previous window. If free is
	// negative, this cannot happen before the current window has become the previous window.
	end, free, window := w.end(s), w.amount-cost-s.Used, s.Prev
	if free < 0 {
		end, free, window = end+w.period, w.amount-cost, s.Used
	}
	covered, _ := mulDiv(free, w.period, window)
	return end - covered - now
}

// giveBack lowers the use of the previous window if the charge has become part of that window.
func (w slidingWindow) giveBack(s, remains, charged State, cost int64) State {
	if remains.At != charged.At {
		s.Prev = min(max(s.Prev-min(cost, remains.Prev), 0), maxUsed)
		return s
	}
	return w.window.giveBack(s, remains, charged, cost)
}

func (w slidingWindow) usage(s State, now int64) (used, reset int64) {
	var end int64
	if s.Used > 0 {
		end = w.end(s) + w.period
	} else if s.Prev > 0 {
		end = w.end(s)
	}
	return w.estimate(s, now), max(end-now, 0)
}

func (w slidingWindow) numbers() (int64, [4]int64) {
	return maxUsed, [4]int64{w.period, w.amount, w.simple}
}
