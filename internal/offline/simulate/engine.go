package simulate

import (
	"container/heap"
	"slices"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/plan"
)

// limitStats are the clients of one limit, and what became of the requests that ask for it.
type limitStats struct {
	LimitReport // its Requests and Denied, until the end
	rule        *descriptors.Rule
	limit       *limiter.Limit
	table       *table
	asked       uint64 // the request that was counted last, by its number
	denied      uint64 // likewise
	series      series
	worst       worst
}

func newStats(rule *descriptors.Rule, l *limiter.Limit, suggest bool) *limitStats {
	return &limitStats{rule: rule, limit: l, table: newTable(l, suggest), series: series{}}
}

// engine decides requests on a clock of their own, by one set of rules.
type engine struct {
	name     string // of the rules
	tree     *descriptors.Tree
	limits   []*limitStats
	byLimit  map[*limiter.Limit]*limitStats // without unlimited ones; it does not change
	plan     *plan.Options
	suggest  bool
	number   uint64 // of the request that is being decided
	requests uint64 // that ask for limits
	denied   uint64
	now      int64
	late     queue[later]
	order    uint64

	// Of the call that is being decided, one for each hit.
	hits      []limiter.Hit
	known     []client
	clients   []*client // in known, the same for hits on one counter
	states    []*limiter.State
	decisions []limiter.Decision
	after     []limiter.State
	deniedBy  *hit // that denied the last request, nil if it was admitted
}

func newEngine(name string, tree *descriptors.Tree, o *Options, suggest bool) *engine {
	e := &engine{name: name, tree: tree, byLimit: map[*limiter.Limit]*limitStats{}, plan: &o.Plan, suggest: suggest}
	for rule := range tree.All() {
		for _, l := range rule.Limits {
			if !l.Unlimited {
				e.byLimit[l] = newStats(rule, l, suggest)
				e.limits = append(e.limits, e.byLimit[l])
			}
		}
	}
	return e
}

// later is a hit that comes when a request ends, or the end of what it has in flight.
type later struct {
	at    int64
	order uint64
	hit   hit
	real  bool // what it gives back was taken; else the hit was denied, and only demand has taken it
}

func (l later) before(o later) bool { return l.at < o.at || l.at == o.at && l.order < o.order } //nolint:unused // queue calls it

// queue is a heap.
type queue[T interface{ before(T) bool }] []T

func (q queue[T]) Len() int           { return len(q) }
func (q queue[T]) Less(i, j int) bool { return q[i].before(q[j]) }
func (q queue[T]) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *queue[T]) Push(x any) { *q = append(*q, x.(T)) }

// Pop implements heap.Interface.
func (q *queue[T]) Pop() any {
	last := len(*q) - 1
	item := (*q)[last]
	*q = slices.Delete(*q, last, last+1)
	return item
}

// decide decides a request that begins at a time and takes a duration, both in microseconds, and returns the hit
// that denies it, nil if none does.
func (e *engine) decide(of *asked, now, duration int64) *hit {
	e.advance(now)
	e.number++
	e.deniedBy = nil
	if len(of.begins) > 0 {
		e.requests++
	}
	denied := false
	for rest := of.begins; len(rest) > 0 && !denied; {
		n := 1
		for n < len(rest) && !rest[n].newCall {
			n++
		}
		denied = e.call(rest[:n], true)
		e.hold(rest[:n], of.ends, duration)
		rest = rest[n:]
	}
	if denied {
		e.denied++
	}
	for i := range of.ends {
		if of.ends[i].Limit.Algorithm != limiter.Concurrency {
			e.push(now+duration, of.ends[i], true)
		}
	}
	return e.deniedBy
}

