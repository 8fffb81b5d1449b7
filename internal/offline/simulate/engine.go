package simulate

import (
	"container/heap"
	"slices"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/plan"
)

// limitStats contains the clients of one limit, and counts its requests.
type limitStats struct {
	LimitReport // only Requests and Denied are set before report is called
	rule        *descriptors.Rule
	limit       *limiter.Limit
	table       *table
	asked       uint64 // number of the last request that was counted
	denied      uint64 // number of the last denied request that was counted
	series      series
	worst       worst
}

func newStats(rule *descriptors.Rule, l *limiter.Limit, suggest bool) *limitStats {
	return &limitStats{rule: rule, limit: l, table: newTable(l, suggest), series: series{}}
}

// engine decides requests by one set of rules, with a clock that follows the requests.
type engine struct {
	name     string // name of the rules in messages
	tree     *descriptors.Tree
	limits   []*limitStats
	byLimit  map[*limiter.Limit]*limitStats // all limits that are not unlimited; read-only
	plan     *plan.Options
	number   uint64 // number of the current request
	requests uint64 // number of requests with a hit on a limit
	denied   uint64
	now      int64
	late     queue[later]
	order    uint64

	// These have one item for each hit of the current call.
	hits      []limiter.Hit
	known     []client
	clients   []*client // pointers into known; hits on the same counter share a client
	states    []*limiter.State
	kept      []limiter.Kept
	decisions []limiter.Decision
	after     []limiter.State
}

func newEngine(name string, tree *descriptors.Tree, o *Options, suggest bool) *engine {
	e := &engine{name: name, tree: tree, byLimit: map[*limiter.Limit]*limitStats{}, plan: &o.Plan}
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

// later is a hit at the end of a request, or the end of a hold.
type later struct {
	at    int64
	order uint64
	hit   hit
	real  bool // false for the end of a denied hold, which only demand has counted
}

func (l later) before(o later) bool { return l.at < o.at || l.at == o.at && l.order < o.order } //nolint:unused // queue calls it

// queue implements heap.Interface.
type queue[T interface{ before(T) bool }] []T

func (q queue[T]) Len() int           { return len(q) }
func (q queue[T]) Less(i, j int) bool { return q[i].before(q[j]) }
func (q queue[T]) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

func (q *queue[T]) Push(x any) { *q = append(*q, x.(T)) }

func (q *queue[T]) Pop() any {
	last := len(*q) - 1
	item := (*q)[last]
	*q = slices.Delete(*q, last, last+1)
	return item
}

// decide decides a request that begins at now and takes duration, both in microseconds. It returns the hit that
// denies the request, or nil if it is admitted.
func (e *engine) decide(of *asked, now, duration int64) (deniedBy *hit) {
	e.advance(now)
	e.number++
	if len(of.begins) > 0 {
		e.requests++
	}
	for rest := of.begins; len(rest) > 0 && deniedBy == nil; {
		n := 1
		for n < len(rest) && !rest[n].newCall {
			n++
		}
		deniedBy = e.call(rest[:n], true)
		e.hold(rest[:n], of.ends, duration)
		rest = rest[n:]
	}
	if deniedBy != nil {
		e.denied++
	}
	for i := range of.ends {
		if of.ends[i].Limit.Algorithm != limiter.Concurrency {
			e.push(now+duration, of.ends[i], true)
		}
	}
	return deniedBy
}

// hold schedules the end of the holds that the last call took. A hold expires after the period of its limit. If
// ends has a refund for the hold, the hold is released at the end of the request, if that is earlier.
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
		if real := e.decisions[i].Charged; real || h.of.table.suggest {
			end := *h
			end.Refund = true
			e.push(e.now+lasts, end, real)
		}
	}
}

func (e *engine) push(at int64, h hit, real bool) {
	h.Key = nil // the memory of Key belongs to the batch, which will be reused
	e.order++
	heap.Push(&e.late, later{at, e.order, h, real})
}

// advance sets the clock to now, and decides all hits in e.late that are due by then.
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
		t.demand(&c, &l.hit.Hit, e.now)
		t.put(l.hit.hash, &c)
	}
	e.now = max(e.now, now)
}

// call decides the hits of one call to the server, as the server does, and returns the first hit that denies it. If
// begins is false, the call is at the end of a request: its hits change counters, but no statistics, and deny nothing.
func (e *engine) call(hits []hit, begins bool) (deniedBy *hit) {
	e.load(hits)
	denied := limiter.Count(e.hits, e.states, e.kept, e.now, e.decisions, e.after)
	wouldBe := denied
	if e.plan.ShadowMode { // the call may be admitted only because of ShadowMode
		var v limiter.Verdict
		for i := range hits {
			v.Add(e.plan.Mode(hits[i].Limit), hits[i].Group, e.decisions[i].Over)
		}
		wouldBe = wouldBe || v.Denied()
	}
	for i := range hits {
		h, c := &hits[i], e.clients[i]
		if h.of.table.suggest {
			before := c.alone
			h.of.table.demand(c, &h.Hit, e.now)
			for _, trial := range h.of.table.trials {
				trial.try(h, c.amount, before, e.now, begins && !h.Refund)
			}
		}
		if !begins || h.Refund {
			continue
		}
		h.of.table.hits++
		if h.of.asked != e.number { // count a request with several hits once
			h.of.asked = e.number
			h.of.Requests++
			h.of.series.add(e.now, 1, 0)
		}
		// A hit is reported as denied if it denies the call, or would deny it without shadow mode.
		if over := e.decisions[i].Over; over && (wouldBe || h.Limit.Mode == limiter.Shadow) {
			if h.of.denied != e.number {
				h.of.denied = e.number
				h.of.Denied++
				h.of.series.add(e.now, 0, 1)
			}
			h.of.worst.add(e.number, h.hash, h.Key)
			h.of.table.denied[h.hash] = struct{}{}
			if denied && deniedBy == nil && h.EffectiveMode() != limiter.Shadow {
				deniedBy = h
			}
		}
	}
	for i := range hits {
		hits[i].of.table.put(hits[i].hash, e.clients[i])
	}
	return deniedBy
}

// load sets the fields of e that describe a call: its hits and the states of their counters.
func (e *engine) load(hits []hit) {
	n := len(hits)
	e.hits = e.hits[:0]
	e.known, e.clients, e.states = sized(e.known, n), sized(e.clients, n), sized(e.states, n)
	e.decisions, e.after, e.kept = sized(e.decisions, n), sized(e.after, n), sized(e.kept, n)
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
		e.kept[i] = limiter.Kept{}
		if c.logs != nil {
			e.kept[i].Uses = &c.logs.real
		}
	}
}

// sized returns a slice of n items that reuses the memory of s. The items are not cleared.
func sized[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }
