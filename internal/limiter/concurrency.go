package limiter

import "container/list"

// concurrency admits a number of holds at the same time. Each hit takes a hold, which lasts until a
// refund with the same name releases it, or until it expires after the period. The names are in a
// value of type Holds or in the store. The state has only the number of holds, which suffices for a
// decision. Count ensures that each hold is taken only once and released only once.
//
// State: At is the time at which the holds were counted, or the time at which the newest hold was
// taken, in microseconds since the epoch; Used is the number of holds. All states that are rolled
// to the same time have the same At, so window.giveBack never refuses to reverse a charge.
type concurrency struct{ window }

func newConcurrency(s *Spec) (counting, error) { return concurrency{s.window()}, nil }

// roll makes holds that were taken later than now last for a period from now.
func (c concurrency) roll(s State, now int64) State {
	if s.unused() || now >= s.At+c.period {
		return State{At: now}
	}
	return State{At: now, Used: s.Used}
}

// wait returns a second if cost does not fit now: the time of the next release is unknown.
func (c concurrency) wait(s State, _, cost int64) int64 { return c.waitFor(second, s, cost) }

// HoldSize is the length in bytes of a hold's name, a digest of the request's value.
const HoldSize = 16

// Holds has the holds of one Concurrency counter. It implements Uses. Times are in microseconds
// since the epoch.
type Holds struct {
	period int64                            // time until a hold expires
	order  list.List                        // of *hold, oldest first
	byName map[[HoldSize]byte]*list.Element // elements of order
}

type hold struct {
	name  [HoldSize]byte
	taken int64
}

func newHolds(l *Limit) *Holds {
	return &Holds{period: l.Period().Microseconds(), byName: make(map[[HoldSize]byte]*list.Element)}
}

// Len returns the number of holds, including holds that expired since the last call of State.
func (h *Holds) Len() int { return len(h.byName) }

// State implements Uses. It ignores the limit and the needed units.
func (h *Holds) State(_ *Limit, _, now int64) State {
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

// toggle takes the named hold, or releases it if it is taken.
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
