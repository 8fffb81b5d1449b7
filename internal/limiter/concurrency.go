package limiter

// concurrency admits an amount at once: each hit takes a hold, which a refund of that name
// gives back, or which ends by itself after the period. Which holds there are is in
// Holds, or in the store; how many is in the state, and all that is decided on. Count
// sees to it that a hold is taken once and given back once.
//
// State: At is when the holds were counted, in microseconds since the epoch, or when the
// last of them was taken, which is no later; Used how many there were.
type concurrency struct{ window }

func newConcurrency(s *Spec) (counting, error) { return concurrency{s.window()}, nil }

// roll lets holds of after now last for a period from now.
func (c concurrency) roll(s State, now int64) State {
	if s.unused() || now >= s.At+c.period {
		return State{At: now}
	}
	return State{At: now, Used: s.Used}
}

// wait is a second: nobody knows when a hold is given back.
func (c concurrency) wait(s State, _, cost int64) int64 { return c.waitFor(second, s, cost) }

// usage is whole after a period while anything is held: no hold lasts longer, if none is taken.
func (c concurrency) usage(s State, now int64) (used, whole int64) {
	if s.unused() {
		return 0, 0
	}
	return s.Used, s.At + c.period - now
}
