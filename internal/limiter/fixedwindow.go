package limiter

// fixedWindow admits an amount in each window of one period. Windows follow each other from the
// epoch or on a calendar, or start with the first hit after the last window ended; later hits never
// extend a window. A hit that leaves a window unused, such as a peek or a full refund, does not
// start a window.
//
// State: At is the start of the window, in units of grid since the epoch; Used is the use of the
// window. On a calendar, any time within a window stands for that window, because programs with
// different versions of the time zone data may disagree about its start.
type fixedWindow struct {
	window             // on a calendar, the period is only approximate
	grid     int64     // windows start at multiples of grid, which is the period, a microsecond or a second
	calendar *Calendar // nil without a calendar
}

// window is the common part of the algorithms that count the units used in a period.
type window struct{ period, amount int64 }

// maxUsed is the largest Used and the largest Prev, so that the sum of both is exact.
const maxUsed = MaxExact / 2

func (s *Spec) window() window { return window{s.Period().Microseconds(), int64(s.RequestsPerUnit)} }

func (w window) add(s State, cost int64) State {
	s.Used = min(max(s.Used+cost, 0), maxUsed)
	return s
}

// giveBack changes nothing if another window has begun since the charge.
func (w window) giveBack(s, remains, _ State, cost int64) State {
	if s.At != remains.At {
		return s
	}
	return w.add(s, -min(cost, remains.Used))
}

// waitFor implements counting.wait. It returns parameter later if cost fits the limit but not now.
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

// usage is counting.usage for an algorithm whose units each last for a period. The newest unit was
// used at At or earlier.
func (w window) usage(s State, now int64) (used, reset int64) {
	if s.unused() {
		return 0, 0
	}
	return s.Used, s.At + w.period - now
}

func (w window) numbers() (int64, [4]int64) { return maxUsed, [4]int64{w.period, w.amount} }

func newFixedWindow(s *Spec) (counting, error) {
	return fixedWindow{s.window(), s.Period().Microseconds(), nil}, nil
}

func newFirstHit(s *Spec) (counting, error) { return fixedWindow{s.window(), 1, nil}, nil }

func newCalendarWindow(s *Spec) (counting, error) {
	calendar, err := newCalendar(s)
	if err != nil {
		return nil, err
	}
	if s.Period().Microseconds() <= 60*second { // seconds and minutes begin at the same time in all zones
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
	at, current := s.At*w.grid, now // starts of windows
	isOver := now >= at+w.period
	if w.calendar != nil {
		current = w.calendar.Windows(now).Start
		isOver = at < current
	}
	switch {
	case s.unused() || isOver:
		return State{At: current / w.grid}
	case now < at:
		return State{At: current / w.grid, Used: s.Used} // the clock stepped back: use moves to the window of now
	default:
		return s
	}
}

func (w fixedWindow) wait(s State, now, cost int64) int64 { return w.waitFor(w.end(s)-now, s, cost) }

func (w fixedWindow) usage(s State, now int64) (used, reset int64) {
	return s.Used, w.end(s) - now
}

// numbers returns only one constant for a calendar, the amount. For the windows, see
// Limit.Calendar.
func (w fixedWindow) numbers() (int64, [4]int64) {
	if w.calendar != nil {
		return maxUsed, [4]int64{w.amount}
	}
	return maxUsed, [4]int64{w.period, w.amount, w.grid}
}
