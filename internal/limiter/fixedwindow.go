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

// most is the largest Used, and the largest Prev. The sum of two is exact.
const most = MaxExact / 2

func (w window) add(s State, cost int64) State {
	s.Used = min(max(s.Used+cost, 0), most)
	return s
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
	period := s.Period().Microseconds()
	return fixedWindow{window{period, int64(s.RequestsPerUnit)}, period}, nil
}

func newFirstHit(s *Spec) (counting, error) {
	return fixedWindow{window{s.Period().Microseconds(), int64(s.RequestsPerUnit)}, 1}, nil
}

func (w fixedWindow) end(s State) int64 { return s.At*w.grid + w.period }

func (w fixedWindow) roll(s State, now int64) State {
	switch start := s.At * w.grid; {
	case s.unused() || now >= start+w.period:
		return State{At: now / w.grid}
	case now < start:
		return State{At: now / w.grid, Used: s.Used} // in the current window, or one that starts now
	default:
		return s
	}
}

func (w fixedWindow) wait(s State, now, cost int64) int64 { return w.waitFor(w.end(s)-now, s, cost) }

// giveBack gives back nothing once another window has begun.
func (w fixedWindow) giveBack(s, charged, _ State, cost int64) State {
	if s.At != charged.At {
		return s
	}
	return w.add(s, -min(cost, charged.Used))
}

func (w fixedWindow) left(s State, now int64) (used, whole int64) {
	return s.Used, w.end(s) - now
}

func (w fixedWindow) numbers() (int64, [4]int64) { return most, [4]int64{w.period, w.amount, w.grid} }
