package plan

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"

	"weir/internal/descriptors"
	"weir/internal/limiter"
)

// Options are the settings of the server on which answers depend.
type Options struct {
	Keys   limiter.Keys
	Charge limiter.Charge // of limits that do not say it themselves; the zero value means Auto

	CalendarMonths bool // count limits of months that requests bring along by the calendar of UTC
	ShadowMode     bool // deny nothing, but say in the statuses what would be
	QuotaMode      bool // take every enforced limit for a quota
	MaxDescriptors int  // of one request, which is refused if it has more; 0 means 100

	// Exceptions has those in force. nil: there are never any.
	Exceptions *atomic.Pointer[Exceptions]
}

// SwitchedOn says which switches are on that change the answer to every request: left on by
// mistake, they would go unnoticed.
func SwitchedOn(shadowMode, quotaMode bool) (notes []string) {
	if shadowMode {
		notes = append(notes, "SHADOW_MODE is on: no request is denied")
	}
	if quotaMode {
		notes = append(notes, "QUOTA_MODE is on: a request is denied only if all its limits are exceeded")
	}
	return notes
}

// Planner prepares plans, several at a time.
type Planner struct {
	Options   // not to be changed
	overrides overrides
	excepted  excepted
}

// New returns a Planner.
func New(opts Options) *Planner {
	opts.MaxDescriptors = cmp.Or(opts.MaxDescriptors, defaultMaxDescriptors)
	return &Planner{Options: opts}
}

// Result is what is decided for one request: its hits and, when they are decided, its
// statuses. The zero value is ready for Prepare, and so is one that was used
// before, whose memory is used again.
type Result struct {
	// Hits is what a store must decide. Without hits it need not be asked.
	Hits []limiter.Hit
	// Decisions is for what the store decides, as long as Hits.
	Decisions []limiter.Decision
	// Tree has the rules that the request was decided by.
	Tree *descriptors.Tree
	// Unmatched is how many descriptors have neither a rule nor an override.
	Unmatched int
	// Denied and Statuses, one for each descriptor in order, are there after
	// SetStatuses.
	Denied   bool
	Statuses []Status

	opts     *Options
	matches  []match         // one for each descriptor
	replaced []string        // names of limits
	keys     []byte          // of hits, one after the other
	holds    []byte          // names of holds, likewise
	entries  []limiter.Entry // of matches that have not all those of their descriptor
	labels   []byte          // likewise, of those with values of the request
}

// match is what applies to one descriptor of a request.
type match struct {
	rule      *descriptors.Rule // nil: none, or an override that no rule judges
	entries   []limiter.Entry   // of the descriptor, without the one that names its hold
	hold      []byte            // the name of its hold, nil without
	limits    []*limiter.Limit  // of the rule, or the override; replaced ones included
	above     *descriptors.Rule // its limits hold, too, and those of its Above
	unlimited bool              // one of the limits admits everything, or an exception does
	exception *Exception
	// The hits of the limits that are counted are Result.Hits[first:end].
	first, end int
}

// Prepare fills p with the hits that the rules of tree make of r. The error
// says what is wrong with r, which must not change until p has its statuses.
func (pl *Planner) Prepare(p *Result, tree *descriptors.Tree, r *Request) error {
	p.Reset()
	p.opts, p.Tree = &pl.Options, tree
	if err := r.check(pl.MaxDescriptors); err != nil {
		return err
	}
	if err := p.match(pl, tree, r); err != nil {
		return err
	}
	p.addHits(pl, tree, r)
	return nil
}

// Reset forgets the request, and with it every reference to its bytes and to the
// rules, but keeps the memory of the slices.
func (p *Result) Reset() {
	clear(p.matches)
	clear(p.replaced)
	clear(p.Hits)
	clear(p.Statuses)
	clear(p.entries)
	p.Hits, p.Decisions, p.Statuses = p.Hits[:0], p.Decisions[:0], p.Statuses[:0]
	p.matches, p.replaced = p.matches[:0], p.replaced[:0]
	p.keys, p.labels, p.holds, p.entries = p.keys[:0], p.labels[:0], p.holds[:0], p.entries[:0]
	p.Unmatched, p.Denied, p.opts, p.Tree = 0, false, nil, nil
}

// match finds what applies to each descriptor of r, and counts those that nothing
// applies to.
func (p *Result) match(pl *Planner, tree *descriptors.Tree, r *Request) error {
	var inForce *Exceptions
	if pl.Exceptions != nil {
		inForce = pl.Exceptions.Load()
	}
	for i := range r.Descriptors {
		d := &r.Descriptors[i]
		m := match{entries: d.Entries}
		var rule *descriptors.Rule // that is for d
		var holdEntry int          // the place of the entry that names a hold of it
		if d.HasOverride {
			var err error
			if rule, holdEntry, err = m.override(pl, tree, r.Domain, d); err != nil {
				return fmt.Errorf("descriptor %d: limit: %w", i, err)
			}
		} else if rule, holdEntry = tree.MatchHold(r.Domain, d.Entries); rule != nil {
			m.rule, m.limits, m.above = rule, rule.Limits, rule.Above
		}
		if d.HasOverride && holdEntry < 0 && (m.rule == nil || m.rule.Limits[0].HoldKey() == "") {
			rule = m.above // in the place of the others no name is needed
		}
		var err error
		if rule != nil && rule.Hold != "" {
			err = p.nameHold(&m, rule, holdEntry)
		}
		if inForce != nil {
			// An exception does not stop a refund. Otherwise units taken before it could not be
			// released.
			if e := inForce.Find(r.Domain, m.entries); e != nil && (!d.Refund || e.Effect == Amount) {
				m.exception = e
			}
		}
		if err != nil && !m.isExcepted(Allow) && !m.isExcepted(Deny) {
			return fmt.Errorf("descriptor %d: %w", i, err)
		}
		if m.rule == nil && m.limits == nil {
			p.Unmatched++
		}
		p.noteReplaced(m.limits)
		for above := m.above; above != nil; above = above.Above {
			p.noteReplaced(above.Limits)
		}
		p.matches = append(p.matches, m)
	}
	return nil
}

