package simulate

import (
	"container/heap"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/plan"
)

// limitStats are the clients of one limit, and what became of the requests that ask for it.
type limitStats struct {
	rule    *descriptors.Rule
	limit   *limiter.Limit
	table   *table // nil until there is a hit
	asked   tally  // requests, however many hits they have
	denied  tally
	clients uint64 // that were denied at least once
	series  series
	worst   worst
}

// tally counts requests.
type tally struct {
	n    uint64
	last uint64 // the one that was counted last, by its number
}

// add counts a request, and reports whether it was not counted before. Their numbers grow, from 1.
func (t *tally) add(request uint64) bool {
	if t.last == request {
		return false
	}
	t.last = request
	t.n++
	return true
}

// engine decides requests on a clock of their own, by one set of rules.
type engine struct {
	limits   []*limitStats
	plan     plan.Options
	suggest  bool
	compare  bool   // tables have marks
	number   uint64 // of the request that is being decided
	requests uint64 // that ask for limits
	denied   uint64
	now      int64
	late     lateHeap
	order    uint64

	// Of the call that is being decided.
	hits      []limiter.Hit
	clients   []client
	pointers  []*limiter.State // of those clients, one for each hit
	decisions []limiter.Decision
	after     []limiter.State
	places    []place
	owners    []int // for each hit, the first hit on the same counter, which has its client
	// The hit that denied the last request, nil if it was admitted.
	deniedHit *hit
	deniedBy  *limitStats
	deniedAt  place
}

// known returns of how many clients something is known.
func (e *engine) known() (clients int) {
	for _, c := range e.limits {
		if c.table != nil {
			clients += c.table.n
		}
	}
	return clients
}

// later is a hit that comes when a request ends, or the end of what it has in flight.
type later struct {
	at    int64
	order uint64
	hit   hit
	real  bool // what it gives back was taken; else the hit was denied, and only demand has taken it
}

type lateHeap []later

func (l lateHeap) Len() int { return len(l) }
func (l lateHeap) Less(i, j int) bool {
	return l[i].at < l[j].at || l[i].at == l[j].at && l[i].order < l[j].order
}
func (l lateHeap) Swap(i, j int) { l[i], l[j] = l[j], l[i] }

// Push implements heap.Interface.
func (l *lateHeap) Push(x any) { *l = append(*l, x.(later)) }

// Pop implements heap.Interface.
func (l *lateHeap) Pop() any {
	old := *l
	last := old[len(old)-1]
	*l = old[:len(old)-1]
	return last
}

// decide decides a request that begins at a time, and returns whether it is denied. ends are its hits
// that come when it ends, after a duration in milliseconds.
func (e *engine) decide(b *batch, begins, ends []hit, now int64, duration int32) (denied bool) {
	e.advance(now)
	e.number++
	e.deniedHit, e.deniedBy = nil, nil
	if len(begins) > 0 {
		e.requests++
	}
	for len(begins) > 0 && !denied {
		n := 1
		for n < len(begins) && begins[n].flags&newCall == 0 {
			n++
		}
		denied = e.call(b, begins[:n], true)
		e.hold(begins[:n], ends, duration)
		begins = begins[n:]
	}
	if denied {
		e.denied++
	}
	for i := range ends {
		if e.limits[ends[i].limit].limit.Algorithm != limiter.Concurrency {
			e.push(now+int64(duration)*1000, ends[i], true)
		}
	}
	return denied
}

// hold sees to it that what was just taken in flight ends with the request, if it has a hit that
// gives it back, and after the period of the limit at the latest.
func (e *engine) hold(begins, ends []hit, duration int32) {
	for i := range begins {
		c := e.limits[begins[i].limit]
		if c.limit.Algorithm != limiter.Concurrency || begins[i].flags&refund != 0 {
			continue
		}
		lasts := c.limit.Period().Microseconds()
		for j := range ends {
			if ends[j].flags&refund != 0 && ends[j].limit == begins[i].limit && ends[j].hash == begins[i].hash {
				lasts = min(lasts, int64(duration)*1000)
			}
		}
		if real := e.decisions[i].Charged; real || e.suggest {
			end := begins[i]
			end.flags = refund | newCall
			e.push(e.now+lasts, end, real)
		}
	}
}

