package limiter

import "slices"

// HoldSize is how many bytes name a hold: a digest of what the request says.
const HoldSize = 16

type holdName [HoldSize]byte

// Holds are the holds of one counter of Concurrency: their names, and when each was
// taken. They are not safe for use by several goroutines. Time is in microseconds since
// the epoch.
//
// Whatever is asked takes the same time, however many there are, but for those that end:
// each of them is looked at once, by the next request.
type Holds struct {
	period int64              // for which a hold lasts
	taken  map[holdName]int64 // when each was
	order  []hold             // from the one taken first on; some have been given back since
}

type hold struct {
	name  holdName
	taken int64
}

// NewHolds returns the holds of a counter of l: none.
func NewHolds(l *Limit) *Holds {
	return &Holds{period: l.Period().Microseconds(), taken: make(map[holdName]int64)}
}

// Len returns how many there were when somebody looked last.
func (h *Holds) Len() int { return len(h.taken) }

// State returns the state of the counter at now, and forgets what has ended. If the
// clock has stepped back, what was taken after now counts as taken now.
func (h *Holds) State(now int64) State {
	h.trim()
	if n := len(h.order); n > 0 && h.order[n-1].taken > now {
		h.back(now)
	}
	for len(h.order) > 0 && (h.isGone(h.order[0]) || h.order[0].taken <= now-h.period) {
		if !h.isGone(h.order[0]) {
			delete(h.taken, h.order[0].name)
		}
		h.order = h.order[1:]
	}
	if len(h.order) > 2*len(h.taken)+few {
		h.order = slices.DeleteFunc(h.order, h.isGone)
	}
	if len(h.order) == 0 {
		return State{}
	}
	return State{At: h.order[len(h.order)-1].taken, Used: int64(len(h.taken))}
}

// trim drops what was given back from the end of the order.
func (h *Holds) trim() {
	for n := len(h.order); n > 0 && h.isGone(h.order[n-1]); n-- {
		h.order = h.order[:n-1]
	}
}

// isGone reports whether o was given back. What was then taken again has a place of its
// own, or one of the same time.
func (h *Holds) isGone(o hold) bool {
	taken, held := h.taken[o.name]
	return !held || taken != o.taken
}

func (h *Holds) back(now int64) {
	for i := range h.order {
		o := &h.order[i]
		if o.taken > now && !h.isGone(*o) {
			h.taken[o.name] = now
		}
		o.taken = min(o.taken, now)
	}
}

func (h *Holds) has(name []byte) bool {
	_, held := h.taken[holdName(name)]
	return held
}

// put takes a hold that is not there, or gives back one that is.
func (h *Holds) put(name []byte, take bool, now int64) {
	if !take {
		delete(h.taken, holdName(name))
		return
	}
	h.taken[holdName(name)] = now
	h.order = append(h.order, hold{holdName(name), now})
}
