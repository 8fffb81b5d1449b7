package limiter

// fixedWindow admits an amount in each window of one period. Windows follow
// each other from the epoch, or start with the first hit after the last one
// ended (firstHit); later hits never extend them.
//
// State: At is the start of the window, Used what was used in it.
type fixedWindow struct {
	period, amount int64
	firstHit       bool
}

func (w fixedWindow) roll(s State, now int64) State {
	switch {
	case w.firstHit && s.Used == 0:
		return State{At: max(now, s.At)}
	case now < s.At+w.period:
		return s
	case w.firstHit:
		return State{At: now}
	default:
		return State{At: now - now%w.period}
	}
}

func (w fixedWindow) fits(s State, _, cost int64) bool { return s.Used+cost <= w.amount }

func (w fixedWindow) take(s State, _, cost int64) State {
	s.Used = min(s.Used+cost, w.most())
	return s
}

func (w fixedWindow) give(s State, _, cost int64) State {
	s.Used = max(s.Used-cost, 0)
	return s
}

func (w fixedWindow) left(s State, now int64) (used, free, whole int64) {
	return s.Used, max(w.amount-s.Used, 0), s.At + w.period - now
}

func (w fixedWindow) wait(s State, now, cost int64) int64 {
	switch {
	case cost > w.amount:
		return never
	case w.fits(s, now, cost):
		return 0
	default:
		return s.At + w.period - now
	}
}

func (w fixedWindow) expiry(s State) int64 {
	if s.Used == 0 {
		return s.At
	}
	return s.At + w.period
}

func (w fixedWindow) most() int64 { return maxExact / 2 }

func (w fixedWindow) numbers() (Kind, [4]int64) {
	kind := KindFixedWindow
	if w.firstHit {
		kind = KindFirstHitWindow
	}
	return kind, [4]int64{w.period, w.amount, w.most()}
}
