package redisstore

import (
	"cmp"
	"context"
	"fmt"

	"weir/internal/limiter"
)

// maxSpread is the most hits of the spreads that are under way, except that a
// larger one may be alone: of several lanes that are all full. So it bounds also
// what they have to give back, which is never refused.
const maxSpread = 4 * maxQueue

var errSpreadsFull = fmt.Errorf("%w: more than %d hits of requests with counters in several places wait for Redis", limiter.ErrUnavailable, maxSpread)

// spread is a request whose hits have several lanes: slots of a cluster, or the
// two Redis of Options.PerSecond. No script sees all of them, so it is decided
// in two steps:
//
//  1. The hits of each lane are a part. All parts are decided at the same time,
//     each atomically, and written unless an enforced limit of the part itself is
//     over. A quota limit counts as a shadow limit meanwhile, because only all
//     quota limits of the request together can deny it.
//  2. Every hit now being known to fit or not, the request is denied or admitted
//     as always. If it is denied, or a part could not be decided, what the other
//     parts were charged is given back, each in its own window.
//
// Between the steps counters of a denied request are too high. So others may be
// denied that need not be, but never is more admitted than a limit says. When
// the second step has ended, nothing is left of a denied request but what is
// written whatever becomes of it: all or nothing, if not at once.
//
// One thing is not exact: where a denied request has, on one counter, a hit that
// is to be given back beside a refund or an always charged hit, these met a
// counter that was too high. So a refund may give back more than it would have
// found, and a charge that ends at the brim of a bucket leave less debt.
//
// Both steps are taken to their end even if the caller leaves. What cannot be
// given back, because Redis fails or this process dies between the steps, counts
// until its window ends. Like every call, it is not tried again: that might give
// back twice.
type spread struct {
	hits  []limiter.Hit // part after part, with keys of their own
	place []int         // of each of them in the request
	parts []part

	out    []limiter.Decision // of hits, void if err is not nil
	denied bool
	err    error

	decided chan struct{} // closed when denied, err and out are set
	settled chan struct{} // closed when nothing more is to be given back
}

// part is the hits of a spread that have one lane.
type part struct {
	lane      *lane
	hits      []limiter.Hit // of spread.hits
	counters  limiter.Counters
	out       []limiter.Decision // of spread.out
	batch     *batch
	request   int // its place in batch
	states    []limiter.State
	vetoed    bool       // by one of its own limits: it was charged nothing that can be given back
	charges   []giveBack // what it was charged, if the request is denied or fails
	back      *batch     // that gives it back, nil if there is nothing
	backPlace int        // of the first of charges in back
	err       error
}

// newSpread copies what it needs of hits, which are the caller's.
func newSpread(hits []limiter.Hit, laneOf func(*limiter.Hit) *lane) *spread {
	r := &spread{
		hits: make([]limiter.Hit, 0, len(hits)), place: make([]int, 0, len(hits)),
		out:     make([]limiter.Decision, len(hits)),
		decided: make(chan struct{}), settled: make(chan struct{}),
	}
	places := map[*lane][]int{} // of the hits of each lane, in the request
	for i := range hits {
		l := laneOf(&hits[i])
		if places[l] == nil {
			r.parts = append(r.parts, part{lane: l})
		}
		places[l] = append(places[l], i)
	}
	for i := range r.parts {
		p := &r.parts[i]
		start := len(r.hits)
		for _, at := range places[p.lane] {
			r.hits, r.place = append(r.hits, kept(hits[at])), append(r.place, at)
		}
		p.hits, p.out = r.hits[start:], r.out[start:len(r.hits)]
		p.counters = limiter.CountersOf(p.hits)
	}
	return r
}

// decideSpread decides hits that have several lanes, as Decide does.
func (s *Store) decideSpread(ctx context.Context, hits []limiter.Hit, out []limiter.Decision) (denied bool, err error) {
	r := newSpread(hits, s.laneOf)
	for i := range r.parts {
		if r.parts[i].lane.breaker.isOpen() {
			return false, errOpen // rather than charge the other parts in vain
		}
	}
	if err := s.beginSpread(len(hits)); err != nil {
		return false, err
	}
	for i := range r.parts {
		p := &r.parts[i]
		p.batch, p.request, p.err = p.lane.send(p.hits, true, anytime)
	}
	go func() {
		defer s.endSpread(len(hits))
		r.run()
	}()
	if err := s.main.wait(ctx, s.main.patience(ctx), r.settled); err != nil {
		select {
		case <-r.decided: // giving back takes longer than the caller can wait
		default:
			if isLate(ctx) {
				s.main.after(r.decided, func() {
					if r.err == nil {
						s.main.answeredLate()
					}
				})
			}
			return false, err
		}
	}
	for i, at := range r.place {
		out[at] = r.out[i]
	}
	return r.denied, r.err
}

