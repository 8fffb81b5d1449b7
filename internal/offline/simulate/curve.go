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

// factors are the multiples of a limit that also decide all its requests.
var factors = [...]float64{0.25, 0.5, 2, 4}

// trials are the counters of a client for these multiples.
type trials [len(factors)]limiter.State

// try decides a hit by each multiple of the limit, after demand. If counted, it counts denials.
// amount is the amount that the client needs, and before is its state before demand. Until the smallest multiple denies a client of a
// window, all multiples count alike, so that most clients need no trials.
func (t *table) try(h *hit, amount uint64, before limiter.State, now int64, counted bool) {
	if counted {
		t.hits++
	}
	states := t.trials[h.hash]
	if states == nil {
		if t.multiples == nil || t.limit.Algorithm != limiter.TokenBucket && amount <= t.multiples[0].RequestsPerUnit {
			return
		}
		states = &trials{before, before, before, before} // a token bucket has no state before demand
		t.trials[h.hash] = states
	}
	var out [1]limiter.Decision
	var after [1]limiter.State
	for i, l := range t.multiples {
		hit := h.Hit
		hit.Limit = l
		limiter.Count([]limiter.Hit{hit}, []*limiter.State{&states[i]}, nil, now, out[:], after[:])
		if counted && out[0].Over {
			t.overs[i]++
		}
	}
}

// curve returns the curve of a limit with at least one client, by ascending amounts. The clients
// have these needs.
func (c *limitStats) curve(needs []uint64, suggested []Amount) (points []Point) {
	t, known := c.table, map[uint64]Point{} // the points by amount
	share := func(part, all uint64) *float64 { return new(float64(part) / float64(max(all, 1))) }
	for i, l := range t.multiples {
		known[l.RequestsPerUnit] = Point{Requests: share(t.overs[i], t.hits)}
	}
	known[c.limit.RequestsPerUnit] = Point{Requests: share(c.Denied, c.Requests)}
	for _, a := range suggested {
		known[a.Amount] = Point{Requests: known[a.Amount].Requests, Suggested: &a.Share}
	}
	for a := 1.0; a < float64(needs[len(needs)-1]); a *= 1.25 {
		amount := uint64(math.Ceil(a))
		known[amount] = known[amount] // maybe without shares
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
