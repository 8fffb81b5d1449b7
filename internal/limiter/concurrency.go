package limiter

import "container/list"

// concurrency admits an amount at once: each hit takes a hold, which a refund of that name
// gives back, or which ends by itself after the period. Which holds there are is in
// Holds, or in the store; how many is in the state, and all that is decided on. Count
// sees to it that a hold is taken once and given back once.
//
// State: At is when the holds were counted, in microseconds since the epoch, or when the
// last of them was taken, which is no later; Used how many there were. The states of one call
// have the same At, so window.giveBack gives back what was charged in it.
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

// HoldSize is how many bytes name a hold: a digest of what the request says.
const HoldSize = 16

// Holds are the holds of one counter of Concurrency. They are not safe for use by several
// goroutines. Time is in microseconds since the epoch.
type Holds struct {
	period int64                            // for which a hold lasts
	order  list.List                        // of *hold, from the one taken first on
	byName map[[HoldSize]byte]*list.Element // of order
}

type hold struct {
	name  [HoldSize]byte
	taken int64
}

// NewHolds returns the holds of a counter of l: none.
func NewHolds(l *Limit) *Holds {
	return &Holds{period: l.Period().Microseconds(), byName: make(map[[HoldSize]byte]*list.Element)}
}

// Len returns how many there were when somebody looked last.
func (h *Holds) Len() int { return len(h.byName) }

// State returns the state of the counter at now, and forgets what has ended. If the
// clock has stepped back, what was taken after now counts as taken now.
func (h *Holds) State(now int64) State {
	for e := h.order.Back(); e != nil && e.Value.(*hold).taken > now; e = e.Prev() {
		e.Value.(*hold).taken = now
	}
	for e := h.order.Front(); e != nil && e.Value.(*hold).taken <= now-h.period; e = h.order.Front() {
		h.remove(e)
	}
	last := h.order.Back()
	if last == nil {
		return State{}
	}
	return State{At: last.Value.(*hold).taken, Used: int64(h.Len())}
}

func (h *Holds) has(name []byte) bool { return h.byName[[HoldSize]byte(name)] != nil }

// toggle takes a hold that is not there, or gives back one that is.
func (h *Holds) toggle(name []byte, now int64) {
	key := [HoldSize]byte(name)
	if e := h.byName[key]; e != nil {
		h.remove(e)
	} else {
		h.byName[key] = h.order.PushBack(&hold{key, now})
	}
}

func (h *Holds) remove(e *list.Element) {
	delete(h.byName, e.Value.(*hold).name)
	h.order.Remove(e)
}
