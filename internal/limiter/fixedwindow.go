package limiter

// fixedWindow admits an amount in each window of one period. Windows follow
// each other from the epoch or on a calendar, or start with the first hit after the
// last one ended; later hits never extend them. What leaves a window unused, a peek or a
// refund of everything, starts none.
//
// State: At is the start of the window, counted in grids since the epoch, Used
// what was used in it. On a calendar a start that lies within a window is of that window:
// programs whose data of a time zone are not of the same age may not agree when it starts.
type fixedWindow struct {
	window             // on a calendar its period is about that of a window
	grid     int64     // where windows can start: at multiples of the period, or at any microsecond or second
	calendar *Calendar // nil: there is none
}

// window is what fixed and sliding windows have in common.
type window struct{ period, amount int64 }

// most is the largest Used, and the largest Prev. The sum of two is exact.
const most = MaxExact / 2

func (s *Spec) window() window { return window{s.Period().Microseconds(), int64(s.RequestsPerUnit)} }

func (w window) add(s State, cost int64) State {
	s.Used = min(max(s.Used+cost, 0), most)
	return s
}

// giveBack gives back nothing once another window has begun.
func (w window) giveBack(s, charged, _ State, cost int64) State {
	if s.At != charged.At {
		return s
	}
	return w.add(s, -min(cost, charged.Used))
}

// waitFor is wait, later if cost does not fit now.
func (w window) waitFor(later int64, s State, cost int64) int64 {
	switch {
	case cost > w.amount:
		return never
	case s.Used+cost <= w.amount:
		return 0
	default:
		return later
	}
}

func (w window) numbers() (int64, [4]int64) { return most, [4]int64{w.period, w.amount} }

func newFixedWindow(s *Spec) (counting, error) {
	return fixedWindow{s.window(), s.Period().Microseconds(), nil}, nil
}

func newFirstHit(s *Spec) (counting, error) { return fixedWindow{s.window(), 1, nil}, nil }

func newCalendarWindow(s *Spec) (counting, error) {
	calendar, err := newCalendar(s)
	if err != nil {
		return nil, err
	}
	if s.Period().Microseconds() <= 60*second { // the clocks of all zones show the same seconds, and full minutes at the same time
		return newFixedWindow(s)
	}
	return fixedWindow{s.window(), second, calendar}, nil
}

func (w fixedWindow) end(s State) int64 {
	if w.calendar != nil {
		return w.calendar.Windows(s.At * w.grid).Next
	}
	return s.At*w.grid + w.period
}

func (w fixedWindow) roll(s State, now int64) State {
	at, current := s.At*w.grid, now // where windows start
	isOver := now >= at+w.period
	if w.calendar != nil {
		current = w.calendar.Windows(now).Start
		isOver = at < current
	}
	switch {
	case s.unused() || isOver:
		return State{At: current / w.grid}
	case now < at:
		return State{At: current / w.grid, Used: s.Used} // in the current window, or one that starts now
	default:
		return s
	}
}

func (w fixedWindow) wait(s State, now, cost int64) int64 { return w.waitFor(w.end(s)-now, s, cost) }

func (w fixedWindow) usage(s State, now int64) (used, whole int64) {
	return s.Used, w.end(s) - now
}

// numbers has only the amount of a window on a calendar: when those start and end depends on
// the time, see Limit.Calendar.
func (w fixedWindow) numbers() (int64, [4]int64) {
	if w.calendar != nil {
		return most, [4]int64{w.amount}
	}
	return most, [4]int64{w.period, w.amount, w.grid}
}
