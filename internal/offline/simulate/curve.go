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
	Requests  *float64 `json:"requests_denied_share,omitempty"` // nil unless Amount is the amount of the limit or of a trial
	X         float64  `json:"-"`                               // position on a logarithmic axis, 0 to 1
	Suggested *float64 `json:"-"`                               // share for which the amount is suggested, or nil
}

// trial decides the requests of a limit with a multiple of the limit's amount.
type trial struct {
	limit  *limiter.Limit
	states map[uint64]limiter.State
	denied uint64 // number of denied hits
}

// try decides a hit that demand has counted, and counts a denial if counted is true. amount is the
// amount that the client needs, and before is the client's state before demand. Except for token buckets, the
// trial uses the state of demand until it denies the client, so most clients need no entry in t.states.
func (t *trial) try(h *hit, amount uint64, before limiter.State, now int64, counted bool) {
	state, started := t.states[h.hash]
	if !started {
		if t.limit.Algorithm != limiter.TokenBucket && amount <= t.limit.RequestsPerUnit {
			return
		}
		state = before // before is empty for a token bucket
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

// curve returns the curve of a limit with at least one client, in ascending order of amounts. needs
// are the amounts that the clients need, ascending.
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