// noteReplaced collects the names of the limits that limits replace.
func (p *Result) noteReplaced(limits []*limiter.Limit) {
	for _, l := range limits {
		for _, name := range l.Replaces {
			if !slices.Contains(p.replaced, name) {
				p.replaced = append(p.replaced, name)
			}
		}
	}
}

// addHits makes a hit of every limit that is counted: neither unlimited, which
// cannot be replaced, nor replaced. Those of the rule come first, then those that
// hold from above, the nearest first. An exception changes them, or is in their place.
func (p *Result) addHits(pl *Planner, tree *descriptors.Tree, r *Request) {
	for i := range p.matches {
		m, d := &p.matches[i], &r.Descriptors[i]
		m.first = len(p.Hits)
		switch {
		case m.isExcepted(Allow):
			m.unlimited = true
		case m.isExcepted(Deny):
			// The text of a domain without rules is any.
			p.deny(r, d, m.exception, pl.denial(cmp.Or(tree.DomainLabel(r.Domain), "unknown")))
		default:
			p.add(r, d, m, m.own(d))
			for above := m.above; above != nil; above = above.Above {
				p.add(r, d, m, m.levelOf(above))
			}
		}
		m.end = len(p.Hits)
		if m.exception != nil && m.exception.Effect == Amount {
			for j := m.first; j < m.end; j++ {
				p.Hits[j].Limit = pl.multiple(p.Hits[j].Limit, m.exception.Factor)
			}
		}
	}
	p.Decisions = slices.Grow(p.Decisions, len(p.Hits))[:len(p.Hits)]
}

// level is what one rule has for a descriptor.
type level struct {
	rule   *descriptors.Rule // nil of an override that no rule judges
	limits []*limiter.Limit
	// What spells their counters, as limiter.Keys.Append takes it.
	entries  []limiter.Entry
	patterns []string
}

// own returns what m has for d before what holds from above.
func (m *match) own(d *Descriptor) level {
	switch {
	case d.HasOverride && m.rule != nil:
		return level{m.rule, m.limits, m.entries, m.rule.Patterns}
	case d.HasOverride:
		return level{nil, m.limits, m.entries, nil}
	case m.rule != nil:
		return m.levelOf(m.rule)
	default:
		return level{}
	}
}

// levelOf returns what a rule has for the descriptor of m.
func (m *match) levelOf(rule *descriptors.Rule) level {
	return level{rule, rule.Limits, rule.Counted(m.entries), rule.Patterns}
}

// add makes hits of the limits of one level.
func (p *Result) add(r *Request, d *Descriptor, m *match, of level) {
	labels, first := p.addLabels(of.rule, m.entries), len(p.Hits)
	for _, l := range of.limits {
		switch {
		case l.Unlimited:
			m.unlimited = true
		case d.Refund && m.hold != nil && l.HoldKey() == "":
			// What ends gives back its hold. That it began still counts.
		case l.Name != "" && slices.Contains(p.replaced, l.Name):
			// Also if the limit that replaces it is replaced itself.
		default:
			p.Hits = append(p.Hits, limiter.Hit{
				Limit:  l,
				Key:    p.addKey(r.Domain, &of, first, l),
				Cost:   r.Cost(d),
				Refund: d.Refund,
				Always: d.chargedAlways(cmp.Or(l.Charge, p.opts.Charge, limiter.Auto)),
				Mode:   p.opts.DecidingMode(l),
				Labels: labels,
			})
			if l.HoldKey() != "" {
				h := &p.Hits[len(p.Hits)-1]
				h.Hold, h.Cost, h.Always = m.hold, min(h.Cost, 1), false
			}
		}
	}
}

// addLabels spells what metrics call the hits of entries on the limits of a rule, nil if
// only the rules say it.
func (p *Result) addLabels(rule *descriptors.Rule, entries []limiter.Entry) []byte {
	start := len(p.labels)
	if rule != nil {
		p.labels = rule.AppendLabels(p.labels, entries)
	}
	if len(p.labels) == start {
		return nil
	}
	return p.labels[start:len(p.labels):len(p.labels)]
}

// addKey spells the key of l's counter, from the second limit of a level on with
// the help of the first one's, whose hit is at first.
func (p *Result) addKey(domain string, of *level, first int, l *limiter.Limit) []byte {
	start, spelled := len(p.keys), false
	if first < len(p.Hits) {
		p.keys, spelled = p.opts.Keys.AppendSibling(p.keys, p.Hits[first].Key, l)
	}
	if !spelled {
		p.keys = p.opts.Keys.Append(p.keys, domain, of.entries, of.patterns, l)
	}
	return p.keys[start:len(p.keys):len(p.keys)]
}
