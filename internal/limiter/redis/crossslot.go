package redis

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"weir/internal/limiter"
	"weir/internal/limiter/redis/queue"
	"weir/internal/limiter/redis/wire"
)

// location identifies the counters that one run of the script can reach: all counters of a Redis
// or, in a cluster, the counters in one slot.
type location struct {
	backend *backend
	slot    int
}

// locate returns the location of the counter of h.
func (s *Store) locate(h *limiter.Hit) location {
	b := s.main
	if h.Limit.Unit == limiter.Second {
		b = s.backends[len(s.backends)-1]
	}
	return location{b, b.queues.Slot(h.Key)}
}

// crossSlot is a request whose counters have several locations: slots of a cluster, or
// Options.Main and Options.PerSecond. No run of the script can reach all of them, so the request
// is decided in two steps:
//
//  1. The hits of each location are a part. All parts are decided at the same time, each
//     atomically, and charged unless an enforced limit of the part is exceeded. In this step, a
//     quota limit counts as a shadow limit, because only all quota limits of the request
//     together can deny it.
//  2. Given which hits fit, the request is denied or admitted as usual. If it is denied, or a
//     part failed, the charges of the parts that did not fail are released, each from its window.
//
// Between the steps, counters of a denied request are too high. This may deny other requests
// needlessly, but never admits more than a limit allows. The decision of a hit that is always
// charged is not exact if another charge on the same counter is released later.
//
// The caller waits for both steps if it has the time, so that its next request finds exact
// counters. Both steps are completed even if the caller leaves. If Redis fails or this process
// ends between the steps, charges stay until their window ends. Like all calls, releases are not
// repeated.
type crossSlot struct {
	hits  []limiter.Hit // part by part, copied from the caller
	index []int         // for each element of hits, its index in the request
	parts []part

	out    []limiter.Decision // decisions on hits, invalid if err is not nil
	denied bool
	err    error

	decided chan struct{} // closed when out, denied and err are set
	done    chan struct{} // closed after the releases, if there are any
}

// part has the hits of a crossSlot whose counters have the same location.
type part struct {
	location location
	ticket   queue.Ticket
	hits     []limiter.Hit      // a slice of crossSlot.hits
	out      []limiter.Decision // a slice of crossSlot.out
	states   []limiter.State    // for each hit, the state of its counter
	vetoed   bool               // denied by one of its own limits, so it has no charges to release
	releases []wire.Release
	err      error
}

// newCrossSlot returns a crossSlot with a copy of hits, because the caller may reuse hits.
func newCrossSlot(hits []limiter.Hit, locate func(*limiter.Hit) location) *crossSlot {
	r := &crossSlot{
		hits: make([]limiter.Hit, 0, len(hits)), index: make([]int, 0, len(hits)),
		out: make([]limiter.Decision, len(hits)), decided: make(chan struct{}), done: make(chan struct{}),
	}
	hits = cloneHits(hits)
	indexes := map[location][]int{} // for each location, the indexes of its hits in the request
	for i := range hits {
		l := locate(&hits[i])
		if indexes[l] == nil {
			r.parts = append(r.parts, part{location: l})
		}
		indexes[l] = append(indexes[l], i)
	}
	for i := range r.parts {
		p := &r.parts[i]
		start := len(r.hits)
		for _, at := range indexes[p.location] {
			r.hits, r.index = append(r.hits, hits[at]), append(r.index, at)
		}
		p.hits, p.out = r.hits[start:], r.out[start:len(r.hits)]
	}
	return r
}

// cloneHits returns a copy of hits, without Labels, that stays valid if the caller reuses hits.
func cloneHits(hits []limiter.Hit) []limiter.Hit {
	hits = slices.Clone(hits)
	for i := range hits {
		h := &hits[i]
		h.Key, h.Hold, h.Reservation, h.Labels = bytes.Clone(h.Key), bytes.Clone(h.Hold), bytes.Clone(h.Reservation), nil
	}
	return hits
}

