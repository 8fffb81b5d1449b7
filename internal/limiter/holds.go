package limiter

import "container/list"

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