// beginSpread takes on a spread of so many hits, unless too many are under way.
func (s *Store) beginSpread(hits int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errClosed
	case s.spreadHits > 0 && s.spreadHits+hits > maxSpread:
		s.main.metrics.errors[kindQueueFull].Inc()
		return errSpreadsFull
	}
	s.spreadHits += hits
	s.spreads.Add(1)
	return nil
}

func (s *Store) endSpread(hits int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spreadHits -= hits
	s.spreads.Done()
}

// run takes the steps.
func (r *spread) run() {
	defer close(r.settled)
	for i := range r.parts {
		r.parts[i].await()
	}
	r.conclude()
	close(r.decided)
	r.giveBack()
	r.note()
}

// await waits for the decision of p, which comes within the time that its calls
// are given.
func (p *part) await() {
	if p.err != nil {
		return
	}
	<-p.batch.done
	if p.err = p.batch.err; p.err != nil {
		return
	}
	p.states, p.err = p.batch.reply.outcomes(p.request, p.out, nil)
	var v limiter.Verdict
	for i := range p.hits {
		v.Add(p.hits[i].EffectiveMode(), p.out[i].Over)
	}
	p.vetoed = v.Vetoed
}

// conclude draws the conclusion from all parts. What it tells of the counters of
// a denied request is as after its charges were given back.
func (r *spread) conclude() {
	for i := range r.parts {
		r.err = cmp.Or(r.err, r.parts[i].err)
	}
	if r.err == nil {
		r.denied = limiter.Settle(r.hits, r.out)
	}
	for i := range r.parts {
		p := &r.parts[i]
		if (r.denied || r.err != nil) && p.err == nil && !p.vetoed {
			p.charges = giveBacks(p.hits, &p.counters, p.out, p.states)
		}
		if r.err != nil {
			continue
		}
		now := p.batch.reply.now
		for _, g := range p.charges {
			p.states[g.first] = g.limit.GiveBack(p.states[g.first], g.charged, g.cost, now)
		}
		p.shareStates()
		limiter.Describe(p.hits, p.states, now, p.out)
	}
}

// shareStates gives every hit the state of the first hit on its counter.
func (p *part) shareStates() {
	if len(p.charges) == 0 {
		return
	}
	for j := range p.hits {
		p.states[j] = p.states[p.counters.First(j)]
	}
}

// giveBack gives back what the parts were charged, and waits until it is.
func (r *spread) giveBack() {
	for i := range r.parts {
		if p := &r.parts[i]; p.charges != nil {
			p.back, p.backPlace = p.lane.sendBack(p.charges)
		}
	}
	for _, p := range r.parts {
		if p.back != nil {
			<-p.back.done
		}
	}
}

// note takes note of what is known last of the counters.
func (r *spread) note() {
	if r.err != nil {
		return
	}
	for i := range r.parts {
		p := &r.parts[i]
		if p.back == nil {
			p.lane.denials.note(p.batch, p.request, p.hits, p.states, r.denied)
			continue
		}
		charged := make([]bool, len(p.hits)) // by the first hit on a counter
		for _, g := range p.charges {
			charged[g.first] = true
		}
		if p.back.err == nil {
			p.follow()
		}
		for j := range p.hits {
			b, place := p.batch, p.request
			if charged[p.counters.First(j)] {
				b, place = p.back, p.backPlace+len(p.charges)-1
			}
			if b.err == nil {
				p.lane.denials.note(b, place, p.hits[j:j+1], p.states[j:j+1], r.denied)
			}
		}
	}
}

// follow brings the states up to what was replied when the charges were given back.
func (p *part) follow() {
	for k, g := range p.charges {
		back := &p.back.reply
		p.states[g.first] = back.state(back.begins[p.backPlace+k])
	}
	p.shareStates()
}
