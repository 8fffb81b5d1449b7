package redis

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"

	"weir/internal/limiter"
)

// crossSlot is a request across slots: its counters have several locations, in slots of
// a cluster or in the two Redis of Options.PerSecond. No script sees all of them,
// so it is decided in two steps:
//
//  1. The hits of each location are a part. All parts are decided at the same time,
//     each atomically, and charged unless an enforced limit of the part itself is
//     over. A quota limit counts as a shadow limit meanwhile, because only all
//     quota limits of the request together can deny it.
//  2. It is known now which hits fit, and the request is denied or admitted as
//     always. If it is denied, or a part could not be decided, the charges of the
//     other parts are given back, each in its own window.
//
// Between the steps, counters of a denied request are too high. So others may be
// denied that need not be, but never is more admitted than a limit says. Then
// nothing is left of a denied request but what is written whatever becomes of it.
// Only a hit that is given back beside such a hit on the same counter is not exact,
// because that met a counter that was too high.
//
// The caller waits for the second step, too, if it has the time: what it asks next, of another
// server as well, finds nothing of a denied request. Both steps are done even if the caller
// leaves. Charges that cannot be given back, because Redis fails or this process dies between
// the steps, count until their window ends. Like every call, giving back is not repeated: that
// might give back twice.
type crossSlot struct {
	hits  []limiter.Hit // part after part, in memory of their own
	index []int         // of each of them in the request
	parts []part

	out    []limiter.Decision // of hits, void if err is not nil
	denied bool
	err    error

	decided chan struct{} // closed when out, denied and err are set
	done    chan struct{} // closed when the charges are given back, too
}

// part is the hits of a crossSlot that have one location.
type part struct {
	location
	ticket
	hits    []limiter.Hit      // of crossSlot.hits
	out     []limiter.Decision // of crossSlot.out
	states  []limiter.State
	vetoed  bool       // denied by a limit of its own, so that nothing was charged that can be given back
	charges []giveBack // to be given back
	err     error
}

// newCrossSlot copies what it needs of hits, which are the caller's.
func newCrossSlot(hits []limiter.Hit, locate func(*limiter.Hit) location) *crossSlot {
	r := &crossSlot{
		hits: make([]limiter.Hit, 0, len(hits)), index: make([]int, 0, len(hits)),
		out: make([]limiter.Decision, len(hits)), decided: make(chan struct{}), done: make(chan struct{}),
	}
	hits = cloneHits(hits)
	indexes := map[location][]int{} // of the hits of each location, in the request
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

// cloneHits returns a copy of hits that uses no memory of the caller's.
func cloneHits(hits []limiter.Hit) []limiter.Hit {
	hits = slices.Clone(hits)
	for i := range hits {
		h := &hits[i]
		h.Key, h.Hold, h.Labels = bytes.Clone(h.Key), bytes.Clone(h.Hold), nil
	}
	return hits
}

// decideCrossSlot decides hits that have several locations, as Decide does.
func (s *store) decideCrossSlot(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (denied bool, err error) {
	if err := limiter.Left(ctx, hits); err != nil {
		return false, err // rather than charge some parts only
	}
	r := newCrossSlot(hits, s.locate)
	for i := range r.parts {
		if r.parts[i].breaker.isOpen() {
			return false, errOpen // rather than charge the other parts in vain
		}
	}
	if !s.main.enter() { // so that its charges are given back before the store is closed
		return false, errClosed
	}
	timeout := s.main.timeout(ctx)
	for i := range r.parts {
		p := &r.parts[i]
		p.ticket, p.err = p.queue(context.Background(), p.hits, true, timeout)
	}
	go func() {
		defer s.main.working.Done()
		r.run()
	}()
	if err := s.main.wait(ctx, timeout, r.done); err != nil {
		select {
		case <-r.decided: // only giving back takes longer than the caller can wait
		default:
			s.main.whenDecided(ctx, r.decided, func() error { return r.err })
			return false, err
		}
	}
	for i, at := range r.index {
		out[at] = r.out[i]
	}
	if errors.Is(r.err, errLate) {
		s.main.metrics.errors[kindQueueFull].Inc()
	}
	return r.denied, r.err
}

// run does both steps. The parts are queued.
func (r *crossSlot) run() {
	defer close(r.done)
	for i := range r.parts {
		r.parts[i].await()
	}
	r.merge()
	close(r.decided)
	var queued []*batch
	for i := range r.parts {
		p := &r.parts[i]
		if r.err == nil { // first, because what is given back makes it outdated
			p.denials.note(p.ticket, p.hits, p.states, r.denied)
		}
		if len(p.charges) > 0 {
			queued = append(queued, p.queueGiveBacks(p.charges))
		}
	}
	for _, b := range queued {
		<-b.done
	}
}

// await waits for the decision of p, which comes within the time that its calls
// may take.
func (p *part) await() {
	if p.err != nil {
		return
	}
	<-p.batch.done
	p.states, p.err = p.outcomes(p.out, nil)
	var v limiter.Verdict
	for i := range p.hits {
		v.Add(p.hits[i].EffectiveMode(), p.out[i].Over)
	}
	p.vetoed = v.Vetoed
}

// merge decides the request from the decisions of its parts. It describes the
// counters of a denied request as they are after its charges are given back.
func (r *crossSlot) merge() {
	for i := range r.parts {
		r.err = cmp.Or(r.err, r.parts[i].err)
	}
	if r.err == nil {
		r.denied = limiter.Settle(r.hits, r.out)
	}
	for i := range r.parts {
		p := &r.parts[i]
		firsts := limiter.Firsts(p.hits, nil)
		if (r.denied || r.err != nil) && p.err == nil && !p.vetoed {
			p.charges = giveBacks(p.hits, firsts, p.out, p.states)
		}
		if r.err != nil {
			continue
		}
		now := p.batch.reply.now
		for _, g := range p.charges {
			p.states[g.first] = g.Limit.GiveBack(p.states[g.first], g.charged, g.CountedCost(), now)
		}
		if len(p.charges) > 0 {
			for j := range p.states { // later hits on the same counters
				p.states[j] = p.states[firsts[j]]
			}
		}
		limiter.Describe(p.hits, p.states, now, p.out)
	}
}

// giveBacks lists what hits were charged that a denied request is not to be:
// one giveBack for each counter, however many hits it has, and for each hold.
func giveBacks(hits []limiter.Hit, firsts []int, out []limiter.Decision, states []limiter.State) (list []giveBack) {
	size := make([]int, len(hits)) // of the list with the charge of a counter, 0 without; by the first hit on it
	for i := range hits {
		h, first := &hits[i], firsts[i]
		switch {
		case h.Unconditional() || h.Cost == 0 || out[i].Over || out[i].Already:
		case h.Hold == nil && size[first] > 0:
			list[size[first]-1].Cost += uint64(h.CountedCost())
		default:
			list = append(list, giveBack{*h, states[i], first})
			if h.Hold == nil {
				size[first] = len(list)
			}
		}
	}
	return list
}
