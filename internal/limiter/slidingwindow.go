package limiter

// slidingWindow estimates what was used in the span of one period that ends
// now: all of the current window, and of the previous one the share that the
// span still covers, as if it had been used evenly. A hit is admitted if with
// it the estimate stays within the amount:
//
//	prev*rest + (used+cost)*period <= amount*period
//
// where rest is the time left of the current window. The test multiplies out,
// so that nothing is lost to rounding.
//
// State: At is the number of the current window, counted from the epoch, Used
// and Prev what was used in it and in the one before.
type slidingWindow struct {
	period, amount int64
	cap            int64 // largest Used, Prev and cost
}

// newSlidingWindow reports whether all products are exact. The largest sum is
// prev*rest + (used+cost)*period with each number at its cap, which must leave
// room for a debt of the amount.
func newSlidingWindow(period, amount int64) (slidingWindow, bool) {
	w := slidingWindow{period, amount, maxExact / 3 / period}
	return w, w.cap > 2*max(amount, 1)
}

func (w slidingWindow) roll(s State, now int64) State {
	switch current := now / w.period; {
	case !s.unused() && current <= s.At:
		return s
	case current == s.At+1:
		return State{At: current, Prev: s.Used}
	default:
		return State{At: current}
	}
}

func (w slidingWindow) end(s State) int64 { return (s.At + 1) * w.period }

// rest is what is left of the current window. A clock that stepped back out of
// it counts as being at its start.
func (w slidingWindow) rest(s State, now int64) int64 {
	return min(w.end(s)-now, w.period)
}

// weight is the estimated use, in units times ticks.
func (w slidingWindow) weight(s State, now int64) int64 {
	return s.Prev*w.rest(s, now) + s.Used*w.period
}

func (w slidingWindow) fits(s State, now, cost int64) bool {
	return w.weight(s, now)+cost*w.period <= w.amount*w.period
}

func (w slidingWindow) take(s State, cost int64) State {
	s.Used = min(s.Used+cost, w.cap)
	return s
}

func (w slidingWindow) give(s State, cost int64) State {
	s.Used = max(s.Used-cost, 0)
	return s
}

func (w slidingWindow) left(s State, now int64) (used, free, whole int64) {
	used = ceilDiv(w.weight(s, now), w.period)
	return used, max(w.amount-used, 0), max(w.expiry(s)-now, 0)
}

func (w slidingWindow) wait(s State, now, cost int64) int64 {
	if cost > w.amount {
		return never
	}
	over := w.weight(s, now) + (cost-w.amount)*w.period
	end := w.end(s) - now
	switch {
	case over <= 0:
		return 0
	case s.Used+cost <= w.amount: // once enough of the previous window has left the span
		return end - w.rest(s, now) + ceilDiv(over, s.Prev)
	default: // once enough of the current one has, when it is the previous one
		return end + ceilDiv(w.period*(s.Used+cost-w.amount), s.Used)
	}
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

func (w slidingWindow) most() int64 { return w.cap }

func (w slidingWindow) numbers() (Kind, [4]int64) {
	return KindSlidingWindow, [4]int64{w.period, w.amount, w.cap}
}
