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
	hulls pool[hull] // of clients whose bucket has no room in a word
	ratio float64    // of the burst of a bucket to its amount, which all amounts keep
	hits  [1]limiter.Hit
	ptrs  [1]*limiter.State
	out   [1]limiter.Decision
	after [1]limiter.State
}

// peak is the peak of a client as the bits of a float32, and where it is now.
type peak struct {
	state word
	value [2]uint16
}

func newDemand(l *limiter.Limit) *demand {
	d := &demand{limit: l, ratio: 1}
	if l.RequestsPerUnit > 0 {
		d.ratio = float64(l.Size()) / float64(l.RequestsPerUnit)
	}
	return d
}

func (p *peak) float() float32 {
	return math.Float32frombits(uint32(p.value[0]) | uint32(p.value[1])<<16)
}

// raise makes the peak no less than an amount. What has no room in a float32 is rounded up.
func (p *peak) raise(amount float64) {
	f := float32(amount)
	if float64(f) < amount {
		f = math.Nextafter32(f, math.MaxFloat32)
	}
	if f > p.float() {
		b := math.Float32bits(f)
		p.value = [2]uint16{uint16(b), uint16(b >> 16)}
	}
}

// add takes one more hit of a client.
func (d *demand) add(t *table, at place, h *limiter.Hit, now int64) {
	p := &t.parts[at.part].peaks[at.cell]
	if d.limit.Algorithm == limiter.TokenBucket {
		d.addToBucket(t, p, h, now)
		return
	}
	s := t.state(p.state)
	d.hits[0] = limiter.Hit{Limit: d.limit, Cost: h.Cost, Refund: h.Refund, Always: true, Mode: limiter.Shadow}
	d.ptrs[0] = &s
	limiter.Count(d.hits[:], d.ptrs[:], nil, now, d.out[:], d.after[:])
	if !h.Refund {
		used := s.Used
		if d.limit.Algorithm == limiter.SlidingWindow {
			limiter.Describe(d.hits[:], d.after[:], now, d.out[:])
			used = d.out[0].Used
		}
		if h.Cost == 0 && !h.Always { // a peek, which asks for one more
			used++
		}
		p.raise(float64(used))
	}
	t.put(&p.state, s, now)
}

// addToBucket is add for a token bucket.
func (d *demand) addToBucket(t *table, p *peak, h *limiter.Hit, now int64) {
	if h.Refund {
		return
	}
	b := d.hull(t, p.state)
	rate := b.add(float64(h.CountedCost()), now, float64(p.float()), d.ratio, float64(d.limit.Period().Microseconds()))
	p.raise(math.Ceil(rate * (1 - 1e-12))) // amounts are whole numbers
	d.putHull(t, p, b, now)
}

func (d *demand) hull(t *table, w word) hull {
	b := w.bits()
	code := b & (isBig - 1)
	if b&isBig != 0 {
		return *d.hulls.at(code)
	}
	var h hull
	if code != 0 {
		s := t.codec.decode(code)
		h.points, h.sum = append(h.points, point{at: s.At}), float64(s.Used)
	}
	return h
}

func (d *demand) putHull(t *table, p *peak, h hull, now int64) {
	var s limiter.State
	small := len(h.points) == 1 && h.sum < 1<<40 // costs are whole
	if small {
		s = limiter.State{At: h.points[0].at, Used: int64(h.sum)}
		if t.codec.outgrown(s) {
			t.sweep(now, s)
		}
	}
	b := p.state.bits()
	code, fits := t.codec.encode(s)
	switch small = small && fits; {
	case small && b&isBig != 0:
		d.hulls.free(b & (isBig - 1))
	case !small && b&isBig != 0:
		*d.hulls.at(b & (isBig - 1)) = h
		return
	case !small:
		code = d.hulls.add(h) | isBig
	}
	p.state = wordOf(code)
}

// rebase writes the state of a peak anew, see table.rebase.
func (d *demand) rebase(t *table, p *peak, from *codec, now int64) {
	if d.limit.Algorithm != limiter.TokenBucket {
		t.rebase(&p.state, from, now)
		return
	}
	b := p.state.bits()
	if b&isBig != 0 || b == 0 {
		return
	}
	s := from.decode(b)
	p.state = word{}
	if float64(now-s.At)/float64(d.limit.Period().Microseconds())*float64(p.float()) < float64(s.Used) {
		d.putHull(t, p, hull{points: []point{{at: s.At}}, sum: float64(s.Used)}, now)
	}
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

// amounts returns for each share of clients the smallest amount at which no more than that
// share would have been denied, exactly but for a rounding up by less than one in ten million.
func (t *table) amounts(shares []float64) []uint64 {
	const buckets = 1 << 16
	counts := make([]uint64, buckets)
	t.eachPeak(func(v [2]uint16) { counts[v[1]]++ })
	var amounts []uint64
	for _, share := range shares {
		left := uint64(share * float64(t.n)) // clients that may be denied
		high := buckets - 1
		for high > 0 && counts[high] <= left {
			left -= counts[high]
			high--
		}
		low := make([]uint64, buckets)
		t.eachPeak(func(v [2]uint16) {
			if int(v[1]) == high {
				low[v[0]]++
			}
		})
		i := buckets - 1
		for i > 0 && low[i] <= left {
			left -= low[i]
			i--
		}
		p := peak{value: [2]uint16{uint16(i), uint16(high)}}
		amounts = append(amounts, uint64(p.float()))
	}
	return amounts
}

func (t *table) eachPeak(do func(value [2]uint16)) {
	for i := range t.parts {
		p := &t.parts[i]
		for j := range p.cells {
			if p.cells[j].fingerprint() != 0 {
				do(p.peaks[j].value)
			}
		}
	}
}
