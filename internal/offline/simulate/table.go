package simulate

import (
	"cmp"
	"math"
	"slices"

	"weir/internal/limiter"
)

// table maps hashes of keys to the counters of one limit. There may be many millions, so properties that only
// some clients have are in separate maps. Only hulls and logs have pointers, which the garbage collector must follow.
type table struct {
	limit   *limiter.Limit
	suggest bool // whether amounts are suggested
	states  map[uint64]limiter.State
	denied  map[uint64]struct{} // clients that were denied at least once
	peaks   map[uint64]peak     // empty unless amounts are suggested
	hulls   map[uint64]*hull    // empty unless amounts are suggested for a token bucket
	logs    map[uint64]*logs    // empty unless the limit uses a sliding log
	largest *limiter.Limit      // limit with the amount MaxLogged, whose log keeps the most units; nil unless the limit uses a sliding log
	trials  []*trial            // for suggestions; nil for requests in flight and sliding logs
	hits    uint64              // number of hits that each trial counts
}

// peak is the state of a client for demand, which counts all requests of the client as admitted.
type peak struct {
	alone  limiter.State // not used for token buckets
	amount uint64        // smallest amount that never denies the client
}

// logs are the logs of a client of a sliding log: real belongs to client.state, and alone to peak.alone.
type logs struct{ real, alone limiter.Log }

// client is the state of a client. Only table.denied says whether the client was denied.
type client struct {
	state limiter.State
	peak
	hull *hull // nil unless the limit is a token bucket
	logs *logs // nil unless the limit uses a sliding log
}

func newTable(l *limiter.Limit, suggest bool) *table {
	t := &table{
		limit: l, suggest: suggest, states: map[uint64]limiter.State{}, denied: map[uint64]struct{}{},
		peaks: map[uint64]peak{}, hulls: map[uint64]*hull{}, logs: map[uint64]*logs{},
	}
	if l.Algorithm == limiter.SlidingLog {
		s := l.Spec
		s.RequestsPerUnit = limiter.MaxLogged
		t.largest = limiter.MustLimit(s)
	}
	for _, factor := range []float64{0.25, 0.5, 2, 4} {
		if suggest && l.Algorithm != limiter.Concurrency && l.Algorithm != limiter.SlidingLog {
			t.trials = append(t.trials, &trial{limit: l.Times(factor), states: map[uint64]limiter.State{}})
		}
	}
	return t
}

func (t *table) get(hash uint64) client {
	c := client{t.states[hash], t.peaks[hash], t.hulls[hash], t.logs[hash]}
	if t.limit.Algorithm == limiter.SlidingLog && c.logs == nil {
		c.logs = new(logs)
	}
	return c
}

func (t *table) put(hash uint64, c *client) {
	t.states[hash] = c.state
	if t.suggest {
		t.peaks[hash] = c.peak
	}
	if c.hull != nil {
		t.hulls[hash] = c.hull
	}
	if c.logs != nil {
		t.logs[hash] = c.logs
	}
}

// burstRatio returns the burst of a bucket divided by its amount. Suggested amounts keep this ratio.
func burstRatio(l *limiter.Limit) float64 {
	if l.RequestsPerUnit == 0 {
		return 1
	}
	return float64(l.Size()) / float64(l.RequestsPerUnit)
}

// demand counts a hit of a client and, if needed, raises c.amount, the smallest amount that would
// never have denied the client. It counts all requests of a client as admitted, so that the
// amount does not depend on the amount in the rules, or on other limits.
//
// For windows, logs and requests in flight, limiter.Count counts the hit, with every request charged, and
// the amount is the maximum use. This is not possible for token buckets, whose refill depends on
// their amount; see hull.
func (t *table) demand(c *client, h *limiter.Hit, now int64) {
	if t.limit.Algorithm == limiter.TokenBucket {
		if h.Refund {
			return
		}
		if c.hull == nil {
			c.hull = new(hull)
		}
		amount := c.hull.add(float64(h.CountedCost()), now, float64(c.amount), burstRatio(t.limit), float64(t.limit.Period().Microseconds()))
		c.amount = max(c.amount, uint64(math.Ceil(amount*(1-1e-12)))) // amounts are whole numbers
		return
	}
	hits := []limiter.Hit{{Limit: t.limit, Cost: h.Cost, Refund: h.Refund, Always: true, Mode: limiter.Shadow}}
	var kept []limiter.Kept
	if c.logs != nil {
		hits[0].Limit, kept = t.largest, []limiter.Kept{{Uses: &c.logs.alone}}
	}
	out, after := make([]limiter.Decision, 1), make([]limiter.State, 1)
	limiter.Count(hits, []*limiter.State{&c.alone}, kept, now, out, after)
	if h.Refund {
		return
	}
	used := c.alone.Used
	if t.limit.Algorithm == limiter.SlidingWindow {
		limiter.Describe(hits, after, now, out)
		used = out[0].Used
	}
	if h.Cost == 0 && !h.Always { // a peek asks whether one more unit would fit
		used++
	}
	c.amount = max(c.amount, uint64(used))
}

// needs returns the amounts that the clients need, ascending.
func (t *table) needs() []uint64 {
	needs := make([]uint64, 0, len(t.peaks))
	for _, p := range t.peaks {
		needs = append(needs, p.amount)
	}
	slices.Sort(needs)
	return needs
}

// suggest returns the smallest amount that would have denied at most the given share of the clients.
// The share is from 0 to 1. needs has the amount that each client needs, in ascending order.
func suggest(needs []uint64, share float64) uint64 {
	return needs[len(needs)-1-int(share*float64(len(needs)))]
}

// hull finds the smallest amount of a token bucket that would never have denied a client.
// A bucket with amount A per period and burst r·A admits all hits if no span of hits, from time
// t1 to time t2, costs more than A·(r + (t2-t1)/period). So the smallest amount is the maximum of
// cost/(r + (t2-t1)/period) over all spans. For the spans that end now, it is the slope of the steepest
// line from a point (t1, cost before t1) to the total cost now. Only points of the lower convex hull can
// be the start of this line, and of these only points after which the hull is steeper than the amount so far.
// All other points are dropped. The result is exact while maxPoints points are enough. A client
// that speeds up more often than maxPoints times needs more, and loses its oldest point.
type hull struct {
	sum    float64 // cost of all hits
	points []point
}

const maxPoints = 64

type point struct {
	at     int64   // microseconds since the epoch
	before float64 // cost of all earlier hits
}

// add counts a hit, and returns the new smallest amount. amount is the smallest amount so far. For ratio, see burstRatio.
func (h *hull) add(cost float64, now int64, amount, ratio, period float64) float64 {
	slope := func(a, b point) float64 { return (b.before - a.before) / (float64(b.at-a.at) / period) }
	last := point{now, h.sum}
	if n := len(h.points); n == 0 || h.points[n-1].at != now {
		for n >= 2 && slope(h.points[n-2], h.points[n-1]) >= slope(h.points[n-1], last) {
			n--
		}
		if h.points = append(h.points[:n], last); n == maxPoints {
			h.points = slices.Delete(h.points, 0, 1)
		}
	}
	asks := cmp.Or(cost, 1) // a peek asks for one unit
	for _, p := range h.points {
		amount = max(amount, (h.sum+asks-p.before)/(ratio+float64(now-p.at)/period))
	}
	h.sum += cost
	for len(h.points) >= 2 && slope(h.points[0], h.points[1]) <= amount {
		h.points = slices.Delete(h.points, 0, 1)
	}
	return amount
}