func (e *engine) push(at int64, h hit, real bool) {
	e.order++
	heap.Push(&e.late, later{at, e.order, h, real})
}

// advance lets the clock go on, and decides what comes until then.
func (e *engine) advance(now int64) {
	for len(e.late) > 0 && e.late[0].at <= now {
		l := heap.Pop(&e.late).(later)
		e.now = max(e.now, l.at)
		h := []hit{l.hit}
		if l.real {
			e.call(nil, h, false)
		} else if c := e.limits[l.hit.limit]; c.table != nil {
			e.followDemand(c, h)
		}
	}
	e.now = max(e.now, now)
}

func (e *engine) followDemand(c *limitStats, hits []hit) {
	at := c.table.find(fingerprint(hits[0].hash))
	known := c.table.get(at)
	c.table.demand.add(&known.undenied, &limiter.Hit{Limit: c.limit, Cost: hits[0].cost, Refund: true}, e.now)
	c.table.put(at, &known, e.now)
}

// call decides the hits of one request to the server, as the server does. b is nil for hits of a request that
// has ended, which count but are in no statistics.
func (e *engine) call(b *batch, hits []hit, begins bool) (denied bool) {
	e.prepare(hits)
	denied = limiter.Count(e.hits, e.pointers, nil, e.now, e.decisions, e.after)
	wouldBe := denied || e.plan.ShadowMode && e.wouldBeDenied()
	for i := range hits {
		h, c := &hits[i], e.limits[hits[i].limit]
		at, known := c.table.again(e.places[i], fingerprint(h.hash)), &e.clients[e.owners[i]]
		if c.table.demand != nil {
			c.table.demand.add(&known.undenied, &e.hits[i], e.now)
		}
		c.table.put(at, known, e.now)
		if begins && h.flags&refund == 0 {
			over := e.decisions[i].Over
			denies := denied && over && e.hits[i].EffectiveMode() != limiter.Shadow
			e.count(b, h, c, at, over && (wouldBe || c.limit.Mode == limiter.Shadow), denies)
		}
	}
	return denied
}

// wouldBeDenied reports whether the call is admitted only because of SHADOW_MODE.
func (e *engine) wouldBeDenied() bool {
	var v limiter.Verdict
	for i := range e.hits {
		v.Add(e.plan.Mode(e.hits[i].Limit), e.decisions[i].Over)
	}
	return v.Denied()
}

// prepare fills in the hits of a call, with the states of their counters.
func (e *engine) prepare(hits []hit) {
	n := len(hits)
	if len(e.clients) < n {
		e.hits, e.clients, e.pointers = make([]limiter.Hit, n), make([]client, n), make([]*limiter.State, n)
		e.decisions, e.after, e.places, e.owners = make([]limiter.Decision, n), make([]limiter.State, n), make([]place, n), make([]int, n)
	}
	e.hits, e.pointers, e.decisions, e.after = e.hits[:n], e.pointers[:n], e.decisions[:n], e.after[:n]
	for i := range hits {
		h := &hits[i]
		c := e.limits[h.limit]
		if c.table == nil {
			c.table = newTable(c.limit, e.suggest, e.compare)
		}
		e.hits[i] = limiter.Hit{Limit: c.limit, Cost: h.cost, Refund: h.flags&refund != 0, Always: h.flags&always != 0, Mode: h.mode}
		e.places[i], e.owners[i] = c.table.find(fingerprint(h.hash)), i
		for j := range i {
			if hits[j].limit == h.limit && hits[j].hash == h.hash {
				e.owners[i] = e.owners[j]
			}
		}
		if e.owners[i] == i {
			e.clients[i] = c.table.get(e.places[i])
		}
		e.pointers[i] = &e.clients[e.owners[i]].state
	}
}

// count counts what became of a hit. It is shown as denied if it denies, and in shadow mode if it would.
func (e *engine) count(b *batch, h *hit, c *limitStats, at place, shown, denies bool) {
	if c.asked.add(e.number) {
		c.series.add(e.now)
	}
	if !shown {
		return
	}
	if c.denied.add(e.number) {
		c.series.deny()
	}
	if denies && e.deniedHit == nil {
		e.deniedHit, e.deniedBy, e.deniedAt = h, c, at
	}
	c.worst.add(e.number, h.hash, b.key(h))
	if at.deny() {
		c.clients++
	}
}