// decideCrossSlot decides hits that have several locations, as Decide does.
func (s *Store) decideCrossSlot(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (denied bool, err error) {
	if err := limiter.Left(ctx, hits); err != nil {
		return false, err // before some of the parts are charged
	}
	r := newCrossSlot(hits, s.locate)
	for i := range r.parts {
		if err := r.parts[i].location.backend.health.refusal(); err != nil {
			return false, err // before the other parts are charged in vain
		}
	}
	main := s.main.queues
	if !main.Enter() { // so that Close waits until the charges are released
		return false, queue.ErrClosed
	}
	timeout := main.Timeout(ctx)
	for i := range r.parts {
		p := &r.parts[i]
		p.ticket, p.err = p.location.backend.queues.Of(p.hits[0].Key).Add(context.Background(), p.location.slot, p.hits, true, timeout)
	}
	go func() {
		defer main.Exit()
		r.run()
	}()
	if err := main.Wait(ctx, timeout, r.done); err != nil {
		select {
		case <-r.decided: // only the releases take longer than the caller can wait
		default:
			main.WhenDecided(ctx, r.decided, func() error { return r.err })
			return false, err
		}
	}
	for i, at := range r.index {
		out[at] = r.out[i]
	}
	main.CountLate(r.err)
	return r.denied, r.err
}

// run completes both steps. The parts must be in their queues.
func (r *crossSlot) run() {
	defer close(r.done)
	for i := range r.parts {
		r.parts[i].await()
	}
	r.merge()
	close(r.decided)
	var calls []*queue.Call
	for i := range r.parts {
		p := &r.parts[i]
		if r.err == nil { // before the releases, which make the states outdated
			p.location.backend.memo.note(p.ticket, p.hits, p.states, r.denied)
		}
		if len(p.releases) > 0 {
			calls = append(calls, p.location.backend.queues.Of(p.hits[0].Key).Release(p.location.slot, p.releases))
		}
	}
	for _, c := range calls {
		<-c.Done
	}
}

// await waits for the decision of p.
func (p *part) await() {
	if p.err != nil {
		return
	}
	<-p.ticket.Call.Done
	p.states, p.err = p.ticket.Outcomes(p.out, nil)
	var v limiter.Verdict
	for i := range p.hits {
		v.Add(p.hits[i].EffectiveMode(), p.hits[i].Group, p.out[i].Over)
	}
	p.vetoed = v.Vetoed
}

// merge decides the request, and describes its counters as they will be after the releases.
func (r *crossSlot) merge() {
	for i := range r.parts {
		r.err = cmp.Or(r.err, r.parts[i].err)
	}
	if r.err == nil {
		r.denied = limiter.Conclude(r.hits, r.out)
	}
	for i := range r.parts {
		p := &r.parts[i]
		firsts := limiter.Firsts(p.hits, nil)
		var charged []int
		if (r.denied || r.err != nil) && p.err == nil && !p.vetoed {
			p.releases, charged = releases(p.hits, firsts, p.out, p.states)
		}
		if r.err != nil {
			continue
		}
		now := p.ticket.Call.Reply.Now
		for j, release := range p.releases {
			h, first := &release.Hit, charged[j]
			p.states[first] = h.Limit.GiveBack(p.states[first], release.Charged, h.CountedCost(), now)
		}
		if len(p.releases) > 0 {
			for j := range p.states { // for later hits on the same counters
				prev := p.states[j].Prev
				if p.states[j] = p.states[firsts[j]]; p.hits[j].Limit.Algorithm == limiter.SlidingLog && p.states[j].Used > 0 {
					p.states[j].Prev = prev // if the limit is exceeded, Prev is a retry time that includes the charge, and so is never too early
				}
			}
		}
		limiter.Describe(p.hits, p.states, now, p.out)
	}
}

// releases returns a release for each counter, each hold and each reservation that hits have
// charged although their request was denied or failed. charged[i] is the index of the first hit on
// the counter of list[i].
func releases(hits []limiter.Hit, firsts []int, out []limiter.Decision, states []limiter.State) (list []wire.Release, charged []int) {
	size := make([]int, len(hits)) // for the first hit on a counter: length of list just after its release was added, or 0 before
	for i := range hits {
		h, first := &hits[i], firsts[i]
		switch {
		case h.Unconditional() || h.Cost == 0 || out[i].Over || out[i].Already:
		case h.Hold == nil && h.Reservation == nil && size[first] > 0:
			list[size[first]-1].Hit.Cost += uint64(h.CountedCost())
		default:
			list, charged = append(list, wire.Release{Hit: *h, Charged: states[i]}), append(charged, first)
			if h.Hold == nil && h.Reservation == nil {
				size[first] = len(list)
			}
		}
	}
	return list, charged
}
