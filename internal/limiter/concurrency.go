package limiter

// concurrency admits an amount at once: each hit takes a hold, which a refund of that name
// gives back, or which ends by itself after the period. Which holds there are is in
// Holds, or in the store; how many is in the state, and all that is decided on. Count
// sees to it that a hold is taken once and given back once.
//
// State: At is when the holds were counted, in microseconds since the epoch, or when the
// last of them was taken, which is no later; Used how many there were.
type concurrency struct{ window }

func newConcurrency(s *Spec) (counting, error) {
	return concurrency{window{s.Period().Microseconds(), int64(s.RequestsPerUnit)}}, nil
}

func (c concurrency) roll(s State, now int64) State {
	if s.unused() || now >= s.At+c.period {
		return State{At: now}
	}
	return State{At: now, Used: s.Used}
}

// back lets holds last for a period from now.
func (c concurrency) back(s State, now int64) State {
	return State{At: min(s.At, now), Used: s.Used}
}

func (c concurrency) fits(s State, _, cost int64) bool { return s.Used+cost <= c.amount }

// giveBack gives back what has not ended.
func (c concurrency) giveBack(s, charged, _ State, cost int64) (State, bool) {
	return c.give(s, cost), !charged.unused()
}

// left is a period while anything is held: no hold lasts longer, if none is taken.
func (c concurrency) left(s State, _ int64) (used, whole int64) {
	if s.unused() {
		return 0, 0
	}
	return s.Used, c.period
}

// wait is a second: nobody knows when a hold is given back.
func (c concurrency) wait(State, int64, int64) int64 { return second }

// returnAfter lets all come at that time: what is free then is not known.
func (c concurrency) returnAfter(_, _, _ int64) (int64, int64) { return 0, 0 }

func (c concurrency) expiry(s State) int64 {
	if s.unused() {
		return 0
	}
	return s.At + c.period
}

func (c concurrency) ample() int64 { return c.amount }

func (c concurrency) constants() [4]int64 { return [4]int64{c.period, c.amount} }
