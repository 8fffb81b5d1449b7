// Package plan says what a request asks of limits, and what their decisions mean
// for it. It is the only place where a request becomes hits, and where decisions
// become statuses; it reads no bytes and asks no store.
//
//	request.go   Request: what is asked, and what is wrong with it
//	override.go  the limits that requests bring along
//	plan.go      Prepare: Request and rules -> Hits
//	mode.go      SHADOW_MODE and QUOTA_MODE
//	status.go    SetStatuses: Decisions -> Statuses
package plan

import (
	"cmp"
	"fmt"
	"slices"

	"weir/internal/descriptors"
	"weir/internal/limiter"
)

// Options are the settings of the server on which answers depend.
type Options struct {
	Keys   limiter.Keys
	Charge limiter.Charge // of limits that do not say it themselves; the zero value means Auto

	ShadowMode     bool // deny nothing, but tell in the statuses what would be
	QuotaMode      bool // take every enforced limit for a quota
	MaxDescriptors int  // of one request, which is refused if it has more; 0 means 100
}

// Planner prepares plans, several at a time.
type Planner struct {
	Options   // not to be changed
	overrides overrides
}

// New returns a Planner.
func New(opts Options) *Planner {
	opts.MaxDescriptors = cmp.Or(opts.MaxDescriptors, 100)
	return &Planner{Options: opts}
}

// Plan is what is decided for one request: its hits and, when they are decided, its
// statuses. The zero value is ready for Prepare, and so is one that was used
// before, whose memory is used again.
type Plan struct {
	// Hits is what a store must decide. Without hits it need not be asked.
	Hits []limiter.Hit
	// Decisions is for what the store decides, as long as Hits.
	Decisions []limiter.Decision
	// Unmatched is how many descriptors have neither a rule nor an override.
	Unmatched int
	// Denied and Statuses, one for each descriptor in order, are there after
	// SetStatuses.
	Denied   bool
	Statuses []Status

	opts     *Options
	matches  []match  // one for each descriptor
	replaced []string // names of limits
	keys     []byte   // of hits, one after the other
	labels   []byte   // likewise, of those with values of the request
}

// match is what applies to one descriptor of a request.
type match struct {
	rule      *descriptors.Rule // nil: none, or an override
	limits    []*limiter.Limit  // of the rule, or the override; replaced ones included
	unlimited bool              // one of the limits admits everything
	// The hits of the limits that are counted are Plan.Hits[first:end].
	first, end int
}

// Prepare makes p the plan of r under the rules of tree, up to its hits. The error
// tells what is wrong with r, which must not change until p has its statuses.
func (pl *Planner) Prepare(p *Plan, tree *descriptors.Tree, r *Request) error {
	p.Reset()
	p.opts = &pl.Options
	if err := r.check(pl.MaxDescriptors); err != nil {
		return err
	}
	if err := p.match(tree, r, &pl.overrides); err != nil {
		return err
	}
	p.addHits(r)
	return nil
}

// Reset forgets the request, and with it every reference to its bytes and to the
// rules, but keeps the memory of the slices.
func (p *Plan) Reset() {
	clear(p.matches)
	clear(p.replaced)
	clear(p.Hits)
	clear(p.Statuses)
	p.Hits, p.Decisions, p.Statuses = p.Hits[:0], p.Decisions[:0], p.Statuses[:0]
	p.matches, p.replaced = p.matches[:0], p.replaced[:0]
	p.keys, p.labels = p.keys[:0], p.labels[:0]
	p.Unmatched, p.Denied, p.opts = 0, false, nil
}

// Memory returns how much p keeps allocated: items of the slice that has the most,
// and bytes.
func (p *Plan) Memory() (items, bytes int) {
	return max(cap(p.Hits), cap(p.matches)), max(cap(p.keys), cap(p.labels))
}

// match finds what applies to each descriptor of r, and counts those that nothing
// applies to.
func (p *Plan) match(tree *descriptors.Tree, r *Request, overrides *overrides) error {
	for i := range r.Descriptors {
		d := &r.Descriptors[i]
		var m match
		if d.HasOverride {
			var err error
			if m.limits, err = overrides.limits(tree.DomainLabel(r.Domain), d.Override); err != nil {
				return fmt.Errorf("descriptor %d: limit: %w", i, err)
			}
		} else if m.rule = tree.Match(r.Domain, d.Entries); m.rule != nil {
			m.limits = m.rule.Limits
		}
		if m.rule == nil && m.limits == nil {
			p.Unmatched++
		}
		p.noteReplaced(m.limits)
		p.matches = append(p.matches, m)
	}
	return nil
}

// noteReplaced collects the names of the limits that limits replace.
func (p *Plan) noteReplaced(limits []*limiter.Limit) {
	for _, l := range limits {
		for _, name := range l.Replaces {
			if !slices.Contains(p.replaced, name) {
				p.replaced = append(p.replaced, name)
			}
		}
	}
}

// isReplaced reports whether some limit of the request says that it replaces l,
// even if that one is replaced itself.
func (p *Plan) isReplaced(l *limiter.Limit) bool {
	return l.Name != "" && slices.Contains(p.replaced, l.Name)
}

// addHits makes a hit of every limit that is counted: neither unlimited, which
// cannot be replaced, nor replaced.
func (p *Plan) addHits(r *Request) {
	for i := range p.matches {
		m, d := &p.matches[i], &r.Descriptors[i]
		labels := p.addLabels(m, d)
		m.first = len(p.Hits)
		for _, l := range m.limits {
			switch {
			case l.Unlimited:
				m.unlimited = true
			case !p.isReplaced(l):
				p.Hits = append(p.Hits, limiter.Hit{
					Limit:  l,
					Key:    p.addKey(r.Domain, m, d, l),
					Cost:   r.Cost(d),
					Refund: d.Refund,
					Always: d.chargedAlways(cmp.Or(l.Charge, p.opts.Charge, limiter.Auto)),
					Mode:   p.opts.DecidingMode(l),
					Labels: labels,
				})
			}
		}
		m.end = len(p.Hits)
	}
	p.Decisions = slices.Grow(p.Decisions, len(p.Hits))[:len(p.Hits)]
}

// addLabels spells what metrics call the hits of d, nil if only the rules say it.
func (p *Plan) addLabels(m *match, d *Descriptor) []byte {
	start := len(p.labels)
	if m.rule != nil {
		p.labels = m.rule.AppendLabels(p.labels, d.Entries)
	}
	if len(p.labels) == start {
		return nil
	}
	return p.labels[start:len(p.labels):len(p.labels)]
}

// addKey spells the key of l's counter, from the second limit of a rule on with
// the help of the first one's.
func (p *Plan) addKey(domain string, m *match, d *Descriptor, l *limiter.Limit) []byte {
	start, spelled := len(p.keys), false
	if m.first < len(p.Hits) {
		p.keys, spelled = p.opts.Keys.AppendSibling(p.keys, p.Hits[m.first].Key, l)
	}
	if !spelled {
		var patterns []string
		if m.rule != nil {
			patterns = m.rule.Patterns
		}
		p.keys = p.opts.Keys.Append(p.keys, domain, d.Entries, patterns, l)
	}
	return p.keys[start:len(p.keys):len(p.keys)]
}
