package plan

import (
	"cmp"
	"sync"
	"weak"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/operators/exceptions"
)

// except notes the exception that applies to d. What gives back is not kept from it: else
// what was taken before the exception would be held on to.
func (m *match) except(e *exceptions.Exception, d *Descriptor) {
	if e != nil && (!d.Refund || e.Effect == exceptions.Amount) {
		m.exception = e
	}
}

// isExcepted reports whether an exception with that effect applies to m.
func (m *match) isExcepted(effect exceptions.Effect) bool {
	return m.exception != nil && m.exception.Effect == effect
}

// withoutLimits reports whether an exception is in the place of the limits of m.
func (m *match) withoutLimits() bool {
	return m.isExcepted(exceptions.Allow) || m.isExcepted(exceptions.Deny)
}

// deny makes the hit that denies d, in the place of its limits. It takes nothing, and is
// the same for all descriptors of the exception.
func (p *Plan) deny(r *Request, d *Descriptor, e *exceptions.Exception, l *limiter.Limit) {
	of := level{entries: e.Entries}
	p.Hits = append(p.Hits, limiter.Hit{
		Limit: l,
		Key:   p.addKey(r.Domain, &of, len(p.Hits), l),
		Cost:  r.Cost(d),
		Mode:  p.opts.DecidingMode(l),
	})
}

// setEnd lets a descriptor that an exception denies try again when that ends.
func (m *match) setEnd(decisions []limiter.Decision) {
	left := max(m.exception.Left(), 1)
	for i := m.first; i < m.end; i++ {
		if decisions[i].Over {
			decisions[i].RetryAfter, decisions[i].ResetAfter = left, left
		}
	}
}

// excepted remembers the limits that exceptions make of those of a tree and of overrides.
// When it is full, or the tree is another one, it starts anew.
type excepted struct {
	mu      sync.RWMutex
	tree    weak.Pointer[descriptors.Tree] // not to keep what serves no more
	times   map[multiple]*limiter.Limit
	denials map[string]*limiter.Limit // by the label of the domain
}

// multiple is a limit times a factor.
type multiple struct {
	of     *limiter.Limit
	factor float64
}

// maxExcepted bounds how many limits of exceptions are remembered.
const maxExcepted = 4096

// multiple returns l times factor.
func (es *excepted) multiple(tree *descriptors.Tree, l *limiter.Limit, factor float64) *limiter.Limit {
	of := multiple{l, factor}
	es.mu.RLock()
	known := es.times[of]
	ofTree := es.tree.Value() == tree
	es.mu.RUnlock()
	if known != nil && ofTree {
		return known
	}
	times := l.Times(factor)
	es.mu.Lock()
	defer es.mu.Unlock()
	es.begin(tree)
	es.times[of] = times
	return times
}

// denial returns the limit that denies everything in a domain.
func (es *excepted) denial(tree *descriptors.Tree, domain string) *limiter.Limit {
	label := cmp.Or(tree.DomainLabel(domain), "unknown") // the text of a domain without rules is any
	es.mu.RLock()
	known := es.denials[label]
	es.mu.RUnlock()
	if known != nil {
		return known
	}
	denial, err := limiter.NewLimit(limiter.Spec{
		Name: "deny", Unit: limiter.Day, Veto: true, Charge: limiter.Admitted, FailureMode: limiter.FailureDeny,
		Series: limiter.LabelSet{Domain: label, Key1: "exception", Rule: "exception", Limit: "deny"}.Series(),
	})
	if err != nil {
		panic(err) // there is nothing in it that a request or an exception says
	}
	es.mu.Lock()
	defer es.mu.Unlock()
	es.begin(tree)
	es.denials[label] = denial
	return denial
}

// begin begins anew for another tree, or if there are too many limits. The caller holds
// es.mu.
func (es *excepted) begin(tree *descriptors.Tree) {
	if es.times == nil || es.tree.Value() != tree || len(es.times)+len(es.denials) >= maxExcepted {
		es.tree = weak.Make(tree)
		es.times, es.denials = make(map[multiple]*limiter.Limit), make(map[string]*limiter.Limit)
	}
}