// hold sees to it that what was just taken in flight ends with the request, if it has a hit that
// gives it back, and after the period of the limit at the latest.
func (e *engine) hold(begins, ends []hit, duration int64) {
	for i := range begins {
		h := &begins[i]
		if h.Limit.Algorithm != limiter.Concurrency || h.Refund {
			continue
		}
		lasts := h.Limit.Period().Microseconds()
		if slices.ContainsFunc(ends, func(end hit) bool { return end.Refund && end.of == h.of && end.hash == h.hash }) {
			lasts = min(lasts, duration)
		}
		if real := e.decisions[i].Charged; real || e.suggest {
			end := *h
			end.Refund = true
			e.push(e.now+lasts, end, real)
		}
	}
}

func (e *engine) push(at int64, h hit, real bool) {
	h.Key = nil // its memory is that of the batch
	e.order++
	heap.Push(&e.late, later{at, e.order, h, real})
}

// advance lets the clock go on, and decides what comes until then.
func (e *engine) advance(now int64) {
	for len(e.late) > 0 && e.late[0].at <= now {
		l := heap.Pop(&e.late).(later)
		e.now = max(e.now, l.at)
		if l.real {
			e.call([]hit{l.hit}, false)
			continue
		}
		t := l.hit.of.table
		c := t.get(l.hit.hash)
		t.demand.add(&c, &l.hit.Hit, e.now)
		t.put(l.hit.hash, &c)
	}
	e.now = max(e.now, now)
}

// call decides the hits of one request to the server, as the server does. Those of a request that has begun
// already count, but are in no statistics.
func (e *engine) call(hits []hit, begins bool) (denied bool) {
	e.load(hits)
	denied = limiter.Count(e.hits, e.states, nil, e.now, e.decisions, e.after)
	wouldBe := denied || e.plan.ShadowMode && e.wouldBeDenied()
	for i := range hits {
		h, c := &hits[i], e.clients[i]
		if h.of.table.demand != nil {
			h.of.table.demand.add(c, &h.Hit, e.now)
		}
		if !begins || h.Refund {
			continue
		}
		if h.of.asked != e.number { // one with several hits counts once
			h.of.asked = e.number
			h.of.Requests++
			h.of.series.add(e.now, 1, 0)
		}
		// It is shown as denied if it denies, and in shadow mode if it would.
		if over := e.decisions[i].Over; over && (wouldBe || h.Limit.Mode == limiter.Shadow) {
			e.showDenied(h)
			if denied && e.deniedBy == nil && h.EffectiveMode() != limiter.Shadow {
				e.deniedBy = h
			}
		}
	}
	for i := range hits {
		hits[i].of.table.put(hits[i].hash, e.clients[i])
	}
	return denied
}

// load fills in the hits of a call, with the states of their counters.
func (e *engine) load(hits []hit) {
	n := len(hits)
	e.hits = e.hits[:0]
	e.known, e.clients, e.states = sized(e.known, n), sized(e.clients, n), sized(e.states, n)
	e.decisions, e.after = sized(e.decisions, n), sized(e.after, n)
	for i := range hits {
		h, c := &hits[i], &e.known[i]
		same := func(o hit) bool { return o.of == h.of && o.hash == h.hash }
		if j := slices.IndexFunc(hits[:i], same); j >= 0 {
			c = e.clients[j]
		} else {
			*c = h.of.table.get(h.hash)
		}
		e.hits = append(e.hits, h.Hit)
		e.clients[i], e.states[i] = c, &c.state
	}
}

// sized returns a slice of n items, in the memory of one that was used before.
func sized[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }

// wouldBeDenied reports whether the call is admitted only because of SHADOW_MODE.
func (e *engine) wouldBeDenied() bool {
	var v limiter.Verdict
	for i := range e.hits {
		v.Add(e.plan.Mode(e.hits[i].Limit), e.decisions[i].Over)
	}
	return v.Denied()
}

// showDenied counts a hit as denied, of a client.
func (e *engine) showDenied(h *hit) {
	if h.of.denied != e.number {
		h.of.denied = e.number
		h.of.Denied++
		h.of.series.add(e.now, 0, 1)
	}
	h.of.worst.add(e.number, h.hash, h.Key)
	h.of.table.denied[h.hash] = struct{}{}
}
