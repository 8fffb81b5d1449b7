package simulate

import (
	"math"
	"slices"

	"weir/internal/limiter"
)

// demand finds for each client of a limit the smallest amount that would never have denied
// it: its peak. Each client is followed as if it was never denied, so that its peak does not depend
// on the amount of the rules, nor on other limits.
//
// Windows and what is in flight are counted by the server's own code, with every request
// charged: the peak is the most that was used at a time. What drains of a token bucket
// depends on the amount; see hull.
type demand struct {
	limit *limiter.Limit
	ratio float64 // of the burst of a bucket to its amount, which all amounts keep
	hits  [1]limiter.Hit
	ptrs  [1]*limiter.State
	out   [1]limiter.Decision
	after [1]limiter.State
}

func newDemand(l *limiter.Limit) *demand {
	d := &demand{limit: l, ratio: 1}
	if l.RequestsPerUnit > 0 {
		d.ratio = float64(l.Size()) / float64(l.RequestsPerUnit)
	}
	return d
}

// add takes one more hit of a client.
func (d *demand) add(c *client, h *limiter.Hit, now int64) {
	if d.limit.Algorithm == limiter.TokenBucket {
		if h.Refund {
			return
		}
		if c.hull == nil {
			c.hull = new(hull)
		}
		amount := c.hull.add(float64(h.CountedCost()), now, float64(c.amount), d.ratio, float64(d.limit.Period().Microseconds()))
		c.amount = max(c.amount, uint64(math.Ceil(amount*(1-1e-12)))) // amounts are whole numbers
		return
	}
	d.hits[0] = limiter.Hit{Limit: d.limit, Cost: h.Cost, Refund: h.Refund, Always: true, Mode: limiter.Shadow}
	d.ptrs[0] = &c.alone
	limiter.Count(d.hits[:], d.ptrs[:], nil, now, d.out[:], d.after[:])
	if h.Refund {
		return
	}
	used := c.alone.Used
	if d.limit.Algorithm == limiter.SlidingWindow {
		limiter.Describe(d.hits[:], d.after[:], now, d.out[:])
		used = d.out[0].Used
	}
	if h.Cost == 0 && !h.Always { // a peek, which asks for one more
		used++
	}
	c.amount = max(c.amount, uint64(used))
}

// hull finds the smallest amount of a token bucket that would never have denied a client.
// A bucket of amount A per period and burst r·A admits all if no span of hits, from one at
// t1 to one at t2, costs more than A·(r + (t2-t1)/period). So the amount is the largest of cost/(r +
// (t2-t1)/period) over all spans that end now: the steepest line to a point now from one of
// those (t1, what was asked for before t1). Only points of their lower convex hull can be it, and of these
// only those from which on it is steeper than the amount that is needed anyway: all others are dropped.
// It is exact as long as it needs no more than maxPoints, which takes a client that asks faster and
// faster so often; the oldest is dropped then.
type hull struct {
	sum    float64 // asked for since points[0]
	points []point
}

const maxPoints = 64

type point struct {
	at     int64   // in microseconds since the epoch
	before float64 // asked for before, since points[0]
}

// add takes a hit, and returns the amount that it needs.
func (h *hull) add(cost float64, now int64, amount, ratio, period float64) float64 {
	slope := func(a, b point) float64 { return (b.before - a.before) / (float64(b.at-a.at) / period) }
	last := point{now, h.sum}
	if n := len(h.points); n == 0 || h.points[n-1].at != now {
		for n >= 2 && slope(h.points[n-2], h.points[n-1]) >= slope(h.points[n-1], last) {
			n--
		}
		if h.points = h.points[:n]; n == maxPoints {
			h.drop()
		}
		h.points = append(h.points, last)
	}
	peek := cost == 0
	if peek {
		cost = 1
	}
	for _, p := range h.points {
		amount = max(amount, (h.sum+cost-p.before)/(ratio+float64(now-p.at)/period))
	}
	if !peek {
		h.sum += cost
	}
	for len(h.points) >= 2 && slope(h.points[0], h.points[1]) <= amount {
		h.drop()
	}
	return amount
}

// drop drops the oldest point.
func (h *hull) drop() {
	start := h.points[1].before
	h.points = slices.Delete(h.points, 0, 1)
	for i := range h.points {
		h.points[i].before -= start
	}
	h.sum -= start
}
