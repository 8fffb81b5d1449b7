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
// State: At is the start of the current window, Used and Prev what was used in
// it and in the one before.
type slidingWindow struct {
	period, amount int64
	cap            int64 // largest Used, Prev and cost
}

// newSlidingWindow reports whether all products are exact. The largest is
// prev*rest + (used+cost)*period with each number at its cap.
func newSlidingWindow(period, amount int64) (slidingWindow, bool) {
	w := slidingWindow{period, amount, maxExact / 3 / period}
	return w, w.cap > 2*amount
}

func (w slidingWindow) roll(s State, now int64) State {
	switch n := now/w.period - s.At/w.period; {
	case n <= 0:
		return s
	case n == 1:
		return State{At: s.At + w.period, Prev: s.Used}
	default:
		return State{At: now - now%w.period}
	}
}

// rest is what is left of the current window. A clock that stepped back out of
// it counts as being at its start.
func (w slidingWindow) rest(s State, now int64) int64 {
	return min(s.At+w.period-now, w.period)
}

// weight is the estimated use, in units times ticks.
func (w slidingWindow) weight(s State, now int64) int64 {
	return s.Prev*w.rest(s, now) + s.Used*w.period
}

func (w slidingWindow) fits(s State, now, cost int64) bool {
	return w.weight(s, now)+cost*w.period <= w.amount*w.period
}

func (w slidingWindow) take(s State, _, cost int64) State {
	s.Used = min(s.Used+cost, w.cap)
	return s
}

func (w slidingWindow) give(s State, _, cost int64) State {
	s.Used = max(s.Used-cost, 0)
	return s
}

func (w slidingWindow) left(s State, now int64) (used, free, whole int64) {
	used = ceilDiv(w.weight(s, now), w.period)
	return used, max(w.amount-used, 0), max(w.expiry(s)-now, 0)
}

func (w slidingWindow) wait(s State, now, cost int64) int64 {
	over := w.weight(s, now) + (cost-w.amount)*w.period
	end := s.At + w.period - now
	switch {
	case cost > w.amount:
		return never
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
		return s.At + 2*w.period
	case s.Prev > 0:
		return s.At + w.period
	default:
		return s.At
	}
}

func (w slidingWindow) most() int64 { return w.cap }

func (w slidingWindow) numbers() (Kind, [4]int64) {
	return KindSlidingWindow, [4]int64{w.period, w.amount, w.cap}
}

// ceilDiv is a/b rounded up, for a >= 0 and b > 0.
func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
