package simulate

import (
	"maps"
	"math"
	"slices"

	"weir/internal/limiter"
)

// Point is a point of a limit's curve: the shares of clients and requests that the limit would deny
// with another amount, if there were no other limits.
type Point struct {
	Amount    uint64   `json:"amount"`
	Clients   float64  `json:"clients_denied_share"`            // at least once
	Requests  *float64 `json:"requests_denied_share,omitempty"` // only at the limit and some multiples of it
	X         float64  `json:"-"`                               // position on a logarithmic axis, 0 to 1
	Suggested *float64 `json:"-"`                               // the share for which the amount is suggested
}

// trial decides the requests of a limit with a multiple of its amount.
type trial struct {
	limit  *limiter.Limit
	states map[uint64]limiter.State
	denied uint64 // hits
}

// try decides a hit after demand, and counts a denial if counted. amount is the amount that the
// client needs, and before is its state before demand. Until the trial denies a client of a window,
// its state is the state of demand, so that most clients need no state of their own.
func (t *trial) try(h *hit, amount uint64, before limiter.State, now int64, counted bool) {
	state, started := t.states[h.hash]
	if !started {
		if t.limit.Algorithm != limiter.TokenBucket && amount <= t.limit.RequestsPerUnit {
			return
		}
		state = before // empty for a token bucket
	}
	hit := h.Hit
	hit.Limit = t.limit
	var out [1]limiter.Decision
	limiter.Count([]limiter.Hit{hit}, []*limiter.State{&state}, nil, now, out[:], make([]limiter.State, 1))
	t.states[h.hash] = state
	if counted && out[0].Over {
		t.denied++
	}
}

// curve returns the curve of a limit with at least one client, by ascending amounts. The clients
// have these needs.
func (c *limitStats) curve(needs []uint64, suggested []Amount) (points []Point) {
	t, known := c.table, map[uint64]Point{} // the points by amount
	share := func(part, all uint64) *float64 { return new(float64(part) / float64(max(all, 1))) }
	for a := 1.0; a < float64(needs[len(needs)-1]); a *= 1.25 {
		known[uint64(math.Ceil(a))] = Point{}
	}
	for _, trial := range t.trials {
		known[trial.limit.RequestsPerUnit] = Point{Requests: share(trial.denied, t.hits)}
	}
	known[c.limit.RequestsPerUnit] = Point{Requests: share(c.Denied, c.Requests)}
	for _, a := range suggested {
		known[a.Amount] = Point{Requests: known[a.Amount].Requests, Suggested: &a.Share}
	}
	amounts := slices.Sorted(maps.Keys(known))
	position := func(amount uint64) float64 { return math.Log(float64(max(amount, 1))) }
	first, last := position(amounts[0]), position(amounts[len(amounts)-1])
	for _, a := range amounts {
		enough, _ := slices.BinarySearch(needs, a+1)
		p := known[a]
		p.Amount, p.Clients = a, *share(uint64(len(needs)-enough), uint64(len(needs)))
		p.X = (position(a) - first) / max(last-first, 1e-9)
		points = append(points, p)
	}
	return points
}
