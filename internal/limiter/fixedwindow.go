package limiter

// fixedWindow admits an amount in each window of one period. Windows follow
// each other from the epoch, or start with the first hit after the last one
// ended; later hits never extend them. What leaves a window unused, a peek or a
// refund of everything, starts none.
//
// State: At is the start of the window, counted in grids since the epoch, Used
// what was used in it.
type fixedWindow struct {
	window
	grid int64 // where windows can start: at multiples of the period, or at any microsecond
}

// window is what fixed and sliding windows have in common.
type window struct{ period, amount int64 }

func (w window) take(s State, cost int64) State {
	s.Used = min(s.Used+cost, w.most())
	return s
}

func (w window) give(s State, cost int64) State {
	s.Used = max(s.Used-cost, 0)
	return s
}

// most is also the largest Used and Prev. The sum of two is exact.
func (w window) most() int64 { return MaxExact / 2 }

func newFixedWindow(s *Spec) (counting, error) {
	w := fixedWindow{window{s.Period().Microseconds(), int64(s.RequestsPerUnit)}, 1}
	switch s.Anchor {
	case Epoch:
		w.grid = w.period
	case ByCalendar:
		c, err := newCalendar(s)
		if err != nil {
			return nil, err
		}
		if w.period > 60*second {
			w.grid = second
			return calendarWindow{w, c}, nil
		}
		w.grid = w.period // the clocks of all zones show the same seconds, and full minutes at the same time
	}
	return w, nil
}

func (w fixedWindow) end(s State) int64 { return s.At*w.grid + w.period }

func (w fixedWindow) roll(s State, now int64) State {
	switch start := s.At * w.grid; {
	case s.unused() || now >= start+w.period:
		return State{At: now / w.grid}
	case now < start:
		return w.back(s, now)
	default:
		s.Until = 0
		return s
	}
}

// back makes what was used that of the current window, or of one that starts now.
func (w fixedWindow) back(s State, now int64) State {
	return State{At: now / w.grid, Used: s.Used}
}

func (w fixedWindow) fits(s State, _, cost int64) bool { return s.Used+cost <= w.amount }

// giveBack gives back nothing once another window has begun.
func (w fixedWindow) giveBack(s, charged, _ State, cost int64) (State, bool) {
	return w.give(s, min(cost, charged.Used)), s.At == charged.At
}

func (w fixedWindow) left(s State, now int64) (used, whole int64) {
	return s.Used, w.end(s) - now
}

func (w fixedWindow) wait(s State, now, _ int64) int64 { return w.end(s) - now }

// returnAfter lets as many come at the start of a window as it admits.
func (w fixedWindow) returnAfter(ahead, together, cost int64) (int64, int64) {
	// The last window that was reported is so many after the next. It may begin a bit
	// later than was reported, if it begins with the first hit.
	windows := (ahead + w.period/2) / w.period
	switch {
	case ahead < -w.period/2:
		return 0, cost
	case together+cost <= w.amount:
		return windows * w.period, together + cost
	default:
		return (windows + 1) * w.period, cost
	}
}

func (w fixedWindow) expiry(s State) int64 {
	if s.unused() {
		return 0
	}
	return w.end(s)
}

func (w fixedWindow) ample() int64 { return w.amount }

func (w fixedWindow) constants() [4]int64 { return [4]int64{w.period, w.amount, w.grid} }
